"""Default pools and checkpoint storage of workspaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("workspace", schema=None) as batch_op:
        batch_op.add_column(sa.Column("default_compute_pool", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("default_aux_pool", sa.String(), nullable=True))
        batch_op.add_column(
            sa.Column("checkpoint_storage", sa.JSON(none_as_null=True), nullable=True)
        )
