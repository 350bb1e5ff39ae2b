"""Files to delete from checkpoint storage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoint_gc",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("checkpoints", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("globs", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("asked_by", sa.Integer(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("seen", sa.Boolean(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name=op.f("pk_checkpoint_gc")),
    )
    with op.batch_alter_table("checkpoint_gc", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_checkpoint_gc_experiment_id"), ["experiment_id"], unique=False
        )
