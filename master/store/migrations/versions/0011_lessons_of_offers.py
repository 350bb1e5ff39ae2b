"""What was learned of offers, a row for each key. What one document held before is moved at the next start."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fleetlesson",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_fleetlesson")),
    )
