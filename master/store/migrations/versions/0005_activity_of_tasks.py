"""When an interactive task was last active."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("command", schema=None) as batch_op:
        batch_op.add_column(sa.Column("active_at", sa.DateTime(timezone=True), nullable=True))
