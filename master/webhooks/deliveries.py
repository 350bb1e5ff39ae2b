"""Makes the calls that are due: each webhook's in their order, however slow another one's receiver is.

What is to be called is a row before anybody is told, and stays one until a receiver has it or nobody will. A master
that ends in between calls again, with the same `event_id`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
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
    Webhook,
)
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.webhooks.client import Caller
from master.webhooks.registry import WebhookRegistry
from windlass.base.clock import Clock
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
"""While something waits; else nothing is read."""
AT_ONCE = 32
"""Calls."""
READ_AT_ONCE = 100
KEPT = timedelta(days=7)
"""How long what is over can be looked at."""
FORGET_EVERY = timedelta(hours=1)
FORGOTTEN_AT_ONCE = 500
"""Rows: other commits wait meanwhile."""

_E, _W, _X, _P, _S = (
    tables.WebhookEvent,
    tables.Webhook,
    tables.Experiment,
    tables.Project,
    tables.Workspace,
)


class _Place(NamedTuple):
    """Of an experiment."""

    id: int
    workspace: str
    project: str


class Deliveries:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        caller: Caller,
        *,
        registry: WebhookRegistry,
        signing_key: str,
        base_url: str = "",
    ) -> None:
        self._store = store
        self._clock = clock
        self._call = caller
        self._registry = registry
        self._signing_key = signing_key
        self._base_url = base_url
        self._loop = Loop("webhooks", self.step, interval_s=LOOK_EVERY_S)
        self._any = True
        """Something may wait: perhaps since before the start."""
        self._woken = 0
        """How often."""
        self._forget_at = clock.now()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._busy: dict[int, asyncio.Task[None]] = {}
        """By webhook."""

    def wake(self) -> None:
        self._any = True
        self._woken += 1
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
        if self._clock.now() >= self._forget_at:
            await self._forget()
        if not self._any:
            return
        woken = self._woken
        head = select(func.min(_E.id)).where(_W.id == _E.webhook_id, _E.next_try.is_not(None))
        of_each = await self._store.read(
            select(head.correlate(_W).scalar_subquery()).select_from(_W)
        )
        heads = [id_ for id_ in of_each if id_ is not None]
        self._any = bool(heads) or self._woken != woken
        due = select(_E.webhook_id).where(_E.id.in_(heads), _E.next_try <= self._clock.now())
        for webhook_id in await self._store.read(due):
            if webhook_id not in self._busy:
                task = asyncio.create_task(self._drain(webhook_id))
                self._busy[webhook_id] = task
                task.add_done_callback(partial(self._over, webhook_id))

    async def settle(self) -> None:
        """Return when all calls that were begun have ended."""
        while self._busy:
            await asyncio.gather(*self._busy.values())
            await asyncio.sleep(0)

    def _over(self, webhook_id: int, task: asyncio.Task[None]) -> None:
        del self._busy[webhook_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("webhook could not be called", webhook=webhook_id, exc_info=error)

    async def _forget(self) -> None:
        """The oldest rows, which are over, or are of a webhook that is not there any more."""
        now = self._clock.now()
        over = await self._store.read(
            select(_E.id).where(
                _E.id.in_(select(_E.id).order_by(_E.id).limit(FORGOTTEN_AT_ONCE)),
                _E.created_at < now - KEPT,
            )
        )
        if over:
            unit = UnitOfWork()
            unit.execute(delete(_E).where(_E.id.in_(over)))
            await self._store.commit(unit)
        if len(over) < FORGOTTEN_AT_ONCE:
            self._forget_at = now + FORGET_EVERY

    async def _drain(self, webhook_id: int) -> None:
        """Call after call, until one has to wait or none is left."""
        waiting = (
            select(_E)
            .where(_E.webhook_id == webhook_id, _E.next_try.is_not(None))
            .order_by(_E.id)
            .limit(READ_AT_ONCE)
        )
        while rows := await self._store.read(waiting):
            places = await self._places_of(rows)
            for row in rows:
                webhook = self._registry.get(webhook_id)  # as it is now
                if webhook is None or row.next_try is None or row.next_try > self._clock.now():
                    return
                if (await self._deliver(webhook, row, places)).next_try is not None:
                    return

    async def _deliver(
        self, webhook: Webhook, row: tables.WebhookEvent, places: Mapping[int, _Place]
    ) -> Outcome:
        body = body_of(_event(row, places), webhook.type, self._base_url)
        async with self._places:
            signed = headers(body, self._signing_key, int(self._clock.now().timestamp()))
            attempt = await self._call(webhook.url, body, signed)
        attempts = row.attempts + 1
        found = outcome(
            attempt,
            attempts=attempts,
            since=row.created_at,
            now=self._clock.now(),
            jitter=random.random(),
        )
        await self._note(row, attempts, found)
        return found

    async def _note(self, row: tables.WebhookEvent, attempts: int, found: Outcome) -> None:
        unit = UnitOfWork()
        unit.update(
            _E,
            {"id": row.id},
            {
                "attempts": attempts,
                "last_result": found.result,
                "next_try": found.next_try,
                "delivered_at": self._clock.now() if found.delivered else None,
            },
        )
        await self._store.commit(unit)
        if not found.delivered:
            log.warning(
                "webhook was not taken",
                webhook=row.webhook_id,
                event_id=row.event_id,
                attempts=attempts,
                result=found.result,
                next_try=None if found.next_try is None else found.next_try.isoformat(),
            )

    async def _places_of(self, rows: Sequence[tables.WebhookEvent]) -> Mapping[int, _Place]:
        """The names of workspace and project of each experiment that is still there."""
        ids = {row.facts["experiment"]["id"] for row in rows if "experiment" in row.facts}
        found = await self._store.read(
            select(_X.id, _S.name, _P.name)
            .select_from(_X)
            .join(_P, _P.id == _X.project_id)
            .join(_S, _S.id == _P.workspace_id)
            .where(_X.id.in_(ids)),
            _Place,
        )
        return {place.id: place for place in found}


def _event(row: tables.WebhookEvent, places: Mapping[int, _Place]) -> Event:
    facts: Mapping[str, Any] = row.facts
    given, task_log, custom = (facts.get(key) for key in ("experiment", "task_log", "custom_data"))
    return Event(
        id=row.event_id,
        type=TriggerType(row.type),
        at=int(row.created_at.timestamp()),
        condition=row.condition,
        experiment=None if given is None else _experiment(given, places.get(given["id"])),
        log=None
        if task_log is None
        else LogFacts(
            task_id=task_log["task_id"],
            node=task_log["node_name"],
            line=task_log["triggering_log"],
        ),
        custom=None if custom is None else CustomFacts(**custom),
    )


def _experiment(given: Mapping[str, Any], place: _Place | None) -> ExperimentFacts:
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
