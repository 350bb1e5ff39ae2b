"""Views of lists: a filter, an order and columns under a name."""

from __future__ import annotations

from typing import Annotated

import fastapi
from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.lists.search import written
from master.api.permits import OWN, VISIBLE, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, Query, Text
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Timestamp, time
from master.auth.actions import Action
from master.auth.permissions import visibility
from master.experiments.finding.columns import Table
from master.experiments.finding.sorts import parse_written_sorts
from master.experiments.saved_views import NewView, ViewRow
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1/windlass/views", route_class=ApiRoute, tags=["lists"])

MAX_COLUMNS = 100
MAX_COLUMN_CHARS = 1_000


class SavedView(TypedDict):
    list: Table
    name: str
    filter: str
    sort: str
    columns: list[str] | None
    """Null: the usual ones."""
    archived: bool
    projectId: int | None
    workspaceId: int | None
    """Shown to all who see this project, or this workspace; else to its owner only."""
    ownerId: int
    username: str
    modifiedAt: Timestamp


class SavedViewsReply(TypedDict):
    views: list[SavedView]


class ViewsOf(Query):
    list: Table


class OneView(Body):
    list: Table
    name: Text


class PutView(Body):
    list: Table
    name: Text
    filter: Text = ""
    sort: Text = ""
    columns: (
        Annotated[
            tuple[Annotated[Text, Field(max_length=MAX_COLUMN_CHARS)], ...],
            Field(max_length=MAX_COLUMNS),
        ]
        | None
    ) = None
    archived: bool = False
    project_id: Annotated[Int32, Field(ge=1)] | None = None
    workspace_id: Annotated[Int32, Field(ge=1)] | None = None


@router.get("")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def list_views(
    query: Annotated[ViewsOf, fastapi.Query()], by: Caller, visible: Visible, api: TheApi
) -> Reply[SavedViewsReply]:
    """The caller's own, and those shared with the projects and workspaces that the caller sees."""
    rows = await api.services.saved_views.views(query.list, by.user_id, visible)
    return reply({"views": [_view(row) for row in rows]})


@router.put("")
@permit(Action.USE_SETTINGS, OWN)
async def put_view(body: PutView, by: Caller, api: TheApi) -> Reply[Empty]:
    """Keeps it, in the place of the caller's own one of that name."""
    written(api, body.filter, body.list, by)
    parse_written_sorts(body.sort, body.list)
    if any("\n" in column for column in body.columns or ()):
        raise InvalidArgument("columns: a name has no line break")
    seen = visibility(by, Action.VIEW_EXPERIMENTS)
    if body.project_id is not None:
        await api.reads.workspaces.project(body.project_id, seen)
    if body.workspace_id is not None:
        await api.reads.workspaces.workspace(body.workspace_id, seen)
    new = NewView(
        table=body.list,
        name=body.name,
        filter=body.filter,
        sort=body.sort,
        columns=body.columns,
        archived=body.archived,
        project_id=body.project_id,
        workspace_id=body.workspace_id,
    )
    await api.services.saved_views.put(new, by=by)
    return reply()


@router.delete("")
@permit(Action.USE_SETTINGS, OWN)
async def remove_view(body: OneView, by: Caller, api: TheApi) -> Reply[Empty]:
    """One of the caller's own."""
    await api.services.saved_views.remove(body.list, body.name, by=by)
    return reply()


def _view(row: ViewRow) -> SavedView:
    view = row.view
    columns = None if view.columns is None else [c for c in view.columns.split("\n") if c]
    return {
        "list": Table(view.list),
        "name": view.name,
        "filter": view.filter,
        "sort": view.sort,
        "columns": columns,
        "archived": view.archived,
        "projectId": view.project_id,
        "workspaceId": view.workspace_id,
        "ownerId": view.owner_id,
        "username": row.username,
        "modifiedAt": time(view.modified_at),
    }
