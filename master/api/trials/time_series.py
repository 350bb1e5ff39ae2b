"""Metrics of several trials over their steps, to compare them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.enums import MetricType
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Int32, OptionalTime, Word
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.trials.replies import Trial
from master.api.trials.routes import trials_json
from master.api.values import Number, Timestamp, time
from master.auth.actions import Action
from master.experiments.queries.series import Axis, Bound, Comparison, Point, Wanted
from master.experiments.reports.metrics import PROFILER_GROUPS, TRAINING, VALIDATION
from windlass.base.errors import InvalidArgument

router = APIRouter(route_class=ApiRoute, tags=["metrics"])

DEFAULT_POINTS, MOST_POINTS = 200, 10_000
MAX_IDS, MAX_METRICS = 1_000, 100
"""Of one call."""
METRIC_TYPES = ("TRAINING", "VALIDATION", "PROFILING")
_RANGES = "timeSeriesFilter."


class DataPoint(TypedDict):
    batches: int
    time: Timestamp
    epoch: NotRequired[float]
    values: dict[str, Number]


class Series(TypedDict):
    """Of one metric."""

    group: str
    type: MetricType
    data: list[DataPoint]


class ComparedTrial(TypedDict):
    trial: Trial
    metrics: list[Series]


class ComparedTrialsReply(TypedDict):
    trials: list[ComparedTrial]


def data_points(name: str, points: Sequence[Point]) -> list[DataPoint]:
    found: list[DataPoint] = []
    for point in points:
        one: DataPoint = {
            "batches": point.steps,
            "time": time(point.at),
            "values": {name: float(point.value)},
        }
        if point.epoch is not None:
            one["epoch"] = float(point.epoch)
        found.append(one)
    return found


def at_most(points: int) -> int:
    """Of one series: more than asked for, or than anybody sees, are never read."""
    return min(points, MOST_POINTS)


def metric_type(group: str) -> MetricType:
    if group in PROFILER_GROUPS:
        return MetricType.PROFILING
    return MetricType.__members__.get(group.upper(), MetricType.UNSPECIFIED)


def _range(kind: str, comparison: str) -> Any:
    return Field(alias=f"{_RANGES}{kind}Range.{comparison}")


class Compare(QueryModel):
    trial_ids: Annotated[tuple[Int32, ...], Field(max_length=MAX_IDS)] = ()
    metric_names: Annotated[tuple[str, ...], Field(max_length=MAX_METRICS)] = ()
    metric_ids: Annotated[tuple[str, ...], Field(max_length=MAX_METRICS)] = ()
    start_batches: Annotated[Int32, Field(ge=0)] = 0
    end_batches: Annotated[Int32, Field(ge=0)] = 0
    """0: to the end."""
    max_datapoints: Annotated[Int32, Field(ge=0)] = 0
    metric_type: Annotated[str, Word("METRIC_TYPE_", METRIC_TYPES)] = ""
    group: str = ""
    filter_name: Annotated[str, Field(alias=f"{_RANGES}name")] = ""
    double_gt: Annotated[float | None, _range("double", "gt")] = None
    double_gte: Annotated[float | None, _range("double", "gte")] = None
    double_lt: Annotated[float | None, _range("double", "lt")] = None
    double_lte: Annotated[float | None, _range("double", "lte")] = None
    integer_gt: Annotated[Int32 | None, _range("integer", "gt")] = None
    integer_gte: Annotated[Int32 | None, _range("integer", "gte")] = None
    integer_lt: Annotated[Int32 | None, _range("integer", "lt")] = None
    integer_lte: Annotated[Int32 | None, _range("integer", "lte")] = None
    integer_incl: Annotated[tuple[Int32, ...], _range("integer", "incl")] = ()
    integer_not_in: Annotated[tuple[Int32, ...], _range("integer", "notIn")] = ()
    time_gt: Annotated[OptionalTime, _range("time", "gt")] = None
    time_gte: Annotated[OptionalTime, _range("time", "gte")] = None
    time_lt: Annotated[OptionalTime, _range("time", "lt")] = None
    time_lte: Annotated[OptionalTime, _range("time", "lte")] = None

    def wanted(self) -> list[Wanted]:
        """Each metric once. Raises InvalidArgument."""
        named = [(group, name) for name in self.metric_names for group in self._groups()]
        for id_ in self.metric_ids:
            group, _, name = id_.partition(".")
            if not group or not name:
                raise InvalidArgument(f"metricIds: expected group.name, not {id_[:80]!r}")
            named.append((group, name))
        if not named:
            raise InvalidArgument("metricNames, metricIds: name at least one metric")
        filters, steps = self._filters(), (self.start_batches, self.end_batches or None)
        return [
            Wanted(group=group, name=name, steps=steps, filters=filters)
            for group, name in dict.fromkeys(named)
        ]

    def _groups(self) -> Sequence[str]:
        if self.group:
            return (self.group,)
        if self.metric_type == "PROFILING":
            return sorted(PROFILER_GROUPS)
        return (self.metric_type.lower(),) if self.metric_type else (TRAINING, VALIDATION)

    def _filters(self) -> list[Bound]:
        given: list[tuple[Comparison, float | datetime | tuple[int, ...]]] = []
        for kind in ("double", "integer", "time"):
            for word in ("gt", "gte", "lt", "lte"):
                value = getattr(self, f"{kind}_{word}")
                if value is not None:
                    given.append((Comparison(word), value))
        if self.integer_incl:
            given.append((Comparison.INCL, self.integer_incl))
        if self.integer_not_in:
            given.append((Comparison.NOT_IN, self.integer_not_in))
        if not given:
            return []
        if self.filter_name not in tuple(Axis):
            raise InvalidArgument(
                f"{_RANGES}name: must be one of {', '.join(Axis)}, not {self.filter_name[:80]!r}"
            )
        axis = Axis(self.filter_name)
        for _, value in given:
            if isinstance(value, datetime) != (axis is Axis.TIME):
                raise InvalidArgument(
                    f"{_RANGES}name: {axis} has no such range: time has timeRange, others have numbers"
                )
        return [Bound(axis, comparison, value) for comparison, value in given]


@router.get("/api/v1/trials/time-series")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def compare(
    query: Annotated[Compare, Query()], visible: Visible, api: TheApi
) -> Reply[ComparedTrialsReply]:
    """Series of more points than asked for keep their first and last, smallest and largest ones (M4)."""
    if not query.trial_ids:
        raise InvalidArgument("trialIds: must name at least one trial")
    ids = list(dict.fromkeys(query.trial_ids))
    wanted = query.wanted()
    await api.reads.experiments.require_trials(ids, visible)
    found: dict[int, list[Series]] = {id_: [] for id_ in ids}
    for one in wanted:
        points: dict[int, list[Point]] = {}
        limit = at_most(query.max_datapoints or DEFAULT_POINTS)
        for point in await api.reads.series.points(ids, one, limit):
            points.setdefault(point.trial_id, []).append(point)
        for trial_id, some in points.items():
            found[trial_id].append(
                {
                    "group": one.group,
                    "type": metric_type(one.group),
                    "data": data_points(one.name, some),
                }
            )
    trials = await trials_json(api, await api.reads.experiments.trials_by_id(ids, visible))
    by_id = {trial["id"]: trial for trial in trials}
    items: list[ComparedTrial] = [
        {"trial": by_id[id_], "metrics": found[id_]} for id_ in ids if id_ in by_id
    ]
    return reply({"trials": items})
