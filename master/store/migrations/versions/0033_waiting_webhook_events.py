"""Calls of webhooks that wait are found at once, however many are over; a webhook may be deleted before an event of it
is written."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_WAITING = sa.text("next_try IS NOT NULL")


def upgrade() -> None:
    with op.batch_alter_table("webhook_event", schema=None) as batch_op:
        batch_op.drop_constraint("fk_webhook_event_webhook_id_webhook", type_="foreignkey")
        batch_op.drop_index("ix_webhook_event_next_try")
    op.create_index(
        "ix_webhook_event_waiting",
        "webhook_event",
        ["webhook_id", "id"],
        sqlite_where=_WAITING,
        postgresql_where=_WAITING,
    )
