"""Which webhooks an event concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from master.core.webhooks.types import Source, Trigger, TriggerType, Webhook, WebhookMode

AT = "<config>.integrations.webhooks"
Is: TypeAlias = Callable[[Webhook], bool]


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


def naming_problems(webhooks: Sequence[Webhook], source: Source) -> list[str]:
    """What is wrong with the webhooks that a configuration names. One of another workspace is not there."""
    near = [one for one in webhooks if in_scope(one, source.workspace_id)]
    named: list[tuple[str, str, Is]] = [
        *((f"webhook_id[{n}]", str(id_), _has_id(id_)) for n, id_ in enumerate(source.ids)),
        *(
            (f"webhook_name[{n}]", repr(name), _has_name(name))
            for n, name in enumerate(source.names)
        ),
    ]
    problems: list[str] = []
    for where, shown, is_it in named:
        found = [one for one in near if is_it(one)]
        if not found:
            problems.append(
                f"{AT}.{where}: there is no webhook {shown} for this workspace or for the whole cluster: "
                "`det webhook list` shows those that there are"
            )
        elif all(one.mode is not WebhookMode.SPECIFIC for one in found):
            problems.append(
                f"{AT}.{where}: webhook {shown} has the mode WORKSPACE, all experiments call it: leave it out, "
                "or name one of the mode SPECIFIC"
            )
    return problems


def _has_id(id_: int) -> Is:
    return lambda one: one.id == id_


def _has_name(name: str) -> Is:
    return lambda one: one.name == name
