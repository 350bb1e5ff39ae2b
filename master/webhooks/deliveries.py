"""Makes the calls that are due: each webhook's in their order, however slow another one's receiver is.

What is to be called is a row before anybody is told, and stays one until a receiver has it or nobody will. A master
that ends in between calls again, with the same `event_id`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import structlog
from sqlalchemy import delete, func, select

from master.core.webhooks.payloads import body_of
from master.core.webhooks.retries import Outcome, outcome
from master.core.webhooks.signing import headers
from master.core.webhooks.types import (
    CustomFacts,
    Event,
    ExperimentFacts,
    LogFacts,
    TriggerType,
    WebhookType,
)
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.webhooks.client import Caller
from windlass.base.clock import Clock
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
"""While something waits; else nothing is read."""
AT_ONCE = 32
"""Calls."""
KEPT = timedelta(days=7)
"""How long what is over can be looked at."""

_E, _W, _X, _P, _S = (
    tables.WebhookEvent,
    tables.Webhook,
    tables.Experiment,
    tables.Project,
    tables.Workspace,
)


class _Due(NamedTuple):
    event: tables.WebhookEvent
    webhook: tables.Webhook


class _Place(NamedTuple):
    workspace: str
    project: str


class Deliveries:
    def __init__(
        self, store: Store, clock: Clock, caller: Caller, *, signing_key: str, base_url: str = ""
    ) -> None:
        self._store = store
        self._clock = clock
        self._call = caller
        self._signing_key = signing_key
        self._base_url = base_url
        self._loop = Loop("webhooks", self.step, interval_s=LOOK_EVERY_S)
        self._any = True
        """Something may wait: perhaps since before the start."""
        self._places = asyncio.Semaphore(AT_ONCE)
        self._busy: dict[int, asyncio.Task[None]] = {}
        """By webhook."""

    def wake(self) -> None:
        self._any = True
        self._loop.wake()

    async def run(self) -> None:
        try:
            await self._loop.run()
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def step(self) -> None:
        """Begin with every webhook whose oldest call is due."""
        if not self._any:
            return
        heads = await self._store.read(
            select(func.min(_E.id)).where(_E.next_try.is_not(None)).group_by(_E.webhook_id)
        )
        self._any = bool(heads)
        for due in await self._due(heads):
            if due.webhook.id not in self._busy:
                task = asyncio.create_task(self._drain(due))
                self._busy[due.webhook.id] = task
                task.add_done_callback(partial(self._over, due.webhook.id))

    async def settle(self) -> None:
        """Return when all calls that were begun have ended."""
        while self._busy:
            await asyncio.gather(*self._busy.values())
            await asyncio.sleep(0)

    def _over(self, webhook_id: int, task: asyncio.Task[None]) -> None:
        del self._busy[webhook_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("webhook could not be called", webhook=webhook_id, exc_info=error)

    async def _due(self, ids: list[int]) -> list[_Due]:
        return await self._store.read(
            select(_E, _W)
            .join(_W, _W.id == _E.webhook_id)
            .where(_E.id.in_(ids), _E.next_try <= self._clock.now()),
            _Due,
        )

    async def _drain(self, due: _Due | None) -> None:
        """Call after call of one webhook, until one has to wait or none is left."""
        while due is not None:
            await self._deliver(due)
            head = await self._store.read_one(
                select(func.min(_E.id)).where(
                    _E.next_try.is_not(None), _E.webhook_id == due.webhook.id
                )
            )
            due = next(iter(await self._due([head])), None) if head is not None else None

    async def _deliver(self, due: _Due) -> None:
        event = await self._event(due.event)
        body = body_of(event, WebhookType(due.webhook.type), self._base_url)
        async with self._places:
            signed = headers(body, self._signing_key, int(self._clock.now().timestamp()))
            attempt = await self._call(due.webhook.url, body, signed)
        attempts = due.event.attempts + 1
        found = outcome(
            attempt,
            attempts=attempts,
            since=due.event.created_at,
            now=self._clock.now(),
            jitter=random.random(),
        )
        await self._note(due, attempts, found)

    async def _note(self, due: _Due, attempts: int, found: Outcome) -> None:
        now = self._clock.now()
        unit = UnitOfWork()
        unit.update(
            _E,
            {"id": due.event.id},
            {
                "attempts": attempts,
                "last_result": found.result,
                "next_try": found.next_try,
                "delivered_at": now if found.delivered else None,
            },
        )
        if found.next_try is None:
            over = (_E.webhook_id == due.webhook.id, _E.next_try.is_(None))
            unit.execute(delete(_E).where(*over, _E.created_at < now - KEPT))
        await self._store.commit(unit)
        if not found.delivered:
            log.warning(
                "webhook was not taken",
                webhook=due.webhook.id,
                event_id=due.event.event_id,
                attempts=attempts,
                result=found.result,
                next_try=None if found.next_try is None else found.next_try.isoformat(),
            )

    async def _event(self, row: tables.WebhookEvent) -> Event:
        facts: Mapping[str, Any] = row.facts
        given = facts.get("experiment")
        task_log, custom = facts.get("task_log"), facts.get("custom_data")
        return Event(
            id=row.event_id,
            type=TriggerType(row.type),
            at=int(row.created_at.timestamp()),
            condition=row.condition,
            experiment=None if given is None else await self._experiment(given),
            log=None
            if task_log is None
            else LogFacts(
                task_id=task_log["task_id"],
                node=task_log["node_name"],
                line=task_log["triggering_log"],
            ),
            custom=None if custom is None else CustomFacts(**custom),
        )

    async def _experiment(self, given: Mapping[str, Any]) -> ExperimentFacts:
        """With the names of its workspace and project, if it is still there."""
        place = await self._store.read_one(
            select(_S.name, _P.name)
            .select_from(_X)
            .join(_P, _P.id == _X.project_id)
            .join(_S, _S.id == _P.workspace_id)
            .where(_X.id == given["id"]),
            _Place,
        )
        return ExperimentFacts(
            id=given["id"],
            state=given["state"],
            name=given["name"],
            duration_s=given["duration"],
            resource_pool=given.get("resource_pool", ""),
            slots_per_trial=given["slots_per_trial"],
            trial_id=given.get("trial_id"),
            workspace="" if place is None else place.workspace,
            project="" if place is None else place.project,
        )
