"""Streams of an experiment's metrics: what there is, then what is new every period, until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.permits import VISIBLE, permit
from master.api.replies import JsonLines
from master.api.request_models import Int32, RowId, Word
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.trials.time_series import METRIC_TYPES, DataPoint, data_points
from master.api.values import finite
from master.auth.permissions import Action
from master.experiments.queries.series import MetricName, Wanted
from master.experiments.reports.metrics import TRAINING, VALIDATION
from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonObject

router = APIRouter(route_class=ApiRoute, tags=["experiments"])

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
    ids: tuple[Int32, ...] = ()


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
    query: Annotated[ListNames, Query()], visible: Visible, api: TheApi
) -> JsonLines[MetricNames]:
    if not query.ids:
        raise InvalidArgument("ids: must name at least one experiment")
    for id_ in query.ids:
        await api.reads.experiments.require_experiment(id_, visible)
    return JsonLines(_names(api, query), api.closing, eager=False)


async def _names(api: ApiContext, query: ListNames) -> AsyncGenerator[Sequence[MetricNames], None]:
    known: set[MetricName] = set()
    searchers: set[str] = set()
    async with aclosing(_rounds(api, query.ids, query.period())) as rounds:
        async for _ in rounds:
            new = await api.reads.series.names(query.ids) - known
            of_searchers = set(await api.reads.series.searcher_metrics(query.ids)) - searchers
            known |= new
            searchers |= of_searchers
            if new or of_searchers:
                item: MetricNames = {
                    "searcherMetrics": sorted(of_searchers),
                    "trainingMetrics": sorted(m.name for m in new if m.group == TRAINING),
                    "validationMetrics": sorted(m.name for m in new if m.group == VALIDATION),
                    "metricNames": [{"group": m.group, "name": m.name} for m in sorted(new)],
                }
                yield [item]


@router.get("/api/v1/experiments/{experiment_id}/metrics-stream/batches")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def batches(
    experiment_id: RowId, query: Annotated[OfMetric, Query()], visible: Visible, api: TheApi
) -> JsonLines[MetricBatches]:
    wanted = query.wanted()
    await api.reads.experiments.require_experiment(experiment_id, visible)

    async def pages() -> AsyncGenerator[Sequence[MetricBatches], None]:
        known: set[int] = set()
        async with aclosing(_rounds(api, (experiment_id,), query.period())) as rounds:
            async for _ in rounds:
                steps = await api.reads.series.steps(experiment_id, wanted.group, wanted.name)
                new = [step for step in steps if step not in known]
                known.update(new)
                if new:
                    item: MetricBatches = {"batches": new}
                    yield [item]

    return JsonLines(pages(), api.closing, eager=False)


@router.get("/api/v1/experiments/{experiment_id}/metrics-stream/trials-sample")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def trials_sample(
    experiment_id: RowId, query: Annotated[Sample, Query()], visible: Visible, api: TheApi
) -> JsonLines[TrialsSample]:
    """Of the best trials."""
    wanted = query.wanted()
    row = await api.reads.experiments.experiment(experiment_id, visible)
    searcher = row.experiment.config.get("searcher") or {}
    sampling = _Sampling(
        api, experiment_id, query, wanted, smaller_is_better=searcher.get("smaller_is_better", True)
    )

    async def pages() -> AsyncGenerator[Sequence[TrialsSample], None]:
        async with aclosing(_rounds(api, (experiment_id,), query.period())) as rounds:
            async for _ in rounds:
                item = await sampling.news()
                if item["trials"] or item["demotedTrials"]:
                    yield [item]

    return JsonLines(pages(), api.closing, eager=False)


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
        self._limit = query.max_datapoints or DEFAULT_POINTS
        self._trials = query.max_trials or DEFAULT_TRIALS
        self._wanted = wanted
        self._smaller_is_better = smaller_is_better
        self._last: dict[int, int] = {}
        """Trial -> its newest report."""

    async def news(self) -> TrialsSample:
        best = await self._series.best_trials(
            self._experiment_id, self._trials, smaller_is_better=self._smaller_is_better
        )
        demoted = self._last.keys() - {trial.id for trial in best}
        promoted = [trial.id for trial in best if trial.id not in self._last]
        trials: list[SampledTrial] = []
        for trial in best:
            data = await self._new_points(trial.id)
            if data or trial.id in promoted:
                trials.append({"trialId": trial.id, "hparams": finite(trial.hparams), "data": data})
        for id_ in demoted:
            del self._last[id_]
        return {"trials": trials, "promotedTrials": promoted, "demotedTrials": sorted(demoted)}

    async def _new_points(self, trial_id: int) -> list[DataPoint]:
        last = self._last.setdefault(trial_id, 0)
        new = replace(self._wanted, after_id=last)
        points = await self._series.points([trial_id], new, self._limit)
        self._last[trial_id] = max([last, *(point.id for point in points)])
        return data_points(self._wanted.name, points)


@router.get("/api/v1/experiments/{experiment_id}/metrics-stream/trials-snapshot")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def trials_snapshot(
    experiment_id: RowId, query: Annotated[Snapshot, Query()], visible: Visible, api: TheApi
) -> JsonLines[TrialsSnapshot]:
    """Of each trial the report that is nearest."""
    wanted = query.wanted()
    await api.reads.experiments.require_experiment(experiment_id, visible)

    async def pages() -> AsyncGenerator[Sequence[TrialsSnapshot], None]:
        known: dict[int, int] = {}
        async with aclosing(_rounds(api, (experiment_id,), query.period())) as rounds:
            async for _ in rounds:
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
                if new:
                    item: TrialsSnapshot = {"trials": new}
                    yield [item]

    return JsonLines(pages(), api.closing, eager=False)


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
