"""When the leader's lease ends, and who holds it."""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("leader", schema=None) as batch_op:
        batch_op.add_column(sa.Column("holder", sa.String(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("place", sa.String(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("expires_at", sqlmodel.UTCDateTime(), nullable=True))
