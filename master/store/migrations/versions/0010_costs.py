"""What machines cost, by month and job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cost",
        sa.Column("month", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("instance_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("experiment_id", sa.Integer(), nullable=True),
        sa.Column("usd", sa.Float(), nullable=False),
        sa.Column("hours", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint(
            "month", "pool", "instance_id", "job_id", "kind", name=op.f("pk_cost")
        ),
    )
    with op.batch_alter_table("cost", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_cost_experiment_id"), ["experiment_id"], unique=False)
    with op.batch_alter_table("allocation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_allocation_ended_at"), ["ended_at"], unique=False)
    op.add_column("fleetinstance", sa.Column("booked_until", sa.Float(), nullable=True))
