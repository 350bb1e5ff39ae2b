"""Which pools are kept for some workspaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pool_binding",
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"],
            ["workspace.id"],
            name=op.f("fk_pool_binding_workspace_id_workspace"),
        ),
        sa.PrimaryKeyConstraint("pool", "workspace_id", name=op.f("pk_pool_binding")),
    )
    with op.batch_alter_table("pool_binding", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_pool_binding_workspace_id"), ["workspace_id"], unique=False
        )
