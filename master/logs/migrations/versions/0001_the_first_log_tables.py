"""The first log tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "log_entry",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("allocation_id", sa.String(), nullable=True),
        sa.Column("agent_id", sa.String(), nullable=True),
        sa.Column("container_id", sa.String(), nullable=True),
        sa.Column("rank_id", sa.Integer(), nullable=True),
        sa.Column("level", sa.String(), nullable=True),
        sa.Column("stdtype", sa.String(), nullable=True),
        sa.Column("source", sa.String(), nullable=True),
        sa.Column("log", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log_entry")),
    )
    with op.batch_alter_table("log_entry", schema=None) as batch_op:
        batch_op.create_index("ix_log_entry_task_id", ["task_id", "timestamp", "id"], unique=False)

    op.create_table(
        "log_offset",
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("container_id", name=op.f("pk_log_offset")),
    )
    with op.batch_alter_table("log_offset", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_log_offset_task_id"), ["task_id"], unique=False)
