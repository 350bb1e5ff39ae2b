"""How busy the machines and GPUs of a trial were: our own addition to the API."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.enums import ProfilerMetricType
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import RowId
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Timestamp, time
from master.auth.actions import Action
from master.experiments.reports.metric_reports import report_from_row
from master.experiments.reports.profile import Bucket, Profile, whole
from master.experiments.reports.profiler_series import Series

router = APIRouter(prefix="/api/v1/windlass/trials", route_class=ApiRoute, tags=["windlass"])

MOST_REPORTS = 20_000
"""That are read for one answer: of more one in two, in three, and so on."""

Points = Annotated[int, Query(ge=2, le=1_000, description="Of each series at most.")]


class ProfilePoint(TypedDict):
    """Readings of one stretch of time."""

    at: Timestamp
    mean: float
    min: float
    max: float


class ProfileSeries(TypedDict):
    name: str
    metricType: ProfilerMetricType
    agentId: str
    gpuUuid: str
    """Empty: not of a GPU."""
    points: list[ProfilePoint]
    readings: int
    mean: float
    min: float
    max: float


class UnusedGpu(TypedDict):
    agentId: str
    gpuUuid: str
    percent: float
    """Its mean use in the last ten minutes that were reported."""


class ProfileReply(TypedDict):
    since: Timestamp | None
    """Null: nothing was reported."""
    until: Timestamp | None
    reports: int
    everyNth: int
    """1: all reports were read; 2: one of every two that follow each other; and so on."""
    series: list[ProfileSeries]
    idleGpus: list[UnusedGpu]
    """Used less than 5 % in the last ten minutes."""


@router.get("/{trial_id}/profile")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def profile(
    trial_id: RowId, visible: Visible, api: TheApi, points: Points = 300
) -> Reply[ProfileReply]:
    """What the profilers of the published harness and of `windlass.core` reported of a trial."""
    await api.reads.experiments.require_trials([trial_id], visible)
    known = await api.reads.metrics.profiled_time(trial_id)
    if known.first is None or known.last is None:
        empty: ProfileReply = {
            "since": None,
            "until": None,
            "reports": 0,
            "everyNth": 1,
            "series": [],
            "idleGpus": [],
        }
        return reply(empty)
    every = -(-known.reports // MOST_REPORTS)
    found = Profile(known.first, known.last, points)
    async with aclosing(api.reads.metrics.sampled_profile(trial_id, every)) as pages:
        async for rows in pages:
            found.add([report_from_row(row) for row in rows])
    return reply(
        {
            "since": time(known.first),
            "until": time(known.last),
            "reports": known.reports,
            "everyNth": every,
            "series": [_series(found, one) for one in sorted(found.series)],
            "idleGpus": [
                {"agentId": one.agent, "gpuUuid": one.gpu, "percent": one.percent}
                for one in found.idle_gpus()
            ],
        }
    )


def _series(found: Profile, series: Series) -> ProfileSeries:
    buckets = found.series[series]
    all_ = whole(buckets)
    return {
        "name": series.name,
        "metricType": ProfilerMetricType[series.kind],
        "agentId": series.agent,
        "gpuUuid": series.gpu,
        "points": [_point(found, at, buckets[at]) for at in sorted(buckets)],
        "readings": all_.count,
        "mean": all_.mean,
        "min": all_.least,
        "max": all_.most,
    }


def _point(found: Profile, at: int, bucket: Bucket) -> ProfilePoint:
    middle = time(found.middle(at))
    return {"at": middle, "mean": bucket.mean, "min": bucket.least, "max": bucket.most}
