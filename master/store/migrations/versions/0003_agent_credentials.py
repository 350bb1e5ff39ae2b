"""Credentials of agents, spent join tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "join_token_use",
        sa.Column("token_id", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("credential_hash", sa.String(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("token_id", "agent_id", name=op.f("pk_join_token_use")),
    )
    with op.batch_alter_table("agent", schema=None) as batch_op:
        batch_op.add_column(sa.Column("credential_hash", sa.String(), nullable=True))
