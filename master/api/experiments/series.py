"""Metrics of experiments over time."""

from __future__ import annotations

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import RowId
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Timestamp, time
from master.auth.actions import Action

router = APIRouter(route_class=ApiRoute, tags=["experiments"])


class ValidationHistoryEntry(TypedDict):
    trialId: int
    endTime: Timestamp
    searcherMetric: float


class ValidationHistoryReply(TypedDict):
    validationHistory: list[ValidationHistoryEntry]


@router.get("/api/v1/experiments/{experiment_id}/validation-history")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def validation_history(
    experiment_id: RowId, visible: Visible, api: TheApi
) -> Reply[ValidationHistoryReply]:
    row = await api.reads.experiments.experiment(experiment_id, visible)
    searcher = row.experiment.config.get("searcher") or {}
    found = await api.reads.series.improvements(
        experiment_id,
        searcher.get("metric") or "",
        smaller_is_better=searcher.get("smaller_is_better", True),
    )
    entries: list[ValidationHistoryEntry] = [
        {"trialId": one.trial_id, "endTime": time(one.at), "searcherMetric": float(one.value)}
        for one in found
    ]
    return reply({"validationHistory": entries})
