"""Queue positions, commands, slots out of service, waits by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "command",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("config", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("context", sa.String(), nullable=True),
        sa.Column("resource_pool", sa.String(), nullable=False),
        sa.Column("queue_position", sa.String(), nullable=True),
        sa.Column("exit_status", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["owner_id"], ["user.id"], name=op.f("fk_command_owner_id_user")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspace.id"], name=op.f("fk_command_workspace_id_workspace")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_command")),
    )
    with op.batch_alter_table("command", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_command_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_command_job_id"), ["job_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_command_owner_id"), ["owner_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_command_state"), ["state"], unique=False)

    with op.batch_alter_table("agent", schema=None) as batch_op:
        # A master of the release before writes agents without it.
        batch_op.add_column(
            sa.Column(
                "slot_service", sa.JSON(none_as_null=True), nullable=False, server_default="{}"
            )
        )

    with op.batch_alter_table("experiment", schema=None) as batch_op:
        batch_op.add_column(sa.Column("queue_position", sa.String(), nullable=True))

    with op.batch_alter_table("allocation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_allocation_started_at"), ["started_at"], unique=False)
