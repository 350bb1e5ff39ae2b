"""Metrics and hyperparameters of all trials of an experiment, in columns: what plots are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.enums import TrialState
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Int32, RowId
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.trials.wire import run_state
from master.api.values import Number, finite
from master.auth.actions import Action
from master.core.visibility import Visibility
from master.experiments.queries.experiments import ExperimentRow
from master.experiments.queries.series import NotFinite, Point, Wanted
from master.experiments.queries.trial_columns import MOST_TRIALS, AxisKind
from master.experiments.reports.metrics import VALIDATION
from master.parsing import in_parsing_thread
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])

MOST_SERIES, MOST_METRICS = 200, 24
"""Trials and metrics of one call."""
DEFAULT_SERIES, DEFAULT_POINTS = 50, 200
MOST_VALUES = 250_000
"""Of all series of a reply: each has fewer points if there are many."""


class Hyperparameter(TypedDict):
    name: str
    """Nested names are joined by dots."""
    kind: AxisKind
    values: list[Any]
    """Of each trial; null: it has none."""


class TrialColumnsReply(TypedDict):
    """Each list has an item for each trial."""

    total: int
    """Trials of the experiment: only the best ones are here if there are more than were asked for."""
    metric: str
    searcherMetric: str
    smallerIsBetter: bool
    """Of the searcher's metric."""
    trials: list[int]
    """Ids, the best first, by the searcher's metric; those without one come last."""
    states: list[TrialState]
    steps: list[int]
    smallest: list[float | None]
    """Of all reports; null: it has not reported it, or no finite number."""
    largest: list[float | None]
    last: list[Number | None]
    hyperparameters: list[Hyperparameter]
    """Those that the search draws, then others in which trials differ; at most a hundred."""
    hyperparametersTotal: int


class NotFiniteValues(TypedDict):
    """Reports whose value is NaN or infinite: no chart has a place for them."""

    count: int
    firstSteps: int
    lastSteps: int


class TrialSeries(TypedDict):
    """By steps. Each list has an item for each point."""

    trialId: int
    steps: list[int]
    times: list[float]
    """Seconds since the epoch."""
    epochs: list[float | None]
    values: list[float]
    notFinite: NotFiniteValues | None


class MetricOfTrials(TypedDict):
    metric: str
    series: list[TrialSeries]
    """In the order of the trials; those that have not reported it are left out."""


class MetricSeriesReply(TypedDict):
    trials: list[int]
    """The best first."""
    total: int
    """Trials of the experiment."""
    points: int
    """The most that a series has. Longer ones keep their first, last, smallest and largest values (M4)."""
    metrics: list[MetricOfTrials]


Metric = Annotated[str, Query(description="`group.name`. Default: the searcher's.")]
Limit = Annotated[int, Query(ge=1, le=MOST_TRIALS)]


@router.get("/experiments/{id}/trial-columns")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def trial_columns(
    id: RowId, visible: Visible, api: TheApi, metric: Metric = "", limit: Limit = MOST_TRIALS
) -> Reply[TrialColumnsReply]:
    """Hyperparameters and one metric of all trials."""
    row = await api.reads.experiments.experiment(id, visible)
    by, smaller_is_better = _searched(row)
    group, name = _named(metric or by)
    found = await api.reads.trial_columns.columns(
        id,
        row.experiment.config.get("hyperparameters") or {},
        group=group,
        metric=name,
        smaller_is_better=smaller_is_better,
        limit=limit,
    )
    live, state = api.services.experiments.live(id), row.experiment.state
    trials = found.trials
    values = await in_parsing_thread(finite, [column.values for column in found.columns])
    return reply(
        {
            "total": found.total,
            "metric": f"{group}.{name}",
            "searcherMetric": by,
            "smallerIsBetter": smaller_is_better,
            "trials": [trial.id for trial in trials],
            "states": [run_state(trial, state, live) for trial in trials],
            "steps": [trial.steps for trial in trials],
            "smallest": [_float(trial.smallest) for trial in trials],
            "largest": [_float(trial.largest) for trial in trials],
            "last": finite([trial.last for trial in trials]),
            "hyperparameters": [
                {"name": column.name, "kind": column.kind, "values": its}
                for column, its in zip(found.columns, values, strict=True)
            ],
            "hyperparametersTotal": found.hyperparameters,
        }
    )


