"""Workspaces and projects, to look at: there is one of each, `Uncategorized`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator

from master.api.access import Visible
from master.api.middleware import ApiRoute
from master.api.paging import pagination
from master.api.replies import reply
from master.api.request_models import Int32, Paging, RowId, word
from master.api.services import TheApi
from master.api.workspaces.wire import project, workspace
from master.store.paging import Row, cut

router = APIRouter(route_class=ApiRoute, tags=["workspaces"])

_SORTS = ("ID", "NAME", "CREATION_TIME", "LAST_EXPERIMENT_START_TIME", "DESCRIPTION")


class ListNamed(Paging):
    name: str = ""
    name_case_sensitive: str = ""
    archived: bool | None = None
    pinned: bool | None = None
    users: tuple[str, ...] = ()
    user_ids: tuple[Int32, ...] = ()
    sort_by: Annotated[str, AfterValidator(word("SORT_BY_", _SORTS))] = ""

    def select(self, rows: Sequence[Row]) -> list[Row]:
        found = [row for row in rows if self._wants(row)]
        if self.sort_by in ("NAME", "DESCRIPTION"):
            key = self.sort_by.lower()
            found.sort(key=lambda row: (row.get(key, row["name"]).lower(), row["id"]))
        return found[::-1] if self.order_by == "DESC" else found

    def _wants(self, row: Row) -> bool:
        return (
            (not self.name or self.name.lower() == row["name"].lower())
            and (not self.name_case_sensitive or self.name_case_sensitive == row["name"])
            and self.archived in (None, row["archived"])
            and not self.pinned
            and (not self.users or row["username"] in self.users)
            and (not self.user_ids or row["user_id"] in self.user_ids)
        )


Filters = Annotated[ListNamed, Query()]


@router.get("/api/v1/workspaces")
async def list_workspaces(query: Filters, visible: Visible, api: TheApi) -> Response:
    page = cut(query.select(await api.reads.workspaces.workspaces(visible)), query.page())
    items = [workspace(row) for row in page.rows]
    return reply({"workspaces": items, "pagination": pagination(page)})


@router.get("/api/v1/workspaces/{id}")
async def get_workspace(id: RowId, visible: Visible, api: TheApi) -> Response:
    return reply({"workspace": workspace(await api.reads.workspaces.workspace(id, visible))})


@router.get("/api/v1/workspaces/{id}/projects")
async def list_projects(id: RowId, query: Filters, visible: Visible, api: TheApi) -> Response:
    if id:
        await api.reads.workspaces.workspace(id, visible)
    page = cut(query.select(await api.reads.workspaces.projects(id, visible)), query.page())
    items = [project(row) for row in page.rows]
    return reply({"projects": items, "pagination": pagination(page)})


@router.get("/api/v1/projects/{id}")
async def get_project(id: RowId, visible: Visible, api: TheApi) -> Response:
    return reply({"project": project(await api.reads.workspaces.project(id, visible))})
