"""Rare work that is due at a time of day. What must react within seconds is a `Loop`, not this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from master.auth.issued_tokens import IssuedTokens
from master.auth.service import AuthService
from master.config.schedules import trigger_of
from master.costs.recorder import CostRecorder
from master.logs.retention import LogRetention
from master.prices.live import LivePrices
from master.prices.refresh import PriceRefresh
from master.store.blob_names import named_blobs
from master.store.blobs import BlobStore
from master.store.repositories.agents import AgentsRepository
from master.store.repositories.decisions import DecisionQueries
from master.store.store import Store
from windlass.base.clock import Clock
from windlass.base.loop import Loop

EVERY_S = 3600.0


def housekeeping(
    store: Store, auth: AuthService, join_tokens: IssuedTokens, blobs: BlobStore, clock: Clock
) -> Loop:
    async def clean() -> None:
        await auth.remove_expired_sessions()
        await auth.access_tokens.remove_old()
        await join_tokens.remove_old()
        await AgentsRepository(store).forget_uses(clock.now())
        await DecisionQueries(store).remove_old(clock.now().timestamp())
        await blobs.remove_unnamed(await named_blobs(store))

    return Loop("housekeeping", clean, interval_s=EVERY_S)


log = structlog.get_logger(__name__)

PRICES_EVERY_S = 10
VENDORS_EVERY_S = 60
"""How often it is looked whether some vendor is to be asked."""


class TimedWork:
    """Runs each job when its trigger says so: never twice at once, and once for all times that were missed."""

    def __init__(self) -> None:
        self._scheduler = AsyncIOScheduler(timezone=UTC)

    def add(self, name: str, work: Callable[[], Awaitable[None]], trigger: BaseTrigger) -> None:
        async def guarded() -> None:
            try:
                await work()
            except Exception:
                log.exception("timed work failed", job=name)

        self._scheduler.add_job(
            guarded,
            trigger,
            id=name,
            name=name,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )

    async def run(self) -> None:
        """Until cancelled."""
        self._scheduler.start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._scheduler.shutdown(wait=False)


def timed_work(
    costs: CostRecorder,
    prices: LivePrices,
    vendors: PriceRefresh,
    retention: LogRetention,
    *,
    clean_logs: str | None,
) -> TimedWork:
    """All of a master. `clean_logs`: the schedule, if there is one."""

    async def refresh() -> None:
        prices.look()

    async def clean() -> None:
        await retention.clean()

    work = TimedWork()
    work.add("look for other prices", refresh, IntervalTrigger(seconds=PRICES_EVERY_S))
    work.add("ask vendors for prices", vendors.refresh, IntervalTrigger(seconds=VENDORS_EVERY_S))
    work.add("sum up costs of past months", costs.roll_up, CronTrigger(hour=3, timezone=UTC))
    if clean_logs is not None:
        work.add("delete old task logs", clean, trigger_of(clean_logs))
    return work
