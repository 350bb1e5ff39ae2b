"""What log policies made of trials."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.add_column(sa.Column("log_policy", sa.String(), server_default="", nullable=False))
        batch_op.add_column(
            sa.Column("retries_cancelled", sa.Boolean(), server_default=sa.false(), nullable=False)
        )
        batch_op.add_column(sa.Column("avoids", sa.JSON(), server_default="[]", nullable=False))
