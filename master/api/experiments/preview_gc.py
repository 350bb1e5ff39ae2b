"""`GET /experiments/{id}/preview_gc`: which checkpoints other keep counts would delete.

The keys are those that the published client reads.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Int32, RowId
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Timestamp, finite, time
from master.auth.actions import Action
from windlass.base.formats.json_types import JsonObject

router = APIRouter(route_class=ApiRoute, tags=["experiments"])


class Garbage(TypedDict):
    TrialID: int | None
    StepsCompleted: int
    State: str
    ValidationMetrics: JsonObject
    UUID: str
    Resources: dict[str, int]
    ReportTime: Timestamp


class PreviewReply(TypedDict):
    metric_name: str
    checkpoints: list[Garbage]


class Counts(QueryModel):
    save_experiment_best: Annotated[Int32, Field(ge=0)] | None = None
    save_trial_best: Annotated[Int32, Field(ge=0)] | None = None
    save_trial_latest: Annotated[Int32, Field(ge=0)] | None = None


@router.get("/experiments/{experiment_id}/preview_gc")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def preview(
    experiment_id: RowId, query: Annotated[Counts, Query()], visible: Visible, api: TheApi
) -> Reply[PreviewReply]:
    await api.reads.experiments.require_experiments([experiment_id], visible)
    metric, rows = await api.services.checkpoints.preview(
        experiment_id, query.model_dump(exclude_none=True)
    )
    places = [(row.trial_id, row.steps) for row in rows if row.trial_id is not None]
    averages = await api.reads.metrics.averages_at(places)
    return reply(
        {
            "metric_name": metric,
            "checkpoints": [
                {
                    "TrialID": row.trial_id,
                    "StepsCompleted": row.steps,
                    "State": row.state,
                    "ValidationMetrics": finite(
                        averages.get((row.trial_id or 0, row.steps), {}).get("validation", {})
                    ),
                    "UUID": row.uuid,
                    "Resources": row.resources,
                    "ReportTime": time(row.reported_at),
                }
                for row in rows
            ],
        }
    )
