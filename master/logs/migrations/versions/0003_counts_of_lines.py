"""Lines of a task by minute. Those stored before are counted when somebody asks (`uncounted_to`)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "log_count",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "minute", name=op.f("pk_log_count")),
    )
    op.execute(
        "INSERT INTO log_meta (key, value) SELECT 'uncounted_to', CAST(newest AS VARCHAR) "
        "FROM (SELECT max(id) AS newest FROM log_entry) AS lines WHERE newest IS NOT NULL"
    )
