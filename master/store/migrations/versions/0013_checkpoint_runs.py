"""Which run of a trial made its newest checkpoint."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("checkpoint_run_id", sa.Integer(), server_default="0", nullable=False)
        )
