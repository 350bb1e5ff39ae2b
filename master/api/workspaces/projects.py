"""Projects: list, look, create, edit, note, archive, move, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from master.api.access import Caller, Visible
from master.api.paging import pagination
from master.api.permits import VISIBLE, permit, project, workspace
from master.api.replies import Empty, Reply, reply
from master.api.request_models import RowId, Text
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import require_new
from master.api.workspaces import wire
from master.api.workspaces.replies import (
    DeletionBegunReply,
    NotesReply,
    ProjectReply,
    ProjectsReply,
)
from master.api.workspaces.requests import (
    CreateProject,
    ListNamed,
    MoveProject,
    Note,
    PatchProject,
    ProjectNotes,
)
from master.auth.actions import Action
from master.core.visibility import Visibility
from master.workspaces.projects import NewProject, ProjectPatch

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["projects"])


@router.get("/workspaces/{id}/projects")
@permit(Action.VIEW_PROJECTS, VISIBLE)
async def list_projects(
    id: RowId, query: Annotated[ListNamed, Query()], visible: Visible, api: TheApi
) -> Reply[ProjectsReply]:
    """Of workspace 0: of all."""
    if id:
        await api.reads.workspaces.workspace(id, visible)
    page = query.page(sort=query.sort_by.lower() or "id")
    found = await api.reads.workspaces.projects(id, query.where(), page, visible)
    items = [wire.project(row) for row in found.rows]
    return reply({"projects": items, "pagination": pagination(found)})


@router.post("/workspaces/{workspace_id}/projects")
@permit(Action.CREATE_PROJECT, workspace("workspace_id"))
async def create_project(
    workspace_id: RowId, body: CreateProject, by: Caller, visible: Visible, api: TheApi
) -> Reply[ProjectReply]:
    await api.reads.workspaces.workspace(workspace_id, visible)
    new = NewProject(
        workspace_id=workspace_id,
        name=body.name,
        description=body.description,
        key=body.key or None,
    )
    return await _project(api, await api.services.projects.create(new, by=by), visible)


@router.get("/projects/key/{key}")
@permit(Action.VIEW_PROJECTS, VISIBLE)
async def get_project_by_key(key: Text, visible: Visible, api: TheApi) -> Reply[ProjectReply]:
    row = await api.reads.workspaces.project_by_key(key, visible)
    return reply({"project": wire.project(row)})


@router.get("/projects/{id}")
@permit(Action.VIEW_PROJECTS, VISIBLE)
async def get_project(id: RowId, visible: Visible, api: TheApi) -> Reply[ProjectReply]:
    return await _project(api, id, visible)


@router.patch("/projects/{id}")
@permit(Action.UPDATE_PROJECT, project("id"))
async def patch_project(
    id: RowId, body: PatchProject, by: Caller, visible: Visible, api: TheApi
) -> Reply[ProjectReply]:
    patch = ProjectPatch(name=body.name, description=body.description, key=body.key)
    await api.services.projects.patch(id, patch, by=by)
    return await _project(api, id, visible)


@router.delete("/projects/{id}")
@permit(Action.DELETE_PROJECT, project("id"))
async def delete_project(id: RowId, by: Caller, api: TheApi) -> Reply[DeletionBegunReply]:
    return reply({"completed": await api.services.projects.delete(id, by=by)})


@router.post("/projects/{id}/archive")
@permit(Action.UPDATE_PROJECT, project("id"))
async def archive_project(id: RowId, by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.projects.set_archived(id, True, by=by)
    return reply()


@router.post("/projects/{id}/unarchive")
@permit(Action.UPDATE_PROJECT, project("id"))
async def unarchive_project(id: RowId, by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.projects.set_archived(id, False, by=by)
    return reply()


@router.post("/projects/{project_id}/notes")
@permit(Action.UPDATE_PROJECT, project("project_id"))
async def add_project_note(
    project_id: RowId, body: Note, by: Caller, api: TheApi
) -> Reply[NotesReply]:
    """The body is the note."""
    notes = await api.services.projects.add_note(project_id, body.model_dump(), by=by)
    return reply({"notes": [dict(note) for note in notes]})


@router.put("/projects/{project_id}/notes")
@permit(Action.UPDATE_PROJECT, project("project_id"))
async def put_project_notes(
    project_id: RowId, body: ProjectNotes, by: Caller, api: TheApi
) -> Reply[NotesReply]:
    given = [note.model_dump() for note in body.notes]
    notes = await api.services.projects.set_notes(project_id, given, by=by)
    return reply({"notes": [dict(note) for note in notes]})


@router.post("/projects/{project_id}/move")
@permit(Action.MOVE_PROJECT, project("project_id"))
async def move_project(
    project_id: RowId, body: MoveProject, by: Caller, visible: Visible, api: TheApi
) -> Reply[Empty]:
    target = body.destination_workspace_id
    await api.reads.workspaces.workspace(target, visible)
    await require_new(api, by, Action.TAKE_PROJECT, workspace_id=target)
    await api.services.projects.move(project_id, target, by=by)
    return reply()


async def _project(api: ApiContext, project_id: int, visible: Visibility) -> Reply[ProjectReply]:
    return reply({"project": wire.project(await api.reads.workspaces.project(project_id, visible))})
