"""Generic tasks: create and fork, list, look at the configuration, pause, unpause, kill."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from master.api import targets
from master.api.access import Caller, Visible, require
from master.api.enums import LaunchWarning
from master.api.http.file_bodies import FileBody, parse_body
from master.api.openapi import reads
from master.api.paging import pagination
from master.api.permits import MAX_CREATE_BYTES, SOME, VISIBLE, generic_task, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, Paging, Text
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.tasks import generic_wire
from master.api.tasks.replies import CreatedGenericTask, GenericConfigReply, GenericTasksReply
from master.auth.actions import Action
from master.auth.permissions import visibility
from master.parsing import in_parsing_thread
from master.store.contexts import ContextFile
from master.tasks.generic import NewGenericTask, read_config
from windlass.base.errors import NotFound

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["generic tasks"])

UNCATEGORIZED = 1
ONE = generic_task("task_id")

TaskId = Annotated[Text, Path(max_length=100)]


class CreateGenericTask(Body):
    config: Text = ""
    """YAML. Its keys replace those of the forked task."""
    context_directory: tuple[FileBody, ...] = ()
    project_id: Int32 = 0
    forked_from: Text = ""
    parent_id: Text = ""
    inherit_context: bool = False
    no_pause: bool = False


class ListGenericTasks(Paging):
    ended: bool = False
    """Those that are over, too."""


class KillGenericTask(Body):
    kill_from_root: bool = False


def read_create(
    body: bytes,
) -> tuple[CreateGenericTask, dict[str, Any] | None, tuple[ContextFile, ...]]:
    """Parse a large body; for a thread. Raises InvalidArgument that names the field."""
    request = parse_body(CreateGenericTask, body)
    files = tuple(file.context_file("contextDirectory") for file in request.context_directory)
    return request, read_config(request.config), files


@router.post("/generic-tasks", openapi_extra=reads(CreateGenericTask))
@permit(Action.CREATE_INTERACTIVE, SOME, max_body=MAX_CREATE_BYTES)
async def create(
    request: Request, principal: Caller, visible: Visible, api: TheApi
) -> Reply[CreatedGenericTask]:
    # Read by hand: its files may be large, and must not be parsed on the event loop.
    body, config, files = await in_parsing_thread(read_create, await request.body())
    project_id = body.project_id or UNCATEGORIZED
    row = await api.reads.workspaces.project(project_id, visible)
    if row.project.archived or row.workspace_archived:
        raise NotFound("project", project_id, ": it is archived")
    workspace_id = row.project.workspace_id
    await targets.require_new(api, principal, Action.CREATE_INTERACTIVE, workspace_id=workspace_id)
    if body.parent_id:
        # Its tree is killed as a whole, by whoever may kill one of it.
        parent = await targets.generic_target(api, body.parent_id)
        require(api, principal, Action.UPDATE_INTERACTIVE, parent)
    created = await api.services.generic.create(
        NewGenericTask(
            config=config,
            files=files,
            workspace_id=workspace_id,
            forked_from=body.forked_from,
            parent_id=body.parent_id,
            inherit_context=body.inherit_context,
            no_pause=body.no_pause,
        ),
        by=principal,
        visible=visibility(principal, Action.VIEW_INTERACTIVE),
    )
    return reply(
        {
            "taskId": created.id,
            "warnings": [LaunchWarning(warning) for warning in created.warnings],
            "configWarnings": list(created.config_warnings),
        }
    )


@router.get("/windlass/generic-tasks")
@permit(Action.VIEW_INTERACTIVE, VISIBLE)
async def list_tasks(
    query: Annotated[ListGenericTasks, Query()], visible: Visible, api: TheApi
) -> Reply[GenericTasksReply]:
    """Those that run, wait or are paused; in the order of their creation."""
    page = query.page(sort="start_time")
    found = await api.services.generic.listed(page, visible, with_ended=query.ended)
    waiting = api.services.tasks.waiting_reason
    tasks = [generic_wire.listed(row, waiting(row.state)) for row in found.rows]
    return reply({"tasks": tasks, "pagination": pagination(found)})


@router.get("/tasks/{task_id}/config")
@permit(Action.VIEW_INTERACTIVE, VISIBLE)
async def config(task_id: TaskId, visible: Visible, api: TheApi) -> Reply[GenericConfigReply]:
    state = await api.services.generic.state(task_id, visible)
    return reply({"config": generic_wire.config_text(state, visible)})


@router.post("/tasks/{task_id}/kill")
@permit(Action.UPDATE_INTERACTIVE, ONE)
async def kill(
    task_id: TaskId, body: KillGenericTask, principal: Caller, api: TheApi
) -> Reply[Empty]:
    if body.kill_from_root:
        root = await api.services.generic.root_of(task_id)
        target = await targets.generic_target(api, root)
        require(api, principal, Action.UPDATE_INTERACTIVE, target)
    await api.services.generic.kill(task_id, from_root=body.kill_from_root, by=principal)
    return reply()


@router.post("/tasks/{task_id}/pause")
@permit(Action.UPDATE_INTERACTIVE, ONE)
async def pause(task_id: TaskId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.generic.pause(task_id, by=principal)
    return reply()


@router.post("/tasks/{task_id}/unpause")
@permit(Action.UPDATE_INTERACTIVE, ONE)
async def unpause(task_id: TaskId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.generic.unpause(task_id, by=principal)
    return reply()
