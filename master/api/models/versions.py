"""Versions of models: list, look, register, edit, delete; and metrics of the trials that use them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from master.api import targets
from master.api.access import Caller, Visible, require
from master.api.models import wire
from master.api.models.replies import ModelVersionReply, ModelVersionsReply, TrialSourceReply
from master.api.models.requests import (
    ListVersions,
    PatchVersion,
    PostVersion,
    ReportTrialSource,
    SourceMetrics,
)
from master.api.models.routes import ONE, ModelName
from master.api.paging import pagination
from master.api.permits import IN_BODY, VISIBLE, model, model_version, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import RowId
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.trials.metrics import MetricsReports, metrics_report
from master.auth.actions import Action
from master.core.visibility import Visibility
from master.models.queries import ModelRow
from master.models.versions import NewVersion, TrialUse, VersionPatch
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["models"])

MANY = ONE + "/versions"
VERSION = MANY + "/{model_version_num}"


@router.get(MANY)
@permit(Action.VIEW_MODELS, VISIBLE)
async def list_versions(
    model_name: ModelName, query: Annotated[ListVersions, Query()], visible: Visible, api: TheApi
) -> Reply[ModelVersionsReply]:
    of = await api.reads.models.model(model_name, visible)
    page = query.page(sort=query.sort_by.lower() or "version")
    found = await api.reads.models.versions(of.model.id, page)
    items = await wire.versions(api, of, found.rows, visible)
    return reply({"model": wire.model(of), "modelVersions": items, "pagination": pagination(found)})


@router.post(MANY)
@permit(Action.UPDATE_MODEL, model("model_name"))
async def register(
    model_name: ModelName, body: PostVersion, by: Caller, visible: Visible, api: TheApi
) -> Reply[ModelVersionReply]:
    of = await api.reads.models.model(model_name, visible)
    require(api, by, Action.UPDATE_MODEL, targets.of_model(of.model))
    await api.reads.checkpoints.checkpoint(body.checkpoint_uuid, visible)
    new = NewVersion(
        checkpoint=body.checkpoint_uuid,
        name=body.name,
        comment=body.comment,
        notes=body.notes,
        labels=body.labels,
        metadata=body.metadata,
    )
    number = await api.services.versions.register(of.model.id, new, by=by)
    return await _shown(api, str(of.model.id), number, visible)


@router.get(VERSION)
@permit(Action.VIEW_MODELS, VISIBLE)
async def get_version(
    model_name: ModelName, model_version_num: RowId, visible: Visible, api: TheApi
) -> Reply[ModelVersionReply]:
    return await _shown(api, model_name, model_version_num, visible)


@router.patch(VERSION)
@permit(Action.UPDATE_MODEL, model("model_name"))
async def patch_version(
    model_name: ModelName,
    model_version_num: RowId,
    body: PatchVersion,
    by: Caller,
    visible: Visible,
    api: TheApi,
) -> Reply[ModelVersionReply]:
    of = await api.reads.models.model(model_name, visible)
    require(api, by, Action.UPDATE_MODEL, targets.of_model(of.model))
    version = (await api.reads.models.version(of.model, model_version_num)).version
    given = "" if body.checkpoint is None else body.checkpoint.uuid
    if given not in ("", version.checkpoint_uuid):
        raise InvalidArgument(
            f"checkpoint: that of a version does not change: register {given[:80]!r} as another version"
        )
    changes = VersionPatch(
        name=body.name,
        comment=body.comment,
        notes=body.notes,
        labels=body.labels,
        metadata=body.metadata,
    )
    await api.services.versions.patch(of.model.id, model_version_num, changes, by=by)
    return await _shown(api, str(of.model.id), model_version_num, visible)


@router.delete(VERSION)
@permit(Action.DELETE_MODEL_VERSION, model_version("model_name", "model_version_num"))
async def delete_version(
    model_name: ModelName, model_version_num: RowId, by: Caller, visible: Visible, api: TheApi
) -> Reply[Empty]:
    """Its checkpoint stays."""
    of = await api.reads.models.model(model_name, visible)
    target = await targets.version_target(api, str(of.model.id), model_version_num, by)
    require(api, by, Action.DELETE_MODEL_VERSION, target)
    await api.services.versions.delete(of.model.id, model_version_num, by=by)
    return reply()


@router.post("/trial-source-info")
@permit(Action.REPORT, IN_BODY)
async def report_use(
    body: ReportTrialSource, by: Caller, visible: Visible, api: TheApi
) -> Reply[TrialSourceReply]:
    """A trial uses a checkpoint: its metrics count as those of the checkpoint, and of the version that is named."""
    use = body.trial_source_info
    require(api, by, Action.REPORT, await targets.trial_target(api, use.trial_id))
    if not use.trial_source_info_type:
        raise InvalidArgument("trialSourceInfoType: must say INFERENCE or FINE_TUNING")
    await api.reads.checkpoints.checkpoint(use.checkpoint_uuid, visible)
    if use.model_id is not None:
        await api.reads.models.model(str(use.model_id), visible)
    await api.services.versions.report_use(
        TrialUse(
            trial_id=use.trial_id,
            checkpoint=use.checkpoint_uuid,
            kind=use.trial_source_info_type,
            model_id=use.model_id,
            version=use.model_version,
        )
    )
    return reply({"trialId": use.trial_id, "checkpointUuid": use.checkpoint_uuid})


@router.get(VERSION + "/metrics")
@permit(Action.VIEW_MODELS, VISIBLE)
async def version_metrics(
    model_name: ModelName,
    model_version_num: RowId,
    query: Annotated[SourceMetrics, Query()],
    visible: Visible,
    api: TheApi,
) -> Reply[MetricsReports]:
    """Of the trials that said that they use it."""
    of = await api.reads.models.model(model_name, visible)
    await api.reads.models.version(of.model, model_version_num)
    trials = await api.reads.models.users_of_version(
        of.model.id, model_version_num, query.trial_source_info_type, visible
    )
    rows = await api.reads.series.reports_of(trials, query.metric_group)
    return reply({"metrics": [metrics_report(row) for row in rows]})


@router.get("/checkpoints/{checkpoint_uuid}/metrics")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def checkpoint_metrics(
    checkpoint_uuid: str,
    query: Annotated[SourceMetrics, Query()],
    visible: Visible,
    api: TheApi,
) -> Reply[MetricsReports]:
    """Of the trials that said that they use it. Those that began with it count as fine-tuning."""
    await api.reads.checkpoints.checkpoint(checkpoint_uuid, visible)
    kind = query.trial_source_info_type
    trials = await api.reads.models.users_of_checkpoint(checkpoint_uuid, kind, visible)
    if kind != "INFERENCE":
        trials += await api.reads.series.warmed_by(checkpoint_uuid, visible)
    rows = await api.reads.series.reports_of(trials, query.metric_group)
    return reply({"metrics": [metrics_report(row) for row in rows]})


async def _shown(
    api: ApiContext, model_name: str, number: int, visible: Visibility
) -> Reply[ModelVersionReply]:
    of: ModelRow = await api.reads.models.model(model_name, visible)
    row = await api.reads.models.version(of.model, number)
    (shown,) = await wire.versions(api, of, [row], visible)
    return reply({"modelVersion": shown})
