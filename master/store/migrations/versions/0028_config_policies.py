"""What administrators fix for the work of the cluster and of workspaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "configpolicy",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=True),
        sa.Column("workload", sa.String(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("changed_by", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["changed_by"], ["user.id"], name=op.f("fk_configpolicy_changed_by_user")
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspace.id"], name=op.f("fk_configpolicy_workspace_id_workspace")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_configpolicy")),
    )
    with op.batch_alter_table("configpolicy", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_configpolicy_workspace_id"), ["workspace_id"], unique=False
        )
