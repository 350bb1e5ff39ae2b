"""Trials that are deleted while their experiment stays."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("trial", schema=None) as batch_op:
        for name in ("deletion", "deletion_error"):
            batch_op.add_column(sa.Column(name, sa.String(), nullable=False, server_default=""))
    with op.batch_alter_table("trial", schema=None) as batch_op:
        for name in ("deletion", "deletion_error"):
            batch_op.alter_column(name, server_default=None)
    with op.batch_alter_table("checkpoint_gc", schema=None) as batch_op:
        batch_op.add_column(sa.Column("trial_id", sa.Integer(), nullable=True))