class Series(QueryModel):
    metrics: Annotated[tuple[str, ...], Field(max_length=MOST_METRICS)] = ()
    """`group.name` of each. Default: the searcher's."""
    trial_ids: Annotated[tuple[Int32, ...], Field(max_length=MOST_SERIES)] = ()
    """Default: the best ones."""
    trials: Annotated[Int32, Field(ge=1, le=MOST_SERIES)] = DEFAULT_SERIES
    """How many of the best."""
    points: Annotated[Int32, Field(ge=4, le=10_000)] = DEFAULT_POINTS
    start: Annotated[Int32 | None, Field(ge=0)] = None
    """Only points from these steps on."""
    end: Annotated[Int32 | None, Field(ge=0)] = None
    """And up to these."""


@router.get("/experiments/{id}/metric-series")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def metric_series(
    id: RowId, query: Annotated[Series, Query()], visible: Visible, api: TheApi
) -> Reply[MetricSeriesReply]:
    """Curves of many trials at once, reduced in the database."""
    row = await api.reads.experiments.experiment(id, visible)
    by, smaller_is_better = _searched(row)
    names = list(dict.fromkeys(query.metrics or (by,)))
    wanted = [
        Wanted(group=group, name=name, steps=(query.start, query.end))
        for group, name in map(_named, names)
    ]
    ids = await _trial_ids(api, id, query, visible, smaller_is_better=smaller_is_better)
    points = max(4, min(query.points, MOST_VALUES // (max(1, len(ids)) * len(names))))
    metrics: list[MetricOfTrials] = []
    for metric, one in zip(names, wanted, strict=True):
        found = await api.reads.series.points(ids, one, points)
        words = await api.reads.series.not_finite(ids, one)
        series = await in_parsing_thread(_all_series, ids, found, words)
        metrics.append({"metric": metric, "series": series})
    return reply({"trials": ids, "total": row.num_trials, "points": points, "metrics": metrics})


async def _trial_ids(
    api: ApiContext,
    experiment_id: int,
    query: Series,
    visible: Visibility,
    *,
    smaller_is_better: bool,
) -> list[int]:
    """Raises NotFound for one that is not of this experiment."""
    if not query.trial_ids:
        best = await api.reads.series.best_trials(
            experiment_id, query.trials, smaller_is_better=smaller_is_better
        )
        return [trial.id for trial in best]
    ids = list(dict.fromkeys(query.trial_ids))
    await api.reads.experiments.require_trials(ids, visible)
    homes = await api.reads.experiments.experiments_of(ids, visible)
    foreign = sorted(one for one in ids if homes.get(one) != experiment_id)
    if foreign:
        raise InvalidArgument(
            f"trialIds: trial {foreign[0]} is not one of experiment {experiment_id}"
        )
    return ids


def _all_series(
    trials: Sequence[int], points: Sequence[Point], not_finite: Sequence[NotFinite]
) -> list[TrialSeries]:
    """In the order of the trials. Of many points: for a thread."""
    found: dict[int, list[Point]] = {}
    for point in points:
        found.setdefault(point.trial_id, []).append(point)
    words = {each.trial_id: each for each in not_finite}
    return [
        _series(trial, found.get(trial, ()), words.get(trial))
        for trial in trials
        if trial in found or trial in words
    ]


def _series(trial: int, points: Sequence[Point], words: NotFinite | None) -> TrialSeries:
    return {
        "trialId": trial,
        "steps": [point.steps for point in points],
        "times": [point.at.timestamp() for point in points],
        "epochs": [_float(point.epoch) for point in points],
        "values": [float(point.value) for point in points],
        "notFinite": None
        if words is None
        else {
            "count": words.reports,
            "firstSteps": words.first_steps,
            "lastSteps": words.last_steps,
        },
    }


def _searched(row: ExperimentRow) -> tuple[str, bool]:
    """The searcher's metric as `group.name`, and whether smaller is better."""
    searcher = row.experiment.config.get("searcher") or {}
    name = searcher.get("metric") or ""
    return f"{VALIDATION}.{name}", bool(searcher.get("smaller_is_better", True))


def _named(metric: str) -> tuple[str, str]:
    group, _, name = metric.partition(".")
    if not group or not name:
        raise InvalidArgument(f"metric: expected group.name, not {metric[:80]!r}")
    return group, name


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
