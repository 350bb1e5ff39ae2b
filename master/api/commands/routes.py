"""Commands: launch, look, list, kill, and their priority."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from master.api.access import Caller, Visible
from master.api.commands import wire
from master.api.commands.replies import (
    Command,
    CommandReply,
    CommandsReply,
    GetCommandReply,
    LaunchedCommandReply,
)
from master.api.enums import LaunchWarning
from master.api.file_bodies import FileBody, parse_body
from master.api.openapi import reads
from master.api.paging import pagination
from master.api.permits import CLUSTER, MAX_CREATE_BYTES, VISIBLE, interactive_task, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, FreeObject, Int32, Paging, Priority, Text, Word
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import finite
from master.auth.permissions import Action
from master.core.expconf.secrets import masked
from master.core.jobs import JobType
from master.core.visibility import Visibility
from master.parsing import in_parsing_thread
from master.store.contexts import ContextFile
from master.tasks.interactive_queries import InteractiveFilter, InteractiveRow
from master.tasks.service import NewTask
from windlass.base.errors import NotFound

router = APIRouter(prefix="/api/v1/commands", route_class=ApiRoute, tags=["commands"])

KIND = JobType.COMMAND
UNCATEGORIZED = 1
SORTS = ("ID", "DESCRIPTION", "START_TIME", "WORKSPACE_ID")

CommandId = Annotated[Text, Path(max_length=100)]


class LaunchCommand(Body):
    config: FreeObject = Field(default_factory=dict)
    template_name: Text = ""
    files: tuple[FileBody, ...] = ()
    workspace_id: Int32 = 0
    preview: bool = False


def read_launch(body: bytes) -> tuple[LaunchCommand, tuple[ContextFile, ...]]:
    """Parse a large body; for a thread. Raises InvalidArgument that names the field."""
    request = parse_body(LaunchCommand, body)
    return request, tuple(file.context_file("files") for file in request.files)


@router.post(
    "",
    openapi_extra=reads(LaunchCommand),
)
@permit(Action.CREATE_COMMAND, CLUSTER, max_body=MAX_CREATE_BYTES)
async def launch(
    request: Request, principal: Caller, visible: Visible, api: TheApi
) -> Reply[LaunchedCommandReply]:
    # Read by hand: its files may be large, and must not be parsed on the event loop.
    body, files = await in_parsing_thread(read_launch, await request.body())
    if body.template_name:
        raise NotFound("template", body.template_name)
    workspace_id = body.workspace_id or UNCATEGORIZED
    await api.reads.workspaces.workspace(workspace_id, visible)
    commands = api.services.tasks
    new = NewTask(
        type=KIND,
        config=body.config,
        files=files,
        workspace_id=workspace_id,
    )
    if body.preview:
        checked = await commands.check(new, by=principal)
        command = wire.preview(checked, principal, workspace_id)
    else:
        checked = await commands.launch(new, by=principal)
        command = await _command_json(api, checked.id, visible)
    return reply(
        {
            "command": command,
            "config": finite(checked.config.to_json()),
            "warnings": [LaunchWarning(warning) for warning in checked.warnings],
            "configWarnings": list(checked.config_warnings),
        }
    )


class ListCommands(Paging):
    users: tuple[str, ...] = ()
    user_ids: tuple[Int32, ...] = ()
    workspace_id: Int32 = 0
    sort_by: Annotated[str, Word("SORT_BY_", SORTS)] = ""
    """In the order of their launch, if unspecified."""


@router.get("")
@permit(Action.VIEW_COMMANDS, VISIBLE)
async def list_commands(
    query: Annotated[ListCommands, Query()], visible: Visible, api: TheApi
) -> Reply[CommandsReply]:
    if query.workspace_id:
        await api.reads.workspaces.workspace(query.workspace_id, visible)
    where = InteractiveFilter(
        users=tuple(user.lower() for user in query.users),
        user_ids=tuple(query.user_ids),
        workspace_id=query.workspace_id,
    )
    page = query.page(sort=query.sort_by.lower() or "start_time")
    found = await api.reads.interactive.tasks(KIND, where, page, visible)
    items = [_json(api, row) for row in found.rows]
    return reply({"commands": items, "pagination": pagination(found)})


@router.get("/{command_id}")
@permit(Action.VIEW_COMMANDS, VISIBLE)
async def get(command_id: CommandId, visible: Visible, api: TheApi) -> Reply[GetCommandReply]:
    row = await api.reads.interactive.task(command_id, visible, type_=KIND)
    config = row.task.config
    if not visible.shows_secrets_of(row.task.owner_id):
        config = masked(config)
    return reply({"command": _json(api, row), "config": finite(config)})


@router.post("/{command_id}/kill")
@permit(Action.UPDATE_COMMAND, interactive_task("command_id", KIND))
async def kill(
    command_id: CommandId, principal: Caller, visible: Visible, api: TheApi
) -> Reply[CommandReply]:
    await api.services.tasks.kill(command_id, by=principal)
    return reply({"command": await _command_json(api, command_id, visible)})


class SetPriorityBody(Body):
    priority: Priority


@router.post("/{command_id}/set_priority")
@permit(Action.UPDATE_COMMAND, interactive_task("command_id", KIND))
async def set_priority(
    command_id: CommandId, body: SetPriorityBody, visible: Visible, principal: Caller, api: TheApi
) -> Reply[CommandReply]:
    await api.services.tasks.set_priority(command_id, body.priority, by=principal)
    return reply({"command": await _command_json(api, command_id, visible)})


async def _command_json(api: ApiContext, command_id: str, visible: Visibility) -> Command:
    """One command. Raises NotFound."""
    return _json(api, await api.reads.interactive.task(command_id, visible, type_=KIND))


def _json(api: ApiContext, row: InteractiveRow) -> Command:
    live = api.services.tasks.live(row.task.id)
    if live is None:
        return wire.command(row, None)
    return wire.command(row, live.state, api.services.tasks.waiting_reason(live.state))
