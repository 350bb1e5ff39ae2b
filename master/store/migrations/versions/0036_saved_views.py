"""Views of lists that users keep."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_view",
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("list", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("filter", sa.String(), nullable=False),
        sa.Column("sort", sa.String(), nullable=False),
        sa.Column("columns", sa.String(), nullable=True),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("workspace_id", sa.Integer(), nullable=True),
        sa.Column("modified_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["user.id"], name=op.f("fk_saved_view_owner_id_user")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["project.id"], name=op.f("fk_saved_view_project_id_project")
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspace.id"], name=op.f("fk_saved_view_workspace_id_workspace")
        ),
        sa.PrimaryKeyConstraint("owner_id", "list", "name", name=op.f("pk_saved_view")),
    )
    op.create_index(op.f("ix_saved_view_project_id"), "saved_view", ["project_id"])
    op.create_index(op.f("ix_saved_view_workspace_id"), "saved_view", ["workspace_id"])
