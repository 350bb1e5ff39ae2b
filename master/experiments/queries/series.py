"""Reads of metrics over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, case, func, or_, select

from master.core.searcher.metrics import NON_FINITE
from master.core.visibility import Visibility
from master.experiments.queries.metrics import AT_ONCE
from master.experiments.reports.metrics import VALIDATION, group_of
from master.store import tables
from master.store.sql.portable import portable
from master.store.store import Store
from master.store.visible import experiment_visible
from windlass.base.formats.json_types import JsonObject

_M, _T, _E = tables.Metric, tables.Trial, tables.Experiment


class Improvement(NamedTuple):
    """A validation that was better than all before it."""

    trial_id: int
    at: datetime
    value: float


class Point(NamedTuple):
    """One report's value of a metric."""

    id: int
    """Of the report: of one trial, later ones have larger ids."""
    trial_id: int
    steps: int
    at: datetime
    epoch: float | None
    value: float


class NotFinite(NamedTuple):
    """Reports of a trial whose value is NaN or infinite, and at which steps they are."""

    trial_id: int
    reports: int
    first_steps: int
    last_steps: int


class MetricName(NamedTuple):
    group: str
    name: str


class SampledTrial(NamedTuple):
    id: int
    hparams: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A metric, and of which of its reports. All bounds are inclusive."""

    group: str
    name: str
    steps: tuple[float | None, float | None] = (None, None)
    filters: Sequence[Bound] = ()
    after_id: int = 0


class Axis(StrEnum):
    BATCHES = "batches"
    EPOCH = "epoch"
    TIME = "time"


class Comparison(StrEnum):
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    INCL = "incl"
    NOT_IN = "notIn"


@dataclass(frozen=True, slots=True)
class Bound:
    axis: Axis
    comparison: Comparison
    value: Any
    """A number or a time; a list of numbers for INCL and NOT_IN."""


_COMPARE: Mapping[Comparison, Callable[[Any, Any], Any]] = {
    Comparison.GT: lambda column, value: column > value,
    Comparison.GTE: lambda column, value: column >= value,
    Comparison.LT: lambda column, value: column < value,
    Comparison.LTE: lambda column, value: column <= value,
    Comparison.INCL: lambda column, value: column.in_(value),
    Comparison.NOT_IN: lambda column, value: column.not_in(value),
}


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

    async def points(self, trial_ids: Sequence[int], wanted: Wanted, limit: int) -> list[Point]:
        """By trial and steps. Beyond `limit` of one trial (at least 4), some are left out.

        What is kept are the first, the last, the smallest and the largest value of each of `limit / 4` equal parts of
        the series, which draws the same line as all of them. That is M4: Jugel, Jerzak, Hackenbroich, Markl, "M4: A
        Visualization-Oriented Time Series Data Aggregation", VLDB 2014.
        """
        parts = max(1, limit // 4)
        each = self._numbered(trial_ids, wanted).subquery().c
        part = (each.place * parts) // each.total

        def rank(*order: Any) -> ColumnElement[int]:
            return func.row_number().over(
                partition_by=(each.trial_id, part), order_by=(*order, each.place)
            )

        ranks = (rank(), rank(each.place.desc()), rank(each.value), rank(each.value.desc()))
        ranked = select(
            *each, *(one.label(f"rank{number}") for number, one in enumerate(ranks))
        ).subquery()
        found = ranked.c
        kept = [found[f"rank{number}"] == 1 for number in range(len(ranks))]
        columns = (found.id, found.trial_id, found.steps, found.at, found.epoch, found.value)
        return await self._store.read(
            select(*columns)
            .where(or_(found.total <= max(4, limit), *kept))
            .order_by(found.trial_id, found.place),
            Point,
        )

    async def not_finite(self, trial_ids: Sequence[int], wanted: Wanted) -> list[NotFinite]:
        """Of each trial that has reported such values; its bounds do not count."""
        word = self._db.leaf(_M.metrics, ("avg_metrics", wanted.name)).text
        steps = func.coalesce(_M.steps, 0)
        return await self._store.read(
            select(_M.trial_id, func.count(), func.min(steps), func.max(steps))
            .where(
                _M.trial_id.in_(trial_ids),
                _M.group == wanted.group,
                _M.archived.is_(False),
                word.in_(tuple(NON_FINITE)),
            )
            .group_by(_M.trial_id),
            NotFinite,
        )

    def _numbered(
        self, trial_ids: Sequence[int], wanted: Wanted
    ) -> Select[int, int, int, datetime, Any, Any, Any, int]:
        value, epoch = (
            self._db.leaf(_M.metrics, ("avg_metrics", name)).number
            for name in (wanted.name, "epoch")
        )
        order = (_M.steps, _M.id)
        place = func.row_number().over(partition_by=_M.trial_id, order_by=order) - 1
        return select(
            _M.id.label("id"),
            _M.trial_id.label("trial_id"),
            func.coalesce(_M.steps, 0).label("steps"),
            _M.reported_at.label("at"),
            epoch.label("epoch"),
            value.label("value"),
            place.label("place"),
            func.count().over(partition_by=_M.trial_id).label("total"),
        ).where(*self._conditions(trial_ids, wanted, value, epoch))

    def _conditions(
        self, trial_ids: Sequence[int], wanted: Wanted, value: Any, epoch: Any
    ) -> list[ColumnElement[bool]]:
        low, high = wanted.steps
        axes: Mapping[Axis, Any] = {
            Axis.BATCHES: _M.steps,
            Axis.EPOCH: epoch,
            Axis.TIME: _M.reported_at,
        }
        found: list[ColumnElement[bool]] = [
            _M.trial_id.in_(trial_ids),
            _M.group == wanted.group,
            _M.archived.is_(False),
            value.is_not(None),
        ]
        if low is not None:
            found.append(_M.steps >= low)
        if high is not None:
            found.append(_M.steps <= high)
        if wanted.after_id:
            found.append(_M.id > wanted.after_id)
        return found + [
            _COMPARE[one.comparison](axes[one.axis], one.value) for one in wanted.filters
        ]

    async def steps(self, experiment_id: int, group: str, name: str) -> list[int]:
        """At which the metric was reported."""
        value = self._db.leaf(_M.metrics, ("avg_metrics", name)).kind
        steps = func.coalesce(_M.steps, 0)
        return await self._store.read(
            select(steps)
            .join(_T, _T.id == _M.trial_id)
            .where(
                _T.experiment_id == experiment_id,
                _M.group == group,
                _M.archived.is_(False),
                value.is_not(None),
            )
            .distinct()
            .order_by(steps)
        )

    async def nearest(
        self, experiment_id: int, wanted: Wanted, at: int, margin: int
    ) -> list[tuple[Point, JsonObject]]:
        """Of each trial the point that is nearest to some steps, with the hyperparameters; by trial."""
        near = replace(wanted, steps=(at - margin, at + margin))
        trials = await self._store.read(
            select(_T.id, _T.hparams).where(_T.experiment_id == experiment_id).order_by(_T.id),
            SampledTrial,
        )
        best: dict[int, Point] = {}
        for start in range(0, len(trials), AT_ONCE):
            some = [trial.id for trial in trials[start : start + AT_ONCE]]
            for point in await self.points(some, near, 8 * margin + 4):
                known = best.get(point.trial_id)
                if known is None or abs(point.steps - at) < abs(known.steps - at):
                    best[point.trial_id] = point
        return [(best[trial.id], trial.hparams) for trial in trials if trial.id in best]

    async def best_trials(
        self, experiment_id: int, limit: int, *, smaller_is_better: bool
    ) -> list[SampledTrial]:
        """By their best validations; those without one come last."""
        metric = _T.searcher_metric
        by = metric.asc() if smaller_is_better else metric.desc()
        return await self._store.read(
            select(_T.id, _T.hparams)
            .where(_T.experiment_id == experiment_id)
            .order_by(by.nulls_last(), _T.id)
            .limit(limit),
            SampledTrial,
        )

    async def names(self, experiment_ids: Sequence[int]) -> set[MetricName]:
        """What any trial of theirs has reported."""
        groups = self._db.members(_T.summary_metrics)
        metrics = self._db.members(case((groups.leaf.kind == "object", groups.value)))
        rows = await self._store.read(
            select(groups.key, metrics.key)
            .select_from(_T, *groups.tables, *metrics.tables)
            .where(_T.experiment_id.in_(experiment_ids))
            .distinct(),
            MetricName,
        )
        return {MetricName(group_of(row.group), row.name) for row in rows}

    async def searcher_metrics(self, experiment_ids: Sequence[int]) -> list[str]:
        """That their searches go by."""
        metric = self._db.leaf(_E.config, ("searcher", "metric")).text
        return await self._store.read(
            select(metric).where(_E.id.in_(experiment_ids), metric.is_not(None)).distinct()
        )

    async def warmed_by(self, checkpoint: str, visible: Visibility) -> list[int]:
        """The trials that began with this checkpoint."""
        here = experiment_visible(_T.experiment_id, visible)
        return await self._store.read(
            select(_T.id).where(_T.warm_start_checkpoint == checkpoint, *here).order_by(_T.id)
        )

    async def reports_of(self, trial_ids: Sequence[int], group: str) -> list[tables.Metric]:
        """Of one group, or of all if it is empty, in order of trial, run and steps."""
        found: list[tables.Metric] = []
        ordered = sorted(set(trial_ids))
        for start in range(0, len(ordered), AT_ONCE):
            here = (_M.trial_id.in_(ordered[start : start + AT_ONCE]), _M.archived.is_(False))
            wanted = select(_M).where(*here).order_by(_M.trial_id, _M.run_id, _M.steps, _M.id)
            found += await self._store.read(wanted.where(_M.group == group) if group else wanted)
        return found
