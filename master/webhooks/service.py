"""What users do with webhooks: create, give another URL, delete, test."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import structlog
from sqlalchemy import delete, select

from master.core.actor import Actor
from master.core.patterns import Pattern
from master.core.webhooks.payloads import body_of
from master.core.webhooks.retries import Answer
from master.core.webhooks.signing import headers
from master.core.webhooks.types import (
    Event,
    Trigger,
    TriggerType,
    Webhook,
    WebhookMode,
    WebhookType,
)
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.webhooks.client import Caller
from master.webhooks.registry import WebhookRegistry
from master.webhooks.targets import Targets
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument, NotFound, WindlassError
from windlass.base.ids import Ids

log = structlog.get_logger(__name__)

MAX_WEBHOOKS = 1_000
MAX_TRIGGERS = 50
"""Of one."""
MAX_NAME = 200
"""Characters."""
MAX_REGEX = 1_000
_E, _T = tables.WebhookEvent, tables.WebhookTrigger


class NewTrigger(NamedTuple):
    type: str
    condition: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    name: str
    url: str
    type: WebhookType
    mode: WebhookMode
    workspace_id: int | None
    triggers: Sequence[NewTrigger]


class NotTaken(WindlassError):
    """A receiver did not take a test."""

    code = "invalid_argument"


class WebhookService:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        registry: WebhookRegistry,
        targets: Targets,
        caller: Caller,
        signing_key: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._registry = registry
        self._targets = targets
        self._call = caller
        self.signing_key = signing_key
        self._queue = SerialQueue("webhooks")

    async def create(self, new: NewWebhook, *, by: Actor) -> int:
        """Its id. It belongs to `by`. Raises InvalidArgument."""
        self._check(new)
        checked = [_trigger(one, new.mode, number) for number, one in enumerate(new.triggers)]

        async def turn() -> int:
            if len(self._registry.all()) >= MAX_WEBHOOKS:
                raise InvalidArgument(f"there are {MAX_WEBHOOKS} webhooks already: delete some")
            id_ = self._store.next_id(tables.Webhook)
            triggers = [replace(one, id=self._store.next_id(_T)) for one in checked]
            unit = UnitOfWork()
            row = {
                "id": id_,
                "name": new.name,
                "url": new.url,
                "type": new.type.value,
                "mode": new.mode.value,
                "workspace_id": new.workspace_id,
                "owner_id": by.user_id,
                "created_at": self._clock.now(),
            }
            unit.insert(tables.Webhook, row)
            for one in triggers:
                values = {"webhook_id": id_, "type": one.type.value, "condition": one.condition}
                unit.insert(_T, {"id": one.id, **values})
            await self._store.commit(unit)
            self._registry.register(
                Webhook(
                    id=id_,
                    name=new.name,
                    url=new.url,
                    type=new.type,
                    mode=new.mode,
                    workspace_id=new.workspace_id,
                    triggers=triggers,
                )
            )
            log.info("webhook created", webhook=id_, name=new.name, by=str(by))
            return id_

        return await self._queue.run(turn)

    async def set_url(self, webhook_id: int, url: str, *, by: Actor) -> None:
        """Calls that wait go there, too. Raises NotFound, InvalidArgument."""
        self._targets.require_url(url)

        async def turn() -> None:
            found = self.webhook(webhook_id)
            unit = UnitOfWork()
            unit.update(tables.Webhook, {"id": webhook_id}, {"url": url}, expect=1)
            await self._store.commit(unit)
            self._registry.register(replace(found, url=url))
            log.info("webhook changed", webhook=webhook_id, by=str(by))

        await self._queue.run(turn)

    async def delete(self, webhook_id: int, *, by: Actor) -> None:
        """With the calls that wait. Raises NotFound."""

        async def turn() -> None:
            found = self.webhook(webhook_id)
            # First out of memory: what is committed from now on calls it no more.
            self._registry.forget(webhook_id)
            try:
                await self._store.commit(removal_of([webhook_id]))
            except WindlassError:
                self._registry.register(found)
                raise
            log.info("webhook deleted", webhook=webhook_id, by=str(by))

        await self._queue.run(turn)

    async def test(self, webhook_id: int) -> None:
        """Call it once. Raises NotFound, NotTaken with what the receiver answered."""
        webhook = self.webhook(webhook_id)
        now = int(self._clock.now().timestamp())
        event = Event(
            id=self._ids.uuid(),
            type=TriggerType.STATE_CHANGE,
            at=now,
            condition={"state": "COMPLETED"},
            is_test=True,
        )
        body = body_of(event, webhook.type)
        answer = await self._call(webhook.url, body, headers(body, self.signing_key, now))
        if not isinstance(answer, Answer):
            raise NotTaken(f"webhook {webhook_id}: {answer.why}")
        if answer.status >= 300:
            raise NotTaken(f"webhook {webhook_id}: its receiver answered {answer.status}")

    def webhook(self, webhook_id: int) -> Webhook:
        """Raises NotFound."""
        if (found := self._registry.get(webhook_id)) is None:
            raise NotFound("webhook", webhook_id)
        return found

    def _check(self, new: NewWebhook) -> None:
        if not new.name.strip() or len(new.name) > MAX_NAME or not new.name.isprintable():
            raise InvalidArgument(f"name: must be printable, with 1 to {MAX_NAME} characters")
        self._targets.require_url(new.url)
        if not new.triggers:
            raise InvalidArgument("triggers: at least one trigger required")
        if len(new.triggers) > MAX_TRIGGERS:
            raise InvalidArgument(f"triggers: has {len(new.triggers)}, more than {MAX_TRIGGERS}")


def derived_key(secret: bytes) -> str:
    """What signs calls where master.yaml has no key: the same as long as the cluster has its secret."""
    return hmac.new(secret, b"webhooks.signing_key", hashlib.sha256).hexdigest()


def removal_of(webhook_ids: Sequence[int]) -> UnitOfWork:
    unit = UnitOfWork()
    unit.execute(delete(_E).where(_E.webhook_id.in_(webhook_ids)))
    unit.execute(delete(_T).where(_T.webhook_id.in_(webhook_ids)))
    unit.execute(delete(tables.Webhook).where(tables.Webhook.id.in_(webhook_ids)))
    return unit


def _trigger(given: NewTrigger, mode: WebhookMode, number: int) -> Trigger:
    where, condition = f"triggers[{number}]", given.condition
    type_ = TriggerType(given.type)
    match type_:
        case TriggerType.STATE_CHANGE:
            state = condition.get("state")
            if set(condition) != {"state"} or not isinstance(state, str) or not state:
                raise InvalidArgument(
                    f'{where}.condition: must be {{"state": STATE}}, for instance COMPLETED, but is '
                    f"{_shown(condition)}"
                )
            return Trigger(id=0, type=type_, state=state.removeprefix("STATE_"))
        case TriggerType.TASK_LOG:
            regex = condition.get("regex")
            if set(condition) != {"regex"} or not isinstance(regex, str) or not regex:
                raise InvalidArgument(
                    f'{where}.condition: must be {{"regex": EXPRESSION}}, but is {_shown(condition)}'
                )
            if len(regex) > MAX_REGEX:
                raise InvalidArgument(
                    f"{where}.condition.regex: has {len(regex)} characters, more than {MAX_REGEX}"
                )
            try:
                Pattern(regex)
            except ValueError as error:
                raise InvalidArgument(f"{where}.condition.regex: {error}") from None
            return Trigger(id=0, type=type_, regex=regex)
        case TriggerType.CUSTOM:
            if mode is not WebhookMode.SPECIFIC:
                raise InvalidArgument(
                    f"{where}: custom triggers only work on webhooks with the mode WEBHOOK_MODE_SPECIFIC"
                )
            if condition:
                raise InvalidArgument(f"{where}.condition: must be empty for a custom trigger")
            return Trigger(id=0, type=type_)
        case TriggerType.METRIC:
            raise InvalidArgument(
                f"{where}.triggerType: thresholds of metrics are not watched: report an alert from the program "
                "(core_context.alert), with a custom trigger"
            )


def _shown(condition: Mapping[str, Any]) -> str:
    return json.dumps(dict(condition), default=str)[:200]


async def deliveries(store: Store, webhook_id: int, limit: int) -> list[tables.WebhookEvent]:
    """Newest first."""
    return await store.read(
        select(_E).where(_E.webhook_id == webhook_id).order_by(_E.id.desc()).limit(limit)
    )
