"""Reads of metrics over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, or_, select

from master.core.visibility import Visibility
from master.experiments.reports.metrics import VALIDATION
from master.store import tables
from master.store.sql.portable import portable
from master.store.store import Store
from master.store.visible import experiment_visible

_M, _T = tables.Metric, tables.Trial


class Improvement(NamedTuple):
    """A validation that was better than all before it."""

    trial_id: int
    at: datetime
    value: float


class SeriesQueries:
    """Reports that were rolled back are never shown, and neither is what is no finite number."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._db = portable(store.dialect)

    async def improvements(
        self, experiment_id: int, metric: str, *, smaller_is_better: bool
    ) -> list[Improvement]:
        """Over all trials, in order of time."""
        number = self._db.leaf(_M.metrics, ("avg_metrics", metric)).number
        best = func.min if smaller_is_better else func.max
        before = best(number).over(order_by=(_M.reported_at, _M.id), rows=(None, -1))
        each = (
            select(
                _M.id.label("id"),
                _M.trial_id.label("trial_id"),
                _M.reported_at.label("at"),
                number.label("value"),
                before.label("before"),
            )
            .join(_T, _T.id == _M.trial_id)
            .where(
                _T.experiment_id == experiment_id,
                _M.group == VALIDATION,
                _M.archived.is_(False),
                number.is_not(None),
            )
            .subquery()
            .c
        )
        is_better = each.value < each.before if smaller_is_better else each.value > each.before
        return await self._store.read(
            select(each.trial_id, each.at, each.value)
            .where(or_(each.before.is_(None), is_better))
            .order_by(each.at, each.id),
            Improvement,
        )

    async def warmed_by(self, checkpoint: str, visible: Visibility) -> list[int]:
        """The trials that began with this checkpoint."""
        here = experiment_visible(_T.experiment_id, visible)
        return await self._store.read(
            select(_T.id).where(_T.warm_start_checkpoint == checkpoint, *here).order_by(_T.id)
        )

    async def reports_of(self, trial_ids: Sequence[int], group: str) -> list[tables.Metric]:
        """Of one group, or of all if it is empty, in order of trial, run and steps."""
        here = (_M.trial_id.in_(trial_ids), _M.archived.is_(False))
        wanted = select(_M).where(*here).order_by(_M.trial_id, _M.run_id, _M.steps, _M.id)
        return await self._store.read(wanted.where(_M.group == group) if group else wanted)
