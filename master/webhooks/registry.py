"""All webhooks in memory, and the rows of calls that events bring about: committed together with what they tell of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select

from master.core.webhooks.matching import Fired, naming_problems, state_changed, triggers_of
from master.core.webhooks.types import (
    CustomFacts,
    ExperimentFacts,
    LogFacts,
    Source,
    Trigger,
    TriggerType,
    Webhook,
    WebhookMode,
    WebhookType,
)
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidConfig
from windlass.base.ids import Ids

_W, _T = tables.Webhook, tables.WebhookTrigger


class WebhookRow(NamedTuple):
    webhook: tables.Webhook
    triggers: Sequence[tables.WebhookTrigger]


class WebhookRegistry:
    def __init__(self, store: Store, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._webhooks: dict[int, Webhook] = {}
        self.wake: Callable[[], None] = lambda: None
        """Calls were committed."""

    async def load(self) -> None:
        """Once, after the lease was taken."""
        for row in await self.rows():
            self.register(webhook_of(row))

    async def rows(self) -> list[WebhookRow]:
        """By id."""
        triggers: dict[int, list[tables.WebhookTrigger]] = {}
        for trigger in await self._store.read(select(_T).order_by(_T.id)):
            triggers.setdefault(trigger.webhook_id, []).append(trigger)
        webhooks = await self._store.read(select(_W).order_by(_W.id))
        return [WebhookRow(one, triggers.get(one.id, [])) for one in webhooks]

    def register(self, webhook: Webhook) -> None:
        """It is committed."""
        self._webhooks[webhook.id] = webhook

    def forget(self, webhook_id: int) -> None:
        self._webhooks.pop(webhook_id, None)

    def forget_workspace(self, workspace_id: int) -> None:
        for webhook in list(self._webhooks.values()):
            if webhook.workspace_id == workspace_id:
                self.forget(webhook.id)

    def get(self, webhook_id: int) -> Webhook | None:
        return self._webhooks.get(webhook_id)

    def all(self) -> Sequence[Webhook]:
        return list(self._webhooks.values())

    def require(self, source: Source) -> None:
        """Raises InvalidConfig for a configuration that names webhooks that it cannot call."""
        if problems := naming_problems(self.all(), source):
            raise InvalidConfig(problems, what="experiment configuration")

    def state_changed(self, source: Source, experiment: ExperimentFacts) -> UnitOfWork:
        """The calls that tell of it. In any thread."""
        if not self._webhooks:
            return UnitOfWork()
        fired = state_changed(self.all(), source, experiment.state)
        return self._calls(fired, {"experiment": experiment.to_json()})

    def alert(self, source: Source, experiment: ExperimentFacts, custom: CustomFacts) -> UnitOfWork:
        """The calls that tell what a program said."""
        fired = triggers_of(self.all(), source, TriggerType.CUSTOM)
        facts = {"experiment": experiment.to_json(), "custom_data": custom.to_json()}
        return self._calls(fired, facts)

    async def matched(
        self, fired: Fired, line: LogFacts, experiment: ExperimentFacts | None
    ) -> None:
        """Commit the call that tells of a line, unless this task has called this trigger before."""
        facts: dict[str, Any] = {"task_log": line.to_json()}
        if experiment is not None:
            facts["experiment"] = experiment.to_json()
        calls = self._calls([fired], facts, once=f"{fired.trigger.id} {line.task_id}")
        try:
            await self._store.commit(calls)
        except Conflict:
            return
        self.wake()

    def _calls(
        self, fired: Iterable[Fired], facts: Mapping[str, Any], once: str | None = None
    ) -> UnitOfWork:
        """`once`: the call is made only if none has this key."""
        unit, now = UnitOfWork(), self._clock.now()
        for webhook, trigger in fired:
            unit.insert(
                tables.WebhookEvent,
                {
                    "id": self._store.next_id(tables.WebhookEvent),
                    "webhook_id": webhook.id,
                    "event_id": self._ids.uuid(),
                    "type": trigger.type.value,
                    "condition": trigger.condition,
                    "once": once,
                    "facts": dict(facts),
                    "created_at": now,
                    "attempts": 0,
                    "last_result": "",
                    "next_try": now,
                    "delivered_at": None,
                },
            )
        return unit


def webhook_of(row: WebhookRow) -> Webhook:
    webhook = row.webhook
    return Webhook(
        id=webhook.id,
        name=webhook.name,
        url=webhook.url,
        type=WebhookType(webhook.type),
        mode=WebhookMode(webhook.mode),
        workspace_id=webhook.workspace_id,
        triggers=[
            Trigger(
                id=one.id,
                type=TriggerType(one.type),
                state=str(one.condition.get("state", "")),
                regex=str(one.condition.get("regex", "")),
            )
            for one in row.triggers
        ],
    )
