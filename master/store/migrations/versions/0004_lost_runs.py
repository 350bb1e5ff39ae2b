"""How often a trial lost its machine since its last checkpoint."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("lost_runs", sa.Integer(), server_default="0", nullable=False)
        )
