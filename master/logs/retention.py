"""How long task logs are kept, and deleting those whose time is over.

The newest setting of a task counts (its row): that of its experiment when it was made, or what a user has set since;
without one, the cluster's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import structlog
from sqlalchemy import Select, select, update

from master.core.actor import Actor
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock

log = structlog.get_logger(__name__)

FOR_EVER = -1
TASKS_AT_ONCE = 100
SETTLED = timedelta(minutes=10)
"""After its end: until then last lines of a task may still be on their way, and its log is looked at again."""

_K = tables.Task


def remaining_days(days: int | None, ended_at: datetime | None, now: datetime) -> int | None:
    """Whole days that the log of a task is still kept, begun ones included; None: for ever."""
    if days is None or days == FOR_EVER:
        return None
    if ended_at is None:
        return days
    left = ended_at + timedelta(days=days) - now
    return min(days, max(0, -(-left // timedelta(days=1))))


class TaskLogs(Protocol):
    async def delete(self, task_ids: Sequence[str], /) -> int:
        """Delete all lines of ended tasks, in short transactions; how many there were."""
        ...


class _Ended(NamedTuple):
    id: str
    ended_at: datetime | None


class LogRetention:
    """One cleaning at a time. What a crash cuts off, the next cleaning does."""

    def __init__(self, store: Store, logs: TaskLogs, clock: Clock, *, days: int | None) -> None:
        """`days`: the cluster's setting."""
        self._store = store
        self._logs = logs
        self._clock = clock
        self._days = days
        self._queue = SerialQueue("log retention")

    async def clean(self, *, by: Actor | None = None) -> int:
        """Delete the logs whose time is over; how many lines there were. Without `by` it was time for it."""
        lines = await self._queue.run(self._clean)
        if lines:
            who = "schedule" if by is None else str(by)
            log.info("task logs deleted: their time is over", lines=lines, by=who)
        return lines

    def days(self, own: int | None) -> int | None:
        """Of a task with this setting of its own; -1 and None: for ever."""
        return self._days if own is None else own

    def remaining(self, task: tables.Task) -> int | None:
        """Days that its log is still kept; None: for ever."""
        days = self.days(task.log_retention_days)
        return remaining_days(days, task.ended_at, self._clock.now())

    async def set_for_trial(self, trial_id: int, days: int, *, by: Actor) -> None:
        """Of all its tasks."""
        uow = UnitOfWork()
        uow.execute(update(_K).where(_K.trial_id == trial_id).values(log_retention_days=days))
        await self._store.commit(uow)
        log.info("log retention changed", trial=trial_id, days=days, by=str(by))

    async def _clean(self) -> int:
        settings = await self._store.read(
            select(_K.log_retention_days)
            .where(_K.ended_at.is_not(None), _K.logs_removed_at.is_(None))
            .distinct()
        )
        removed = 0
        for own in settings:
            if (days := self.days(own)) is not None and days != FOR_EVER:
                removed += await self._clean_those(own, days)
        return removed

    async def _clean_those(self, own: int | None, days: int) -> int:
        """Of the tasks with this setting."""
        now = self._clock.now()
        removed, last = 0, ""
        while found := await self._store.read(_over(own, now - timedelta(days=days), last), _Ended):
            removed += await self._logs.delete([task.id for task in found])
            settled = [
                t.id for t in found if t.ended_at is not None and t.ended_at <= now - SETTLED
            ]
            if settled:
                uow = UnitOfWork()
                uow.execute(update(_K).where(_K.id.in_(settled)).values(logs_removed_at=now))
                await self._store.commit(uow)
            last = found[-1].id
        return removed


def _over(own: int | None, until: datetime, last: str) -> Select[str, datetime | None]:
    """A page of the tasks with this setting whose log is not deleted though they ended then, or before."""
    setting = _K.log_retention_days
    return (
        select(_K.id, _K.ended_at)
        .where(
            setting.is_(None) if own is None else setting == own,
            _K.ended_at <= until,
            _K.logs_removed_at.is_(None),
            _K.id > last,
        )
        .order_by(_K.id)
        .limit(TASKS_AT_ONCE)
    )
