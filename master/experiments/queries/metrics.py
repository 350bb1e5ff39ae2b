"""Reads of metric reports and of how long trials had slots."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import BigInteger, ColumnElement, func, select, tuple_, type_coerce

from master.experiments.reports.metrics import PROFILER_GROUPS
from master.store import tables
from master.store.store import Store
from windlass.base.formats.json_types import JsonObject

STREAM_ROWS = 1_000
"""Reports read at once for a stream, and at most in one of its lines."""
AT_ONCE = 1_000
"""Values in one IN list: databases have a limit."""

_M, _A = tables.Metric, tables.Allocation


_MIXER, _PRIME = 1_103_515_245, 2**31 - 1
"""The products stay below 2**63."""


class RunTime(NamedTuple):
    """When an allocation had slots, if it had."""

    task_id: str
    started_at: datetime | None
    ended_at: datetime | None


class ProfiledTime(NamedTuple):
    """Of the live reports of the profiler groups."""

    reports: int
    first: datetime | None
    last: datetime | None


class MetricQueries:
    """The read side of metrics. Reports that were rolled back are never shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def rows_by_id(self, ids: Sequence[int]) -> dict[int, tables.Metric]:
        found: dict[int, tables.Metric] = {}
        for start in range(0, len(ids), AT_ONCE):
            rows = await self._store.read(select(_M).where(_M.id.in_(ids[start : start + AT_ONCE])))
            found.update((row.id, row) for row in rows)
        return found

    async def reports(self, trial_id: int, groups: Sequence[str]) -> Sequence[tables.Metric]:
        """All live reports of these groups, by steps."""
        return await self._store.read(
            select(_M)
            .where(
                _M.trial_id == trial_id,
                _M.group.in_(groups),
                _M.archived.is_(False),
            )
            .order_by(_M.steps, _M.id)
        )

    async def pages(
        self, trial_ids: Sequence[int], group: str
    ) -> AsyncGenerator[Sequence[tables.Metric], None]:
        """Live reports of one group in order of trial, run and steps, some at a time."""
        here = tuple_(_M.run_id, func.coalesce(_M.steps, -1), _M.id)
        for trial_id in sorted(set(trial_ids)):
            past: tuple[int, int, int] | None = None
            while True:
                statement = (
                    select(_M)
                    .where(
                        _M.trial_id == trial_id,
                        _M.group == group,
                        _M.archived.is_(False),
                    )
                    .order_by(_M.run_id, func.coalesce(_M.steps, -1), _M.id)
                    .limit(STREAM_ROWS)
                )
                if past is not None:
                    statement = statement.where(here > past)
                rows = await self._store.read(statement)
                if rows:
                    yield rows
                if len(rows) < STREAM_ROWS:
                    break
                last = rows[-1]
                past = (last.run_id, -1 if last.steps is None else last.steps, last.id)

    async def profiled(self, trial_id: int, after_id: int) -> Sequence[tables.Metric]:
        """Live reports of the profiler groups that are newer than that one, the first ones."""
        return await self._store.read(
            select(_M)
            .where(*_profiled(trial_id), _M.id > after_id)
            .order_by(_M.id)
            .limit(STREAM_ROWS)
        )

    async def profiled_time(self, trial_id: int) -> ProfiledTime:
        found = await self._store.read_one(
            select(func.count(), func.min(_M.reported_at), func.max(_M.reported_at)).where(
                *_profiled(trial_id)
            ),
            ProfiledTime,
        )
        return found or ProfiledTime(0, None, None)

    async def sampled_profile(
        self, trial_id: int, every: int
    ) -> AsyncGenerator[Sequence[tables.Metric], None]:
        """Of each profiler group the first report, then one of every so many; some at a time."""
        number = func.row_number().over(partition_by=_M.group, order_by=_M.id)
        from_zero = type_coerce(number - 1, BigInteger).label("number")
        numbered = select(_M.id, from_zero).where(*_profiled(trial_id)).subquery()
        at = numbered.c.number
        chosen = select(numbered.c.id).where(at % every == _scattered(at // every, every))
        ids = await self._store.read(chosen.order_by(numbered.c.id))
        for start in range(0, len(ids), AT_ONCE):
            yield await self._store.read(select(_M).where(_M.id.in_(ids[start : start + AT_ONCE])))

    async def averages_at(
        self, pairs: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], dict[str, JsonObject]]:
        """(trial, steps) -> group -> average metrics, for groups training and validation."""
        found: dict[tuple[int, int], dict[str, JsonObject]] = {}
        for start in range(0, len(pairs), AT_ONCE):
            some = pairs[start : start + AT_ONCE]
            rows = await self._store.read(
                select(_M).where(
                    _M.trial_id.in_({trial for trial, _ in some}),
                    _M.steps.in_({steps for _, steps in some}),
                    _M.group.in_(("training", "validation")),
                    _M.archived.is_(False),
                )
            )
            for row in rows:
                at = found.setdefault((row.trial_id, row.steps or 0), {})
                at[row.group] = row.metrics["avg_metrics"]
        return found

    async def slot_seconds(self, task_ids: Sequence[str], now: datetime) -> dict[str, float]:
        """task id -> how long its allocations have had slots, all together."""
        found: dict[str, float] = {}
        for start in range(0, len(task_ids), AT_ONCE):
            rows = await self._store.read(
                select(_A.task_id, _A.started_at, _A.ended_at).where(
                    _A.task_id.in_(task_ids[start : start + AT_ONCE])
                ),
                RunTime,
            )
            for row in rows:
                if row.started_at is not None:
                    seconds = max(0.0, ((row.ended_at or now) - row.started_at).total_seconds())
                    found[row.task_id] = found.get(row.task_id, 0.0) + seconds
        return found


def _scattered(block: ColumnElement[int], size: int) -> ColumnElement[int]:
    """A place in each block, as if by chance: agents report in turn, and one in every so many would leave some out."""
    mixed = (block * _MIXER) % _PRIME
    return ((mixed * mixed) % _PRIME) % size


def _profiled(trial_id: int) -> tuple[ColumnElement[bool], ...]:
    """Live reports of the profiler groups."""
    groups = _M.group.in_(sorted(PROFILER_GROUPS))
    return _M.trial_id == trial_id, groups, _M.archived.is_(False)
