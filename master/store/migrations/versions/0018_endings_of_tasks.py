"""How an interactive task ended, apart from the sentence that says so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("command", schema=None) as batch_op:
        batch_op.add_column(sa.Column("ending", sa.String(), nullable=True))
