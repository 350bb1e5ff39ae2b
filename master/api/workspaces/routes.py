"""Workspaces and projects, to look at: there is one of each, `Uncategorized`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query

from master.api.access import Visible
from master.api.paging import pagination
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Int32, Paging, RowId, Word
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.workspaces.replies import (
    ProjectReply,
    ProjectsReply,
    WorkspaceReply,
    WorkspacesReply,
)
from master.api.workspaces.wire import project, workspace
from master.auth.permissions import Action
from master.store.paging import cut
from master.store.tables import Project, Workspace

router = APIRouter(route_class=ApiRoute, tags=["workspaces"])

T = TypeVar("T")
_SORTS = ("ID", "NAME", "CREATION_TIME", "LAST_EXPERIMENT_START_TIME", "DESCRIPTION")


class ListNamed(Paging):
    name: str = ""
    name_case_sensitive: str = ""
    archived: bool | None = None
    pinned: bool | None = None
    users: tuple[str, ...] = ()
    user_ids: tuple[Int32, ...] = ()
    sort_by: Annotated[str, Word("SORT_BY_", _SORTS)] = ""

    def wants(self, of: Workspace | Project, owner: str) -> bool:
        return (
            (not self.name or self.name.lower() == of.name.lower())
            and (not self.name_case_sensitive or self.name_case_sensitive == of.name)
            and self.archived in (None, of.archived)
            and not self.pinned
            and (not self.users or owner in self.users)
            and (not self.user_ids or of.user_id in self.user_ids)
        )

    def order(self, rows: Sequence[T], of: Callable[[T], Workspace | Project]) -> list[T]:
        """By id as they come, or by name or description."""
        ordered = list(rows)
        if self.sort_by == "NAME":
            ordered.sort(key=lambda row: (of(row).name.lower(), of(row).id))
        if self.sort_by == "DESCRIPTION":
            ordered.sort(key=lambda row: (_description(of(row)).lower(), of(row).id))
        return ordered[::-1] if self.order_by == "DESC" else ordered


def _description(of: Workspace | Project) -> str:
    return of.description if isinstance(of, Project) else of.name


Filters = Annotated[ListNamed, Query()]


@router.get("/api/v1/workspaces")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def list_workspaces(query: Filters, visible: Visible, api: TheApi) -> Reply[WorkspacesReply]:
    rows = [
        row
        for row in await api.reads.workspaces.workspaces(visible)
        if query.wants(row.workspace, row.username)
    ]
    page = cut(query.order(rows, lambda row: row.workspace), query.page())
    items = [workspace(row) for row in page.rows]
    return reply({"workspaces": items, "pagination": pagination(page)})


@router.get("/api/v1/workspaces/{id}")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def get_workspace(id: RowId, visible: Visible, api: TheApi) -> Reply[WorkspaceReply]:
    return reply({"workspace": workspace(await api.reads.workspaces.workspace(id, visible))})


@router.get("/api/v1/workspaces/{id}/projects")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def list_projects(
    id: RowId, query: Filters, visible: Visible, api: TheApi
) -> Reply[ProjectsReply]:
    if id:
        await api.reads.workspaces.workspace(id, visible)
    rows = [
        row
        for row in await api.reads.workspaces.projects(id, visible)
        if query.wants(row.project, row.username)
    ]
    page = cut(query.order(rows, lambda row: row.project), query.page())
    items = [project(row) for row in page.rows]
    return reply({"projects": items, "pagination": pagination(page)})


@router.get("/api/v1/projects/{id}")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def get_project(id: RowId, visible: Visible, api: TheApi) -> Reply[ProjectReply]:
    return reply({"project": project(await api.reads.workspaces.project(id, visible))})
