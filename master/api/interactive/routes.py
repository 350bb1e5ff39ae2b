"""Interactive tasks: launch, look, list, kill, and their priority, for each kind."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from master.api.access import Caller, Visible, require
from master.api.enums import LaunchWarning
from master.api.http.file_bodies import parse_body
from master.api.interactive import wire
from master.api.interactive.kinds import KINDS, Shown, WireKind
from master.api.interactive.requests import LaunchRequest, LaunchTask
from master.api.openapi import reads
from master.api.paging import pagination
from master.api.permits import MAX_CREATE_BYTES, SOME, VISIBLE, interactive_task, permit
from master.api.replies import Empty, Reply, answers, reply
from master.api.request_models import Body, Int32, Paging, Priority, Text, Word
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import applied_template, interactive_target, require_new
from master.api.values import finite
from master.auth.actions import Action
from master.core.expconf.secrets import masked
from master.core.jobs import JobType
from master.core.visibility import Visibility
from master.parsing import in_parsing_thread
from master.store.contexts import ContextFile
from master.tasks.interactive_queries import InteractiveFilter, InteractiveRow
from master.tasks.service import NewTask
from windlass.base.errors import NotFound

UNCATEGORIZED = 1
SORTS = ("ID", "DESCRIPTION", "START_TIME", "WORKSPACE_ID")

TaskId = Annotated[Text, Path(max_length=100)]


class ListTasks(Paging):
    users: tuple[str, ...] = ()
    user_ids: tuple[Int32, ...] = ()
    workspace_id: Int32 = 0
    sort_by: Annotated[str, Word("SORT_BY_", SORTS)] = ""
    """In the order of their launch, if unspecified."""


class SetPriorityBody(Body):
    priority: Priority


def router_of(kind: WireKind) -> APIRouter:
    """The calls of one kind."""
    router = APIRouter(prefix=f"/api/v1/{kind.many}", route_class=ApiRoute, tags=[kind.many])
    one = interactive_task("task_id", kind.type)

    @router.post("", openapi_extra=reads(kind.body))
    @answers(kind.launched)
    @permit(Action.CREATE_INTERACTIVE, SOME, max_body=MAX_CREATE_BYTES)
    async def launch(
        request: Request, principal: Caller, visible: Visible, api: TheApi
    ) -> Reply[dict[str, Any]]:
        # Read by hand: its files may be large, and must not be parsed on the event loop.
        body, files = await in_parsing_thread(_read_launch, kind.body, await request.body())
        workspace_id = body.workspace_id or UNCATEGORIZED
        found = await api.reads.workspaces.workspace(workspace_id, visible)
        if found.workspace.archived:
            raise NotFound("workspace", workspace_id, ": it is archived")
        await require_new(api, principal, Action.CREATE_INTERACTIVE, workspace_id=workspace_id)
        template = await applied_template(api, body.template_name, principal)
        more = await kind.look_up(
            LaunchRequest(api=api, body=body, template=template, by=principal, visible=visible)
        )
        new = NewTask(
            type=kind.type,
            config=more.config,
            written=body.config,
            template=template,
            files=files,
            workspace_id=workspace_id,
            details=more.details,
        )
        if body.preview:
            checked = await api.services.tasks.check(new, by=principal)
            shown = {**wire.preview(checked, principal, workspace_id), **kind.none}
        else:
            checked = await api.services.tasks.launch(new, by=principal)
            shown = await _one(kind, api, checked.id, visible)
        return reply(
            {
                kind.one: shown,
                "config": finite(checked.config.to_json()),
                "warnings": [LaunchWarning(warning) for warning in checked.warnings],
                "configWarnings": list(checked.config_warnings),
            }
        )

    @router.get("", name=f"list_{kind.many}")
    @answers(kind.listed)
    @permit(Action.VIEW_INTERACTIVE, VISIBLE)
    async def list_tasks(
        query: Annotated[ListTasks, Query()], visible: Visible, api: TheApi
    ) -> Reply[dict[str, Any]]:
        if query.workspace_id:
            await api.reads.workspaces.workspace(query.workspace_id, visible)
        where = InteractiveFilter(
            users=tuple(user.lower() for user in query.users),
            user_ids=tuple(query.user_ids),
            workspace_id=query.workspace_id,
        )
        page = query.page(sort=query.sort_by.lower() or "start_time")
        found = await api.reads.interactive.tasks(kind.type, where, page, visible)
        items = [_shown(kind, api, row, visible) for row in found.rows]
        return reply({kind.many: items, "pagination": pagination(found)})

    @router.get("/{task_id}")
    @answers(kind.got)
    @permit(Action.VIEW_INTERACTIVE, VISIBLE)
    async def get(task_id: TaskId, visible: Visible, api: TheApi) -> Reply[dict[str, Any]]:
        row = await api.reads.interactive.task(task_id, visible, type_=kind.type)
        config = row.task.config
        if not visible.shows_secrets_of(row.task.owner_id):
            config = masked(config)
        return reply({kind.one: _shown(kind, api, row, visible), "config": finite(config)})

    @router.post("/{task_id}/kill")
    @answers(kind.reply)
    @permit(Action.UPDATE_INTERACTIVE, one)
    async def kill(
        task_id: TaskId, principal: Caller, visible: Visible, api: TheApi
    ) -> Reply[dict[str, Any]]:
        await api.services.tasks.kill(task_id, by=principal)
        return reply({kind.one: await _one(kind, api, task_id, visible)})

    @router.post("/{task_id}/set_priority")
    @answers(kind.reply)
    @permit(Action.UPDATE_INTERACTIVE, one)
    async def set_priority(
        task_id: TaskId, body: SetPriorityBody, visible: Visible, principal: Caller, api: TheApi
    ) -> Reply[dict[str, Any]]:
        if api.services.jobs.strict:
            target = await interactive_target(api, task_id, kind.type)
            require(api, principal, Action.CONTROL_JOB_QUEUE, target)
        await api.services.tasks.set_priority(task_id, body.priority, by=principal)
        return reply({kind.one: await _one(kind, api, task_id, visible)})

    return router


def _read_launch(
    model: type[LaunchTask], body: bytes
) -> tuple[LaunchTask, tuple[ContextFile, ...]]:
    """Parse a large body; for a thread. Raises InvalidArgument that names the field."""
    request = parse_body(model, body)
    return request, tuple(file.context_file("files") for file in request.files)


class ReportIdle(Body):
    idle: bool = False


notebook_reports = APIRouter(prefix="/api/v1/notebooks", route_class=ApiRoute, tags=["notebooks"])


@notebook_reports.put("/{task_id}/report_idle")
@permit(Action.REPORT, interactive_task("task_id", JobType.NOTEBOOK))
async def report_idle(task_id: TaskId, body: ReportIdle, api: TheApi) -> Reply[Empty]:
    """What is idle is not written down: only activity is."""
    if not body.idle:
        api.services.tasks.note_activity(task_id)
    return reply()


ROUTES = [route for kind in KINDS for route in router_of(kind).routes] + notebook_reports.routes


async def _one(
    kind: WireKind, api: ApiContext, task_id: str, visible: Visibility
) -> dict[str, Any]:
    """Raises NotFound."""
    row = await api.reads.interactive.task(task_id, visible, type_=kind.type)
    return _shown(kind, api, row, visible)


def _shown(
    kind: WireKind, api: ApiContext, row: InteractiveRow, visible: Visibility
) -> dict[str, Any]:
    tasks, may_use = api.services.tasks, visible.shows_secrets_of(row.task.owner_id)
    live = tasks.live(row.task.id)
    waiting = None if live is None else tasks.waiting_reason(live.state)
    common = wire.task(row, None if live is None else live.current, waiting)
    return {**common, **kind.extras(Shown(api, row.task, may_use))}
