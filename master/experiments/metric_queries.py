"""Reads of metric reports and of how long trials had slots."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, tuple_
from sqlmodel import col

from master.store import tables
from master.store.paging import Row
from master.store.statements import table_of
from master.store.store import Store

STREAM_ROWS = 1_000
"""Reports read at once for a stream, and at most in one of its lines."""
AT_ONCE = 1_000
"""Values in one IN list: databases have a limit."""

_M = tables.Metric


class MetricQueries:
    """The read side of metrics. Reports that were rolled back are never shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def rows_by_id(self, ids: Sequence[int]) -> dict[int, Row]:
        found: dict[int, Row] = {}
        for start in range(0, len(ids), AT_ONCE):
            rows = await self._store.rows(
                select(table_of(_M)).where(col(_M.id).in_(ids[start : start + AT_ONCE]))
            )
            found.update((row["id"], row) for row in rows)
        return found

    async def reports(self, trial_id: int, groups: Sequence[str]) -> Sequence[Row]:
        """All live reports of these groups, by steps."""
        return await self._store.rows(
            select(table_of(_M))
            .where(
                col(_M.trial_id) == trial_id,
                col(_M.group).in_(groups),
                col(_M.archived).is_(False),
            )
            .order_by(col(_M.steps), col(_M.id))
        )

    async def pages(
        self, trial_ids: Sequence[int], group: str
    ) -> AsyncGenerator[Sequence[Row], None]:
        """Live reports of one group in order of trial, run and steps, some at a time."""
        here = tuple_(col(_M.run_id), func.coalesce(col(_M.steps), -1), col(_M.id))
        for trial_id in sorted(set(trial_ids)):
            past: tuple[int, int, int] | None = None
            while True:
                statement = (
                    select(table_of(_M))
                    .where(
                        col(_M.trial_id) == trial_id,
                        col(_M.group) == group,
                        col(_M.archived).is_(False),
                    )
                    .order_by(col(_M.run_id), func.coalesce(col(_M.steps), -1), col(_M.id))
                    .limit(STREAM_ROWS)
                )
                if past is not None:
                    statement = statement.where(here > past)
                rows = await self._store.rows(statement)
                if rows:
                    yield rows
                if len(rows) < STREAM_ROWS:
                    break
                last = rows[-1]
                steps = -1 if last["steps"] is None else last["steps"]
                past = (last["run_id"], steps, last["id"])

    async def averages_at(
        self, pairs: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], dict[str, Any]]:
        """(trial, steps) -> group -> average metrics, for groups training and validation."""
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for start in range(0, len(pairs), AT_ONCE):
            some = pairs[start : start + AT_ONCE]
            rows = await self._store.rows(
                select(table_of(_M)).where(
                    col(_M.trial_id).in_({trial for trial, _ in some}),
                    col(_M.steps).in_({steps for _, steps in some}),
                    col(_M.group).in_(("training", "validation")),
                    col(_M.archived).is_(False),
                )
            )
            for row in rows:
                at = found.setdefault((row["trial_id"], row["steps"]), {})
                at[row["group"]] = row["metrics"]["avg_metrics"]
        return found

    async def slot_seconds(self, task_ids: Sequence[str], now: datetime) -> dict[str, float]:
        """task id -> how long its allocations have had slots, all together."""
        allocation = tables.Allocation
        found: dict[str, float] = {}
        for start in range(0, len(task_ids), AT_ONCE):
            rows = await self._store.rows(
                select(
                    col(allocation.task_id), col(allocation.started_at), col(allocation.ended_at)
                ).where(
                    col(allocation.task_id).in_(task_ids[start : start + AT_ONCE]),
                    col(allocation.started_at).is_not(None),
                )
            )
            for row in rows:
                seconds = ((row["ended_at"] or now) - row["started_at"]).total_seconds()
                found[row["task_id"]] = found.get(row["task_id"], 0.0) + seconds
        return found
