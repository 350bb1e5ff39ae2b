"""Batch jobs that were submitted for requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "batchlease",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("allocation_id", sa.String(), nullable=False),
        sa.Column("over", sa.Boolean(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batchlease")),
    )
    with op.batch_alter_table("batchlease", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_batchlease_allocation_id"), ["allocation_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_batchlease_over"), ["over"], unique=False)
