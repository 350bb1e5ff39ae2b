"""Webhooks, and the calls that are to be made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
_JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "webhook",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=True),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["user.id"], name=op.f("fk_webhook_owner_id_user")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspace.id"], name=op.f("fk_webhook_workspace_id_workspace")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook")),
    )
    op.create_index(op.f("ix_webhook_workspace_id"), "webhook", ["workspace_id"])
    op.create_table(
        "webhook_trigger",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("webhook_id", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("condition", _JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhook.id"], name=op.f("fk_webhook_trigger_webhook_id_webhook")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_trigger")),
    )
    op.create_index(op.f("ix_webhook_trigger_webhook_id"), "webhook_trigger", ["webhook_id"])
    op.create_table(
        "webhook_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("webhook_id", sa.Integer(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("condition", _JSON, nullable=False),
        sa.Column("facts", _JSON, nullable=False),
        sa.Column("once", sa.String(), nullable=True),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_result", sa.String(), nullable=False),
        sa.Column("next_try", _TIME, nullable=True),
        sa.Column("delivered_at", _TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhook.id"], name=op.f("fk_webhook_event_webhook_id_webhook")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_event")),
    )
    op.create_index("ix_webhook_event_once", "webhook_event", ["once"], unique=True)
    op.create_index("ix_webhook_event_next_try", "webhook_event", ["next_try", "id"])
    op.create_index("ix_webhook_event_webhook_id", "webhook_event", ["webhook_id", "id"])
