"""Bindings of pools to workspaces: list, add, remove, replace."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from master.api.access import Caller, Visible
from master.api.paging import pagination
from master.api.permits import CLUSTER, VISIBLE, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, Paging, Text
from master.api.resource_pools.replies import BoundWorkspacesReply
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.auth.actions import Action
from master.pool_bindings.service import Workspaces
from master.store.paging import cut

router = APIRouter(route_class=ApiRoute, tags=["resource pools"])
BINDINGS = "/api/v1/resource-pools/{resource_pool_name}/workspace-bindings"
PoolName = Annotated[Text, Path(min_length=1)]


class BoundWorkspaces(Body):
    """By ids, by names, or both. The pool is named by the path, too."""

    resource_pool_name: Text = ""
    workspace_ids: Annotated[tuple[Int32, ...], Field(max_length=1000)] = ()
    workspace_names: Annotated[tuple[Text, ...], Field(max_length=1000)] = ()

    def workspaces(self) -> Workspaces:
        return Workspaces(ids=self.workspace_ids, names=self.workspace_names)


@router.get(BINDINGS)
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def list_bound(
    resource_pool_name: PoolName, query: Annotated[Paging, Query()], visible: Visible, api: TheApi
) -> Reply[BoundWorkspacesReply]:
    bound = await api.services.rules.pool_bindings.workspaces(resource_pool_name)
    page = cut([id_ for id_ in bound if id_ in visible], query.page())
    return reply({"workspaceIds": list(page.rows), "pagination": pagination(page)})


@router.post(BINDINGS)
@permit(Action.BIND_POOLS, CLUSTER)
async def bind(
    resource_pool_name: PoolName, body: BoundWorkspaces, by: Caller, api: TheApi
) -> Reply[Empty]:
    await api.services.pool_bindings.bind(resource_pool_name, body.workspaces(), by=by)
    return reply()


@router.delete(BINDINGS)
@permit(Action.BIND_POOLS, CLUSTER)
async def unbind(
    resource_pool_name: PoolName, body: BoundWorkspaces, by: Caller, api: TheApi
) -> Reply[Empty]:
    await api.services.pool_bindings.unbind(resource_pool_name, body.workspaces(), by=by)
    return reply()


@router.put(BINDINGS)
@permit(Action.BIND_POOLS, CLUSTER)
async def replace(
    resource_pool_name: PoolName, body: BoundWorkspaces, by: Caller, api: TheApi
) -> Reply[Empty]:
    """Without workspaces the pool is everybody's again."""
    await api.services.pool_bindings.replace(resource_pool_name, body.workspaces(), by=by)
    return reply()
