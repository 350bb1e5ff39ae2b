"""Streams of an experiment's metrics: what there is, then what is new every period, until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence, Set
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.following import Following, Still
from master.api.permits import VISIBLE, permit
from master.api.replies import JsonLines
from master.api.request_models import Int32, RowId, Word
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.trials.time_series import MAX_IDS, METRIC_TYPES, DataPoint, at_most, data_points
from master.api.values import finite
from master.auth.actions import Action
from master.experiments.queries.series import MetricName, Point, Wanted
from master.experiments.reports.metrics import TRAINING, VALIDATION
from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonObject

router = APIRouter(route_class=ApiRoute, tags=["experiments"])

T = TypeVar("T", bound=Mapping[str, object])
DEFAULT_PERIOD_S = 30
DEFAULT_TRIALS, DEFAULT_POINTS = 25, 1_000


class MetricIdentifier(TypedDict):
    group: str
    name: str


class MetricNames(TypedDict):
    searcherMetrics: list[str]
    trainingMetrics: list[str]
    validationMetrics: list[str]
    metricNames: list[MetricIdentifier]


class MetricBatches(TypedDict):
    batches: list[int]


class SampledTrial(TypedDict):
    trialId: int
    hparams: JsonObject
    data: list[DataPoint]


class TrialsSample(TypedDict):
    trials: list[SampledTrial]
    promotedTrials: list[int]
    """Sampled from now on."""
    demotedTrials: list[int]
    """Not sampled any more."""


class TrialAt(TypedDict):
    trialId: int
    hparams: JsonObject
    metric: float
    batchesProcessed: int


class TrialsSnapshot(TypedDict):
    trials: list[TrialAt]


class _Periodic(QueryModel):
    period_seconds: Annotated[Int32, Field(ge=0)] = 0

    def period(self) -> float:
        return self.period_seconds or DEFAULT_PERIOD_S


class ListNames(_Periodic):
    ids: Annotated[tuple[Int32, ...], Field(max_length=MAX_IDS)] = ()


class OfMetric(_Periodic):
    metric_name: str = ""
    metric_type: Annotated[str, Word("METRIC_TYPE_", METRIC_TYPES)] = ""
    group: str = ""

    def wanted(self) -> Wanted:
        """Raises InvalidArgument."""
        if not self.metric_name:
            raise InvalidArgument("metricName: must be given")
        group = self.group or self.metric_type.lower()
        if not group or (not self.group and group not in (TRAINING, VALIDATION)):
            raise InvalidArgument(
                "group: must be given, or metricType METRIC_TYPE_TRAINING or METRIC_TYPE_VALIDATION"
            )
        return Wanted(group=group, name=self.metric_name)


class Sample(OfMetric):
    max_trials: Annotated[Int32, Field(ge=0, le=1_000)] = 0
    max_datapoints: Annotated[Int32, Field(ge=0)] = 0
    start_batches: Annotated[Int32, Field(ge=0)] = 0
    end_batches: Annotated[Int32, Field(ge=0)] = 0
    """0: to the end."""

    def wanted(self) -> Wanted:
        metric = super().wanted()
        steps = (self.start_batches, self.end_batches or None)
        return Wanted(group=metric.group, name=metric.name, steps=steps)


class Snapshot(OfMetric):
    batches_processed: Annotated[Int32, Field(ge=0)] = 0
    batches_margin: Annotated[Int32, Field(ge=0, le=100)] = 0


@router.get("/api/v1/experiments/metrics-stream/metric-names")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def metric_names(
    query: Annotated[ListNames, Query()], visible: Visible, api: TheApi, still: Still
) -> JsonLines[MetricNames]:
    if not query.ids:
        raise InvalidArgument("ids: must name at least one experiment")
    await api.reads.experiments.require_experiments(query.ids, visible)
    known: set[MetricName] = set()
    searchers: set[str] = set()

    async def news() -> MetricNames | None:
        new = await api.reads.series.names(query.ids) - known
        of_searchers = set(await api.reads.series.searcher_metrics(query.ids)) - searchers
        known.update(new)
        searchers.update(of_searchers)
        if not new and not of_searchers:
            return None
        return {
            "searcherMetrics": sorted(of_searchers),
            "trainingMetrics": sorted(m.name for m in new if m.group == TRAINING),
            "validationMetrics": sorted(m.name for m in new if m.group == VALIDATION),
            "metricNames": [{"group": m.group, "name": m.name} for m in sorted(new)],
        }

    return _stream(api, query.ids, query.period(), news, still)


@router.get("/api/v1/experiments/{experiment_id}/metrics-stream/batches")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def batches(
    experiment_id: RowId,
    query: Annotated[OfMetric, Query()],
    visible: Visible,
    api: TheApi,
    still: Still,
) -> JsonLines[MetricBatches]:
    wanted = query.wanted()
    await api.reads.experiments.require_experiments([experiment_id], visible)
    known: set[int] = set()

    async def news() -> MetricBatches | None:
        steps = await api.reads.series.steps(experiment_id, wanted.group, wanted.name)
        new = [step for step in steps if step not in known]
        known.update(new)
        return {"batches": new} if new else None

    return _stream(api, (experiment_id,), query.period(), news, still)


@router.get("/api/v1/experiments/{experiment_id}/metrics-stream/trials-sample")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def trials_sample(
    experiment_id: RowId,
    query: Annotated[Sample, Query()],
    visible: Visible,
    api: TheApi,
    still: Still,
) -> JsonLines[TrialsSample]:
    """Of the best trials."""
    wanted = query.wanted()
    row = await api.reads.experiments.experiment(experiment_id, visible)
    searcher = row.experiment.config.get("searcher") or {}
    sampling = _Sampling(
        api, experiment_id, query, wanted, smaller_is_better=searcher.get("smaller_is_better", True)
    )
    return _stream(api, (experiment_id,), query.period(), sampling.news, still)


class _Sampling:
    """What one reader has been told."""

    def __init__(
        self,
        api: ApiContext,
        experiment_id: int,
        query: Sample,
        wanted: Wanted,
        *,
        smaller_is_better: bool,
    ) -> None:
        self._series = api.reads.series
        self._experiment_id = experiment_id
        self._limit = at_most(query.max_datapoints or DEFAULT_POINTS)
        self._trials = query.max_trials or DEFAULT_TRIALS
        self._wanted = wanted
        self._smaller_is_better = smaller_is_better
        self._sampled: set[int] = set()
        self._last = 0
        """The newest report of those trials."""

    async def news(self) -> TrialsSample | None:
        best = await self._series.best_trials(
            self._experiment_id, self._trials, smaller_is_better=self._smaller_is_better
        )
        ids = {trial.id for trial in best}
        promoted, demoted = ids - self._sampled, self._sampled - ids
        points = await self._points(promoted, 0) | await self._points(ids - promoted, self._last)
        self._sampled = ids
        self._last = max([self._last, *(one.id for some in points.values() for one in some)])
        trials: list[SampledTrial] = [
            {
                "trialId": trial.id,
                "hparams": finite(trial.hparams),
                "data": data_points(self._wanted.name, points.get(trial.id, ())),
            }
            for trial in best
            if trial.id in points or trial.id in promoted
        ]
        if not trials and not demoted:
            return None
        return {
            "trials": trials,
            "promotedTrials": [trial.id for trial in best if trial.id in promoted],
            "demotedTrials": sorted(demoted),
        }

    async def _points(self, trials: Set[int], after: int) -> dict[int, list[Point]]:
        """By trial; those without any are left out."""
        found: dict[int, list[Point]] = {}
        if trials:
            new = replace(self._wanted, after_id=after)
            for point in await self._series.points(sorted(trials), new, self._limit):
                found.setdefault(point.trial_id, []).append(point)
        return found


@router.get("/api/v1/experiments/{experiment_id}/metrics-stream/trials-snapshot")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def trials_snapshot(
    experiment_id: RowId,
    query: Annotated[Snapshot, Query()],
    visible: Visible,
    api: TheApi,
    still: Still,
) -> JsonLines[TrialsSnapshot]:
    """Of each trial the report that is nearest."""
    wanted = query.wanted()
    await api.reads.experiments.require_experiments([experiment_id], visible)
    known: dict[int, int] = {}

    async def news() -> TrialsSnapshot | None:
        found = await api.reads.series.nearest(
            experiment_id, wanted, query.batches_processed, query.batches_margin
        )
        new: list[TrialAt] = [
            {
                "trialId": point.trial_id,
                "hparams": finite(hparams),
                "metric": float(point.value),
                "batchesProcessed": point.steps,
            }
            for point, hparams in found
            if known.get(point.trial_id) != point.id
        ]
        known.update((point.trial_id, point.id) for point, _ in found)
        return {"trials": new} if new else None

    return _stream(api, (experiment_id,), query.period(), news, still)


def _stream(
    api: ApiContext,
    experiment_ids: Sequence[int],
    period: float,
    news: Callable[[], Awaitable[T | None]],
    still: Following,
) -> JsonLines[T]:
    """What is new in every round; None: nothing."""

    async def pages() -> AsyncGenerator[Sequence[T], None]:
        async with aclosing(_rounds(api, experiment_ids, period)) as rounds:
            async for _ in rounds:
                item = await news()
                if item is not None:
                    yield [item]

    permitted = still(partial(api.reads.experiments.require_experiments, experiment_ids))
    return JsonLines(pages(), api.closing, eager=False, permitted=permitted)


async def _rounds(
    api: ApiContext, experiment_ids: Sequence[int], period: float
) -> AsyncGenerator[None, None]:
    """Now, after every period, and once more when all of them have ended."""
    while True:
        live = [found for id_ in experiment_ids if (found := api.services.experiments.live(id_))]
        running = [one for one in live if not one.state.phase.is_terminal]
        yield
        if not running:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(period):
                for one in running:
                    await one.wait_until(lambda state: state.phase.is_terminal)
