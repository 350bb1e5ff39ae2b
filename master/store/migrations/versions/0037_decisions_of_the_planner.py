"""The journal of what was decided about machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fleetdecision",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("first_at", sa.Float(), nullable=False),
        sa.Column("last_at", sa.Float(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fleetdecision")),
    )
    op.create_index("ix_fleetdecision_pool_last_at", "fleetdecision", ["pool", "last_at"])
    op.create_index(op.f("ix_fleetdecision_last_at"), "fleetdecision", ["last_at"])
    op.create_index(op.f("ix_fleetdecision_open"), "fleetdecision", ["open"])
    op.create_table(
        "fleetdecisionsubject",
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("decision_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "decision_id", name=op.f("pk_fleetdecisionsubject")),
    )
    op.create_index(
        op.f("ix_fleetdecisionsubject_decision_id"), "fleetdecisionsubject", ["decision_id"]
    )
