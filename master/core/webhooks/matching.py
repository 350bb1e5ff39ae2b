"""Which webhooks an event concerns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from master.core.webhooks.types import Source, Trigger, TriggerType, Webhook, WebhookMode


class Fired(NamedTuple):
    webhook: Webhook
    trigger: Trigger


def state_changed(webhooks: Iterable[Webhook], source: Source, state: str) -> Iterator[Fired]:
    """Of an experiment that has this state from now on."""
    for fired in triggers_of(webhooks, source, TriggerType.STATE_CHANGE):
        if fired.trigger.state == state:
            yield fired


def triggers_of(webhooks: Iterable[Webhook], source: Source, type_: TriggerType) -> Iterator[Fired]:
    """Of this type, of webhooks that listen to `source`."""
    for webhook in webhooks:
        if listens(webhook, source):
            for trigger in webhook.triggers:
                if trigger.type is type_:
                    yield Fired(webhook, trigger)


def listens(webhook: Webhook, source: Source) -> bool:
    """Whether events of `source` are for this webhook."""
    if source.exclude or not in_scope(webhook, source.workspace_id):
        return False
    if webhook.mode is WebhookMode.WORKSPACE:
        return True
    return webhook.id in source.ids or webhook.name in source.names


def in_scope(webhook: Webhook, workspace_id: int) -> bool:
    return webhook.workspace_id in (None, workspace_id)
