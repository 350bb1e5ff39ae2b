"""How busy the queues are, and how long work waited in them, by pool and day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Float, String, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from master.store import tables
from master.store.store import Store

DAYS = 30
"""How many days before today are told of."""


@dataclass(frozen=True, slots=True)
class DailyWait:
    """How long the allocations that started on `day` (UTC) had waited for it, on average."""

    day: date
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Of one pool. Jobs are counted by the most advanced of their allocations."""

    pool: str
    queued: int
    scheduled: int
    daily_waits: tuple[DailyWait, ...]


class _Wait(NamedTuple):
    pool: str
    day: str
    seconds: float


class WaitQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def daily_waits(self, now: datetime) -> Mapping[str, Sequence[DailyWait]]:
        """By pool, oldest day first: the last 30 days and today. Days on which nothing started are left out."""
        allocation = tables.Allocation
        started, day = allocation.started_at, _UtcDay(allocation.started_at)
        pool = func.coalesce(allocation.granted_pool, allocation.pool)
        waited = func.avg(_SecondsBetween(allocation.requested_at, started))
        first = datetime.combine(now.astimezone(UTC).date() - timedelta(days=DAYS), time(), UTC)
        rows = await self._store.read(
            select(pool, day, waited)
            .where(started >= first)
            .group_by(pool, day)
            .order_by(pool, day),
            _Wait,
        )
        found: dict[str, list[DailyWait]] = {}
        for row in rows:
            wait = DailyWait(date.fromisoformat(row.day), float(row.seconds))
            found.setdefault(row.pool, []).append(wait)
        return found


class _UtcDay(FunctionElement[str]):
    """The day of a time as YYYY-MM-DD."""

    type = String()
    inherit_cache = True
    name = "utc_day"


@compiles(_UtcDay, "sqlite")
def _sqlite_day(element: _UtcDay, compiler: Any, **options: Any) -> str:
    return f"date({compiler.process(element.clauses, **options)})"


@compiles(_UtcDay, "postgresql")
def _postgresql_day(element: _UtcDay, compiler: Any, **options: Any) -> str:
    time_ = compiler.process(element.clauses, **options)
    return f"to_char({time_} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


class _SecondsBetween(FunctionElement[float]):
    """From the first time to the second."""

    type = Float()
    inherit_cache = True
    name = "seconds_between"


@compiles(_SecondsBetween, "sqlite")
def _sqlite_seconds(element: _SecondsBetween, compiler: Any, **options: Any) -> str:
    begin, end = (compiler.process(clause, **options) for clause in element.clauses)
    return f"((julianday({end}) - julianday({begin})) * 86400.0)"


@compiles(_SecondsBetween, "postgresql")
def _postgresql_seconds(element: _SecondsBetween, compiler: Any, **options: Any) -> str:
    begin, end = (compiler.process(clause, **options) for clause in element.clauses)
    return f"EXTRACT(EPOCH FROM ({end} - {begin}))"
