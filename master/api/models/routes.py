"""Models: list, look, create, edit, archive, move, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from master.api import targets
from master.api.access import Caller, Visible, require
from master.api.models import wire
from master.api.models.replies import ModelLabelsReply, ModelReply, ModelsReply
from master.api.models.requests import (
    InWorkspace,
    LabelsOf,
    ListModels,
    MoveModel,
    PatchModel,
    PostModel,
)
from master.api.paging import pagination
from master.api.permits import SOME, VISIBLE, model, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Text
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.auth.actions import Action, Target
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.models.service import ModelPatch, NewModel
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["models"])

ONE = "/models/{model_name}"
ModelName = Annotated[Text, Path(min_length=1)]
"""Or its id."""
UNCATEGORIZED = 1


@router.get("/models")
@permit(Action.VIEW_MODELS, VISIBLE)
async def list_models(
    query: Annotated[ListModels, Query()], visible: Visible, api: TheApi
) -> Reply[ModelsReply]:
    page = query.page(sort=query.sort_by.lower() or "id")
    found = await api.reads.models.models(query.where(), page, visible)
    items = [wire.model(row) for row in found.rows]
    return reply({"models": items, "pagination": pagination(found)})


@router.get("/model/labels")
@permit(Action.VIEW_MODELS, VISIBLE)
async def labels(
    query: Annotated[LabelsOf, Query()], visible: Visible, api: TheApi
) -> Reply[ModelLabelsReply]:
    found = await api.reads.models.labels(visible, workspace_id=query.workspace_id)
    return reply({"labels": found})


@router.post("/models")
@permit(Action.CREATE_MODEL, SOME)
async def create(body: PostModel, by: Caller, visible: Visible, api: TheApi) -> Reply[ModelReply]:
    workspace_id = await _workspace(api, body, visible) or UNCATEGORIZED
    await targets.require_new(api, by, Action.CREATE_MODEL, workspace_id=workspace_id)
    new = NewModel(
        name=body.name,
        workspace_id=workspace_id,
        description=body.description,
        notes=body.notes,
        labels=body.labels,
        metadata=body.metadata,
    )
    return await _shown(api, await api.services.models.create(new, by=by), visible)


@router.get(ONE)
@permit(Action.VIEW_MODELS, VISIBLE)
async def get(model_name: ModelName, visible: Visible, api: TheApi) -> Reply[ModelReply]:
    return reply({"model": wire.model(await api.reads.models.model(model_name, visible))})


@router.patch(ONE)
@permit(Action.UPDATE_MODEL, model("model_name"))
async def patch(
    model_name: ModelName, body: PatchModel, by: Caller, visible: Visible, api: TheApi
) -> Reply[ModelReply]:
    """A workspace moves it there."""
    id_ = await _id(api, by, Action.UPDATE_MODEL, model_name, visible)
    to = await _workspace(api, body, visible)
    if to is not None:
        _require_target(api, by, to)
    changes = ModelPatch(
        name=body.name,
        description=body.description,
        notes=body.notes,
        labels=body.labels,
        metadata=body.metadata,
        workspace_id=to,
    )
    await api.services.models.patch(id_, changes, by=by)
    return await _shown(api, id_, visible)


@router.post(ONE + "/archive")
@permit(Action.UPDATE_MODEL, model("model_name"))
async def archive(model_name: ModelName, by: Caller, visible: Visible, api: TheApi) -> Reply[Empty]:
    id_ = await _id(api, by, Action.UPDATE_MODEL, model_name, visible)
    await api.services.models.set_archived(id_, True, by=by)
    return reply()


@router.post(ONE + "/unarchive")
@permit(Action.UPDATE_MODEL, model("model_name"))
async def unarchive(
    model_name: ModelName, by: Caller, visible: Visible, api: TheApi
) -> Reply[Empty]:
    id_ = await _id(api, by, Action.UPDATE_MODEL, model_name, visible)
    await api.services.models.set_archived(id_, False, by=by)
    return reply()


@router.post(ONE + "/move")
@permit(Action.UPDATE_MODEL, model("model_name"))
async def move(
    model_name: ModelName, body: MoveModel, by: Caller, visible: Visible, api: TheApi
) -> Reply[Empty]:
    id_ = await _id(api, by, Action.UPDATE_MODEL, model_name, visible)
    to = body.destination_workspace_id
    await api.reads.workspaces.workspace(to, visible)
    _require_target(api, by, to)
    await api.services.models.patch(id_, ModelPatch(workspace_id=to), by=by)
    return reply()


@router.delete(ONE)
@permit(Action.DELETE_MODEL, model("model_name"))
async def delete(model_name: ModelName, by: Caller, visible: Visible, api: TheApi) -> Reply[Empty]:
    """With its versions; their checkpoints stay."""
    id_ = await _id(api, by, Action.DELETE_MODEL, model_name, visible)
    await api.services.models.delete(id_, by=by)
    return reply()


async def _id(
    api: ApiContext, by: Principal, action: Action, name: str, visible: Visibility
) -> int:
    """A name may have gone to another model since its target was looked up: that one is asked about, too."""
    found = (await api.reads.models.model(name, visible)).model
    require(api, by, action, targets.of_model(found))
    return found.id


async def _workspace(api: ApiContext, body: InWorkspace, visible: Visibility) -> int | None:
    """None, if it names none. Raises NotFound."""
    id_ = body.workspace_id or None
    if body.workspace_name:
        named = await api.reads.workspaces.by_name(body.workspace_name, visible)
        if id_ not in (None, named.workspace.id):
            raise InvalidArgument(
                f"workspaceId: {id_} is not workspace {body.workspace_name!r}, which workspaceName names"
            )
        return named.workspace.id
    if id_ is not None:
        await api.reads.workspaces.workspace(id_, visible)
    return id_


def _require_target(api: ApiContext, by: Principal, workspace_id: int) -> None:
    there = Target(kind="workspace", id=workspace_id, workspace_id=workspace_id)
    require(api, by, Action.CREATE_MODEL, there)


async def _shown(api: ApiContext, model_id: int, visible: Visibility) -> Reply[ModelReply]:
    return reply({"model": wire.model(await api.reads.models.model(str(model_id), visible))})
