"""The profiler of older clients: its calls, answered from the metric groups that the profiler reports today."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller, Visible, require
from master.api.enums import ProfilerMetricType
from master.api.following import Still
from master.api.permits import IN_BODY, VISIBLE, permit
from master.api.replies import Empty, JsonLines, Reply, reply
from master.api.request_models import Body, Int64, RowId, Text, Time, Word
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import trial_target
from master.api.values import Number, Timestamp, finite, time
from master.auth.actions import Action
from master.experiments.live import LiveExperiment
from master.experiments.queries.metrics import STREAM_ROWS
from master.experiments.reports.metric_reports import report_from_row
from master.experiments.reports.profiler_series import KINDS, Reading, Series, by_series
from windlass.base.errors import InvalidArgument

router = APIRouter(route_class=ApiRoute, tags=["metrics"])

PERIOD_S = 30.0
"""Between looks for what is new."""
MAX_SERIES, MAX_READINGS = 100, 1_000
"""Of one call; the client sends what it measured in some seconds."""
_PREFIX = "PROFILER_METRIC_TYPE_"


class Labels(TypedDict):
    trialId: int
    name: str
    agentId: str
    gpuUuid: str
    metricType: ProfilerMetricType


class MetricsBatch(TypedDict):
    """Of one series, its readings in order."""

    values: list[Number]
    batches: list[int]
    timestamps: list[Timestamp]
    labels: Labels


class ProfilerMetrics(TypedDict):
    batch: MetricsBatch


class AvailableSeries(TypedDict):
    labels: list[Labels]


class PostedLabels(Body):
    trial_id: RowId
    name: Annotated[Text, Field(min_length=1, max_length=200)]
    agent_id: Text = ""
    gpu_uuid: Text = ""
    metric_type: Annotated[str, Word(_PREFIX, KINDS)] = ""

    def series(self) -> Series:
        """Raises InvalidArgument."""
        if not self.metric_type:
            raise InvalidArgument(f"labels.metricType: expected one of {', '.join(KINDS)}")
        return Series(self.name, self.metric_type, self.agent_id, self.gpu_uuid)


class PostedBatch(Body):
    values: Annotated[tuple[float, ...], Field(max_length=MAX_READINGS)] = ()
    batches: Annotated[tuple[Int64, ...], Field(max_length=MAX_READINGS)] = ()
    timestamps: Annotated[tuple[Time, ...], Field(max_length=MAX_READINGS)] = ()
    labels: PostedLabels

    def readings(self) -> list[Reading]:
        """Raises InvalidArgument."""
        counts = len(self.values), len(self.batches), len(self.timestamps)
        if len(set(counts)) > 1:
            raise InvalidArgument(
                "values, batches, timestamps: expected the same number of each, "
                f"not {counts[0]}, {counts[1]} and {counts[2]}"
            )
        return [
            Reading(finite(value), steps, at)
            for value, steps, at in zip(self.values, self.batches, self.timestamps, strict=True)
        ]


class PostMetrics(Body):
    batches: Annotated[tuple[PostedBatch, ...], Field(max_length=MAX_SERIES)] = ()


@router.post("/api/v1/trials/profiler/metrics")
@permit(Action.REPORT, IN_BODY)
async def post_profiler_metrics(body: PostMetrics, principal: Caller, api: TheApi) -> Reply[Empty]:
    posted = [(one.labels.trial_id, one.labels.series(), one.readings()) for one in body.batches]
    for trial_id in {trial_id for trial_id, _, _ in posted}:
        require(api, principal, Action.REPORT, await trial_target(api, trial_id))
    for trial_id, series, readings in posted:
        await api.services.reports.profiled(trial_id, series, readings)
    return reply()


class Follow(QueryModel):
    follow: bool = False


class OfSeries(Follow):
    """Empty: of any."""

    name: Annotated[str, Field(alias="labels.name")] = ""
    agent: Annotated[str, Field(alias="labels.agentId")] = ""
    gpu: Annotated[str, Field(alias="labels.gpuUuid")] = ""
    kind: Annotated[str, Word(_PREFIX, KINDS), Field(alias="labels.metricType")] = ""

    def fits(self, series: Series) -> bool:
        pairs = (
            (self.name, series.name),
            (self.agent, series.agent),
            (self.gpu, series.gpu),
            (self.kind, series.kind),
        )
        return all(wanted in ("", found) for wanted, found in pairs)


@router.get("/api/v1/trials/{trial_id}/profiler/metrics")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def profiler_metrics(
    trial_id: RowId,
    query: Annotated[OfSeries, Query()],
    visible: Visible,
    api: TheApi,
    still: Still,
) -> JsonLines[ProfilerMetrics]:
    await api.reads.experiments.require_trials([trial_id], visible)

    async def pages() -> AsyncGenerator[Sequence[ProfilerMetrics], None]:
        async with aclosing(_news(api, trial_id, query.follow)) as news:
            async for found in news:
                yield [
                    {"batch": _batch(trial_id, series, readings)}
                    for series, readings in found.items()
                    if query.fits(series)
                ]

    permitted = still(partial(api.reads.experiments.require_trials, [trial_id]))
    return JsonLines(pages(), api.closing, eager=False, permitted=permitted)


@router.get("/api/v1/trials/{trial_id}/profiler/available_series")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def available_series(
    trial_id: RowId,
    query: Annotated[Follow, Query()],
    visible: Visible,
    api: TheApi,
    still: Still,
) -> JsonLines[AvailableSeries]:
    """All that are known, and again whenever there are more."""
    await api.reads.experiments.require_trials([trial_id], visible)

    async def pages() -> AsyncGenerator[Sequence[AvailableSeries], None]:
        known: set[Series] = set()
        async with aclosing(_news(api, trial_id, query.follow)) as news:
            async for found in news:
                if not known.issuperset(found):
                    known.update(found)
                    yield [{"labels": [_labels(trial_id, series) for series in sorted(known)]}]

    permitted = still(partial(api.reads.experiments.require_trials, [trial_id]))
    return JsonLines(pages(), api.closing, eager=False, permitted=permitted)


async def _news(
    api: ApiContext, trial_id: int, follow: bool
) -> AsyncGenerator[dict[Series, list[Reading]], None]:
    """Some reports at a time, to the last one; with `follow` to that of a trial that has ended."""
    last = 0
    async with aclosing(_rounds(api, trial_id, follow)) as rounds:
        async for _ in rounds:
            while True:
                rows = await api.reads.metrics.profiled(trial_id, last)
                if rows:
                    last = rows[-1].id
                    yield by_series([report_from_row(row) for row in rows])
                if len(rows) < STREAM_ROWS:
                    break


async def _rounds(api: ApiContext, trial_id: int, follow: bool) -> AsyncGenerator[None, None]:
    """Now, after every period, and once more when it has ended."""
    while True:
        live = api.services.experiments.live_of_trial(trial_id) if follow else None
        running = live is not None and not live.trial(trial_id).phase.is_terminal
        yield
        if live is None or not running:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(PERIOD_S):
                await _until_ended(live, trial_id)


async def _until_ended(live: LiveExperiment, trial_id: int) -> None:
    request_id = live.trials.request_id(trial_id)
    await live.wait_until(lambda state: state.trials[request_id].phase.is_terminal)


def _batch(trial_id: int, series: Series, readings: Iterable[Reading]) -> MetricsBatch:
    some = list(readings)
    return {
        "values": [finite(one.value) for one in some],
        "batches": [one.steps or 0 for one in some],
        "timestamps": [time(one.at) for one in some],
        "labels": _labels(trial_id, series),
    }


def _labels(trial_id: int, series: Series) -> Labels:
    return {
        "trialId": trial_id,
        "name": series.name,
        "agentId": series.agent,
        "gpuUuid": series.gpu,
        "metricType": ProfilerMetricType[series.kind],
    }
