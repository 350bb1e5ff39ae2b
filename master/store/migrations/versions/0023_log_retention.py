"""How long the logs of tasks are kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("task", schema=None) as batch_op:
        batch_op.add_column(sa.Column("log_retention_days", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("logs_removed_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.create_index(batch_op.f("ix_task_ended_at"), ["ended_at"], unique=False)
