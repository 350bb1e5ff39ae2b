"""Changes of what live views show, and when projects were created."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "change",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("entity_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "entity_id", name=op.f("pk_change")),
    )
    op.create_index("uq_change_seq", "change", ["seq"], unique=True)
    op.create_index("ix_change_deleted", "change", ["deleted", "seq"])
    for kind, table in (
        ("projects", "project"),
        ("models", "model"),
        ("modelversions", "model_version"),
    ):
        op.execute(
            "INSERT INTO change (kind, entity_id, seq, deleted) "  # noqa: S608
            f"SELECT '{kind}', id, (SELECT coalesce(max(seq), 0) FROM change) "
            f"+ row_number() OVER (ORDER BY id), false FROM {table}"
        )
    op.add_column("project", sa.Column("created_at", sa.DateTime(timezone=True), nullable=True))
