"""Workspaces: list, look, create, edit, archive, pin, delete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query

from master.api.access import Caller, Visible, require
from master.api.paging import pagination
from master.api.permits import CLUSTER, VISIBLE, permit, workspace
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Paging, RowId
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import workspace_target
from master.api.workspaces import wire
from master.api.workspaces.replies import (
    ChangedWorkspaceReply,
    DeletionBegunReply,
    NamespaceBindingsReply,
    PoolsReply,
    WorkspaceReply,
    WorkspacesReply,
)
from master.api.workspaces.requests import (
    CreateWorkspace,
    ListNamed,
    PatchWorkspace,
    no_kubernetes,
)
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.store.paging import cut
from master.workspaces.service import WorkspacePatch

router = APIRouter(prefix="/api/v1/workspaces", route_class=ApiRoute, tags=["workspaces"])


@router.get("")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def list_workspaces(
    query: Annotated[ListNamed, Query()], by: Caller, visible: Visible, api: TheApi
) -> Reply[WorkspacesReply]:
    page = query.page(sort=query.sort_by.lower() or "id")
    found = await api.reads.workspaces.workspaces(query.where(), page, visible, reader=by.user_id)
    items = [wire.workspace(row, by) for row in found.rows]
    return reply({"workspaces": items, "pagination": pagination(found)})


@router.get("/{id}")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def get_workspace(
    id: RowId, by: Caller, visible: Visible, api: TheApi
) -> Reply[WorkspaceReply]:
    row = await api.reads.workspaces.workspace(id, visible, reader=by.user_id)
    return reply({"workspace": wire.workspace(row, by)})


@router.post("")
@permit(Action.CREATE_WORKSPACE, CLUSTER)
async def create_workspace(
    body: CreateWorkspace, by: Caller, visible: Visible, api: TheApi
) -> Reply[ChangedWorkspaceReply]:
    """Whoever may create one says what its work is given; as whom it runs needs more."""
    given = body.patch()
    if given.agent_user is not None:
        require(api, by, Action.SET_AGENT_USER)
    id_ = await api.services.workspaces.create(body.name, given, by=by)
    return await _changed(api, id_, by, visible)


@router.patch("/{id}")
@permit(Action.UPDATE_WORKSPACE, workspace("id"))
async def patch_workspace(
    id: RowId, body: PatchWorkspace, by: Caller, visible: Visible, api: TheApi
) -> Reply[ChangedWorkspaceReply]:
    patch = body.patch(body.name)
    target = await workspace_target(api, id)
    for action in _needed(patch):
        require(api, by, action, target)
    await api.services.workspaces.patch(id, patch, by=by)
    return await _changed(api, id, by, visible)


@router.delete("/{id}")
@permit(Action.DELETE_WORKSPACE, workspace("id"))
async def delete_workspace(id: RowId, by: Caller, api: TheApi) -> Reply[DeletionBegunReply]:
    return reply({"completed": await api.services.workspaces.delete(id, by=by)})


@router.post("/{id}/archive")
@permit(Action.UPDATE_WORKSPACE, workspace("id"))
async def archive_workspace(id: RowId, by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.workspaces.set_archived(id, True, by=by)
    return reply()


@router.post("/{id}/unarchive")
@permit(Action.UPDATE_WORKSPACE, workspace("id"))
async def unarchive_workspace(id: RowId, by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.workspaces.set_archived(id, False, by=by)
    return reply()


@router.post("/{id}/pin")
@permit(Action.PIN_WORKSPACE, VISIBLE)
async def pin_workspace(id: RowId, by: Caller, visible: Visible, api: TheApi) -> Reply[Empty]:
    await api.reads.workspaces.workspace(id, visible)
    await api.services.workspaces.set_pinned(id, True, by=by)
    return reply()


@router.post("/{id}/unpin")
@permit(Action.PIN_WORKSPACE, VISIBLE)
async def unpin_workspace(id: RowId, by: Caller, visible: Visible, api: TheApi) -> Reply[Empty]:
    await api.reads.workspaces.workspace(id, visible)
    await api.services.workspaces.set_pinned(id, False, by=by)
    return reply()


@router.get("/{workspace_id}/available-resource-pools")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def workspace_pools(
    workspace_id: RowId, query: Annotated[Paging, Query()], visible: Visible, api: TheApi
) -> Reply[PoolsReply]:
    """Those that are everybody's, and those that are bound to it."""
    await api.reads.workspaces.workspace(workspace_id, visible)
    page = cut(await api.services.rules.pool_bindings.usable(workspace_id), query.page())
    return reply({"resourcePools": list(page.rows), "pagination": pagination(page)})


@router.get("/{id}/list-namespace-bindings")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def namespace_bindings(
    id: RowId, visible: Visible, api: TheApi
) -> Reply[NamespaceBindingsReply]:
    await api.reads.workspaces.workspace(id, visible)
    return reply({"namespaceBindings": {}})


@router.post("/{workspace_id}/namespace-bindings")
@permit(Action.BIND_NAMESPACES, workspace("workspace_id"))
async def bind_namespace(workspace_id: RowId) -> Reply[Empty]:
    raise no_kubernetes()


@router.delete("/{workspace_id}/namespace-bindings")
@permit(Action.BIND_NAMESPACES, workspace("workspace_id"))
async def unbind_namespace(workspace_id: RowId) -> Reply[Empty]:
    raise no_kubernetes()


@router.post("/{id}/set-resource-quota")
@permit(Action.SET_QUOTAS, workspace("id"))
async def set_resource_quota(id: RowId) -> Reply[Empty]:
    raise no_kubernetes()


def _needed(patch: WorkspacePatch) -> Iterator[Action]:
    if patch.agent_user is not None:
        yield Action.SET_AGENT_USER
    if patch.checkpoint_storage is not None:
        yield Action.SET_WORKSPACE_STORAGE
    if patch.default_compute_pool is not None or patch.default_aux_pool is not None:
        yield Action.SET_DEFAULT_POOLS


async def _changed(
    api: ApiContext, workspace_id: int, by: Principal, visible: Visibility
) -> Reply[ChangedWorkspaceReply]:
    row = await api.reads.workspaces.workspace(workspace_id, visible, reader=by.user_id)
    return reply({"workspace": wire.workspace(row, by), "namespaceBindings": {}})
