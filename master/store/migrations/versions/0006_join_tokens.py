"""Join tokens that administrators make, and when each was used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "join_token",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("names", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("agents", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_join_token")),
    )
    with op.batch_alter_table("join_token_use", schema=None) as batch_op:
        batch_op.add_column(sa.Column("used_at", sa.DateTime(timezone=True), nullable=True))
