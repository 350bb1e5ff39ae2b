"""Reporting metrics, and streams of what was reported."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, NotRequired

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.permits import VISIBLE, permit, trial
from master.api.replies import Empty, JsonLines, Reply, reply
from master.api.request_models import (
    Body,
    FreeObject,
    Int32,
    Int64,
    OptionalTime,
    RowId,
    Text,
)
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute, HotRoute
from master.api.services import ApiContext, TheApi
from master.api.values import Timestamp, finite, time
from master.auth.actions import Action
from master.core.visibility import Visibility
from master.experiments.reports.metrics import TRAINING, VALIDATION, PostedMetrics
from master.store.tables import Metric
from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonObject


class ReportedMetrics(TypedDict):
    """`validation_metrics` in the group `validation`, `avg_metrics` in all others."""

    avg_metrics: NotRequired[JsonObject]
    validation_metrics: NotRequired[JsonObject]
    batch_metrics: list[JsonObject] | None


class MetricsReport(TypedDict):
    id: int
    trialId: int
    trialRunId: int
    endTime: Timestamp
    totalBatches: int
    group: str
    archived: bool
    metrics: ReportedMetrics


class MetricsReports(TypedDict):
    metrics: list[MetricsReport]


def metrics_report(row: Metric) -> MetricsReport:
    """The client picks the key by the group it asked for: `validation_metrics` for validation only."""
    return {
        "id": row.id,
        "trialId": row.trial_id,
        "trialRunId": row.run_id,
        "endTime": time(row.reported_at),
        "totalBatches": row.steps or 0,
        "group": row.group,
        "archived": row.archived,
        "metrics": _metrics(row),
    }


def _metrics(row: Metric) -> ReportedMetrics:
    averages = finite(row.metrics["avg_metrics"])
    batches = finite(row.metrics["batch_metrics"])
    if row.group == VALIDATION:
        return {"validation_metrics": averages, "batch_metrics": batches}
    return {"avg_metrics": averages, "batch_metrics": batches}


router = APIRouter(route_class=ApiRoute, tags=["metrics"])
hot = APIRouter(route_class=HotRoute, tags=["metrics"])


class Metrics(Body):
    avg_metrics: FreeObject = Field(default_factory=dict)
    batch_metrics: list[FreeObject] | None = None


class TrialMetrics(Body):
    trial_id: Int32 = 0
    trial_run_id: Int32
    steps_completed: Annotated[Int64, Field(json_schema_extra={"minimum": 0})] | None = None
    report_time: OptionalTime = None
    metrics: Metrics


class ReportMetrics(Body):
    group: Annotated[Text, Field(json_schema_extra={"pattern": "^[^.]+$"})]
    metrics: TrialMetrics


@hot.post("/api/v1/trials/{trial_id}/metrics")
@permit(Action.REPORT, trial("trial_id"))
async def report(
    trial_id: RowId,
    body: ReportMetrics,
    api: TheApi,
) -> Reply[Empty]:
    return await _report(api, trial_id, body.group, body.metrics)


@hot.post("/api/v1/trials/{trial_id}/training_metrics")
@permit(Action.REPORT, trial("trial_id"))
async def report_training(trial_id: RowId, body: TrialMetrics, api: TheApi) -> Reply[Empty]:
    """The form of older clients."""
    return await _report(api, trial_id, TRAINING, body)


@hot.post("/api/v1/trials/{trial_id}/validation_metrics")
@permit(Action.REPORT, trial("trial_id"))
async def report_validation(trial_id: RowId, body: TrialMetrics, api: TheApi) -> Reply[Empty]:
    """The form of older clients."""
    return await _report(api, trial_id, VALIDATION, body)


async def _report(
    api: ApiContext, trial_id: int, group: str, reported: TrialMetrics
) -> Reply[Empty]:
    batches = reported.metrics.batch_metrics
    await api.services.reports.metrics(
        PostedMetrics(
            trial_id=trial_id,
            run_id=reported.trial_run_id,
            group=group,
            steps=reported.steps_completed,
            avg=reported.metrics.avg_metrics,
            batches=None if batches is None else tuple(batches),
            at=reported.report_time or api.services.clock.now(),
        )
    )
    return reply()


class OfTrials(QueryModel):
    trial_ids: tuple[Int32, ...] = ()
    group: str = ""


Trials = Annotated[OfTrials, Query()]


@router.get("/api/v1/trials/metrics/trial_metrics")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def any_metrics(query: Trials, visible: Visible, api: TheApi) -> JsonLines[MetricsReports]:
    if not query.group:
        raise InvalidArgument("group: must be given")
    return await _stream(api, visible, query.trial_ids, query.group)


@router.get("/api/v1/trials/metrics/training_metrics")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def training_metrics(
    query: Trials, visible: Visible, api: TheApi
) -> JsonLines[MetricsReports]:
    return await _stream(api, visible, query.trial_ids, TRAINING)


@router.get("/api/v1/trials/metrics/validation_metrics")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def validation_metrics(
    query: Trials, visible: Visible, api: TheApi
) -> JsonLines[MetricsReports]:
    return await _stream(api, visible, query.trial_ids, VALIDATION)


async def _stream(
    api: ApiContext, visible: Visibility, trial_ids: Sequence[int], group: str
) -> JsonLines[MetricsReports]:
    if not trial_ids:
        raise InvalidArgument("trialIds: must name at least one trial")
    await api.reads.experiments.require_trials(trial_ids, visible)
    return JsonLines(_items(api, trial_ids, group), api.closing)


async def _items(
    api: ApiContext, trial_ids: Sequence[int], group: str
) -> AsyncGenerator[Sequence[MetricsReports], None]:
    async with aclosing(api.reads.metrics.pages(trial_ids, group)) as pages:
        async for rows in pages:
            item: MetricsReports = {"metrics": [metrics_report(row) for row in rows]}
            yield [item]
