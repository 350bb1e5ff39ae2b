"""What users do to experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from master.api.access import Caller, Visible, require
from master.api.checkpoints.replies import DeletionReply
from master.api.enums import LaunchWarning
from master.api.experiments.replies import (
    ContinuedExperimentReply,
    LabelsReply,
    PatchedExperimentReply,
)
from master.api.experiments.requests import ContinueExperiment, PatchExperiment
from master.api.experiments.routes import experiment_json
from master.api.permits import IN_BODY, experiment, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, RowId, Text
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import experiment_target, require_new
from master.auth.actions import Action, Target
from master.core.expconf.policies import WorkloadType
from master.core.jobs import SetPriority, SetWeight
from master.core.visibility import Visibility
from master.experiments.lifecycle.state import Phase, already_ended
from master.experiments.metadata import MetadataPatch
from master.experiments.unmanaged import managed_only
from windlass.base.errors import InvalidState

router = APIRouter(route_class=ApiRoute, tags=["experiments"])

ORDER = (SetPriority, SetWeight)
"""What changes the order of the queue."""
Label = Annotated[Text, Path(min_length=1, max_length=200)]


@router.patch("/api/v1/experiments/{experiment_id}")
@permit(Action.UPDATE_METADATA, experiment("experiment_id"))
async def patch(
    experiment_id: RowId, body: PatchExperiment, principal: Caller, visible: Visible, api: TheApi
) -> Reply[PatchedExperimentReply]:
    counts = body.checkpoint_storage.changes() if body.checkpoint_storage is not None else {}
    if counts:
        # It deletes checkpoints.
        target = await experiment_target(api, experiment_id)
        require(api, principal, Action.DELETE_CHECKPOINTS, target)
        await _require_keep_counts(api, target, counts)
    changes = body.resources.changes() if body.resources is not None else []
    if changes:
        target = await experiment_target(api, experiment_id)
        require(api, principal, Action.UPDATE_EXPERIMENT, target)
        if api.services.jobs.strict and any(isinstance(one, ORDER) for one in changes):
            require(api, principal, Action.CONTROL_JOB_QUEUE, target)
    job_id = await _job_of(api, experiment_id, visible) if changes else ""
    patched = MetadataPatch(
        name=body.name, description=body.description, notes=body.notes, labels=body.labels
    )
    await api.services.metadata.patch(experiment_id, patched, by=principal)
    for change in changes:
        await api.services.jobs.update(job_id, change, by=principal)
    tasks: list[str] = []
    if counts:
        tasks = await api.services.checkpoints.set_keep_counts(experiment_id, counts, by=principal)
    shown = await experiment_json(api, experiment_id, visible)
    return reply({"experiment": shown, "taskIds": tasks})


async def _require_keep_counts(api: ApiContext, target: Target, counts: Mapping[str, int]) -> None:
    """Raises InvalidArgument for those that a config policy fixes."""
    if target.workspace_id is not None:
        policies = await api.services.rules.config_policies.effective(
            target.workspace_id, WorkloadType.EXPERIMENT
        )
        policies.require_keep_counts(counts)


@router.post("/api/v1/experiments/continue")
@permit(Action.UPDATE_EXPERIMENT, IN_BODY)
async def continue_(
    body: ContinueExperiment, principal: Caller, visible: Visible, api: TheApi
) -> Reply[ContinuedExperimentReply]:
    require(api, principal, Action.UPDATE_EXPERIMENT, await experiment_target(api, body.id))
    warnings = await api.services.experiments.continue_(body.id, body.override_config, by=principal)
    shown = await experiment_json(api, body.id, visible)
    return reply({"experiment": shown, "warnings": [LaunchWarning(one) for one in warnings]})


@router.post("/api/v1/experiments/{id}/activate")
@permit(Action.UPDATE_EXPERIMENT, experiment("id"))
async def activate(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.experiments.activate(id, by=principal)
    return reply()


@router.post("/api/v1/experiments/{id}/pause")
@permit(Action.UPDATE_EXPERIMENT, experiment("id"))
async def pause(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.experiments.pause(id, by=principal)
    return reply()


@router.post("/api/v1/experiments/{id}/cancel")
@permit(Action.END_EXPERIMENT, experiment("id"))
async def cancel(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.experiments.cancel(id, by=principal)
    return reply()


@router.post("/api/v1/experiments/{id}/kill")
@permit(Action.END_EXPERIMENT, experiment("id"))
async def kill(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.experiments.kill(id, by=principal)
    return reply()


@router.post("/api/v1/experiments/{id}/archive")
@permit(Action.UPDATE_METADATA, experiment("id"))
async def archive(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.metadata.set_archived(id, True, by=principal)
    return reply()


@router.post("/api/v1/experiments/{id}/unarchive")
@permit(Action.UPDATE_METADATA, experiment("id"))
async def unarchive(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.metadata.set_archived(id, False, by=principal)
    return reply()


class MoveExperiment(Body):
    destination_project_id: Annotated[Int32, Field(ge=0)]


@router.post("/api/v1/experiments/{experiment_id}/move")
@permit(Action.MOVE_EXPERIMENT, experiment("experiment_id"))
async def move(
    experiment_id: RowId, body: MoveExperiment, principal: Caller, visible: Visible, api: TheApi
) -> Reply[Empty]:
    """Its runs follow, with other local ids."""
    target = body.destination_project_id
    await api.reads.workspaces.project(target, visible)
    await require_new(api, principal, Action.TAKE_EXPERIMENT, project_id=target)
    await api.services.metadata.move(experiment_id, target, by=principal)
    return reply()


@router.delete("/api/v1/experiments/{experiment_id}/tensorboard-files")
@permit(Action.DELETE_EXPERIMENT, experiment("experiment_id"))
async def delete_tensorboard(
    experiment_id: RowId, principal: Caller, api: TheApi
) -> Reply[DeletionReply]:
    tasks = await api.services.checkpoints.delete_tensorboard(experiment_id, by=principal)
    return reply({"taskIds": tasks})


@router.delete("/api/v1/experiments/{experiment_id}")
@permit(Action.DELETE_EXPERIMENT, experiment("experiment_id"))
async def delete(experiment_id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.checkpoints.delete_experiment(experiment_id, by=principal)
    return reply()


@router.put("/api/v1/experiments/{experiment_id}/labels/{label:path}")
@permit(Action.UPDATE_METADATA, experiment("experiment_id"))
async def add_label(
    experiment_id: RowId,
    label: Label,
    principal: Caller,
    api: TheApi,
) -> Reply[LabelsReply]:
    return reply(
        {"labels": await api.services.metadata.add_label(experiment_id, label, by=principal)}
    )


@router.delete("/api/v1/experiments/{experiment_id}/labels/{label:path}")
@permit(Action.UPDATE_METADATA, experiment("experiment_id"))
async def remove_label(
    experiment_id: RowId,
    label: Label,
    principal: Caller,
    api: TheApi,
) -> Reply[LabelsReply]:
    return reply(
        {"labels": await api.services.metadata.remove_label(experiment_id, label, by=principal)}
    )


async def _job_of(api: ApiContext, experiment_id: int, visible: Visibility) -> str:
    """Raises InvalidState unless the experiment lives: the resources of one that has ended are history."""
    live = api.services.experiments.live(experiment_id)
    if live is not None and live.state.unmanaged:
        raise managed_only(experiment_id, "given resources")
    if live is None or live.state.phase.is_terminal:
        row = await api.reads.experiments.experiment(experiment_id, visible)
        raise InvalidState(already_ended(experiment_id, Phase(row.experiment.state)))
    return live.state.job_id
