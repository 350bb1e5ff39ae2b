"""How long task logs are kept, and deleting them now."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.permits import CLUSTER, VISIBLE, experiment, permit, trial
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, RowId
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Int64
from master.auth.actions import Action
from master.core.expconf.models.sections import MAX_RETENTION_DAYS

router = APIRouter(route_class=ApiRoute, tags=["logs"])

RetentionDays = Annotated[Int32, Field(ge=-1, le=MAX_RETENTION_DAYS)]
"""-1: for ever. 0: until the next clean-up."""


class RetainLogs(Body):
    num_days: RetentionDays


class CleanedLogsReply(TypedDict):
    removedCount: Int64
    """Lines."""


class RemainingDaysReply(TypedDict):
    remainingDays: int | None
    """Null: for ever."""


@router.put("/api/v1/experiments/{experiment_id}/retain_logs")
@permit(Action.UPDATE_EXPERIMENT, experiment("experiment_id"))
async def retain_logs_of_experiment(
    experiment_id: RowId, body: RetainLogs, principal: Caller, api: TheApi
) -> Reply[Empty]:
    await api.services.metadata.set_log_retention(experiment_id, body.num_days, by=principal)
    return reply()


@router.put("/api/v1/trials/{trial_id}/retain_logs")
@permit(Action.UPDATE_EXPERIMENT, trial("trial_id"))
async def retain_logs_of_trial(
    trial_id: RowId, body: RetainLogs, principal: Caller, api: TheApi
) -> Reply[Empty]:
    await api.services.retention.set_for_trial(trial_id, body.num_days, by=principal)
    return reply()


@router.get("/api/v1/trials/{id}/remaining_log_retention_days")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def remaining_days(id: RowId, visible: Visible, api: TheApi) -> Reply[RemainingDaysReply]:
    row = await api.reads.tasks.task(await api.reads.tasks.task_of_trial(id, visible), visible)
    return reply({"remainingDays": api.services.retention.remaining(row)})


@router.post("/api/v1/cleanup_logs")
@permit(Action.ADMINISTRATE_CLUSTER, CLUSTER)
async def clean_up(principal: Caller, api: TheApi) -> Reply[CleanedLogsReply]:
    """Delete the logs whose time is over."""
    lines = await api.services.retention.clean(by=principal)
    return reply({"removedCount": str(lines)})
