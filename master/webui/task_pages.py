"""`/det/interactive/…` and `/det/wait/…`, which `det notebook start` and `det tensorboard start` print and open.

The rest of these addresses (names, pool, `eventUrl`, `serviceAddr`) is what the client knew at the launch. It is not
read: where a task's service is, and with which token for whom, the master knows itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from master.api.access import Caller, Visible
from master.api.interactive import wire
from master.api.interactive.kinds import KINDS, Shown, WireKind
from master.api.permits import VISIBLE, permit
from master.api.services import ApiContext, TheApi
from master.api.tasks.wire import ends_at
from master.auth.actions import Action, Target
from master.auth.permissions import allowed
from master.auth.principal import Principal
from master.core.jobs import JobType
from master.core.visibility import Visibility
from master.logs.rows import LogQuery
from master.tasks.interactive_queries import InteractiveRow
from master.tasks.kinds import KINDS as TASK_KINDS
from master.tasks.state import TaskPhase, TaskState
from master.webui.pages import PageRoute, page, redirect
from master.webui.task_views import TaskView, task_view
from windlass.base.errors import NotFound

LAST_LINES = 20
_TYPES = {"jupyter-lab": JobType.NOTEBOOK, "tensorboard": JobType.TENSORBOARD}
_VIEW = permit(Action.VIEW_INTERACTIVE, VISIBLE)

router = APIRouter(route_class=PageRoute, tags=["pages"])


@router.get("/det/interactive/{task_id}/{word}")
@router.get("/det/interactive/{task_id}/{word}/{rest:path}")
@router.get("/det/wait/{word}/{task_id}")
@_VIEW
async def task_page(
    request: Request, word: str, task_id: str, principal: Caller, visible: Visible, api: TheApi
) -> Response:
    """On to the service of a task, or what there is to know while it has none."""
    kind = _kind(word)
    row = await api.reads.interactive.task(task_id, visible, type_=kind.type)
    view = await _view(api, kind, row, principal, visible)
    if view.next:
        return redirect(request, view.next)
    return page(
        request,
        "task.html",
        view=view,
        id=task_id,
        description=row.task.description,
        word=word,
        verb=kind.one,
        noun=TASK_KINDS[kind.type].noun,
    )


@router.get("/det/wait/{word}/{task_id}/state")
@_VIEW
async def task_state(
    word: str, task_id: str, principal: Caller, visible: Visible, api: TheApi
) -> Response:
    """The same for the script of the page."""
    kind = _kind(word)
    row = await api.reads.interactive.task(task_id, visible, type_=kind.type)
    view = await _view(api, kind, row, principal, visible)
    return JSONResponse(asdict(view), headers={"cache-control": "no-store"})


def _kind(word: str) -> WireKind:
    """Raises NotFound for what has no page."""
    for kind in KINDS:
        if kind.type is _TYPES.get(word):
            return kind
    types = " or ".join(f"`{one}`" for one in _TYPES)
    raise NotFound("page", word[:100], f": the type of a task with a page is {types}")


async def _view(
    api: ApiContext, kind: WireKind, row: InteractiveRow, by: Principal, visible: Visibility
) -> TaskView:
    tasks = api.services.tasks
    live = tasks.live(row.task.id)
    state = None if live is None else live.state
    waiting = None if state is None else tasks.waiting_reason(state)
    shown = wire.task(row, state, waiting)
    return task_view(
        shown["state"],
        reason=shown["waitingReason"] or "",
        exit_status=shown["exitStatus"],
        lines=await _last_lines(api, row, by),
        service=_service(api, kind, row, state, visible),
        only_for=_only_for(kind, row, visible),
        ends_at=_ends_at(api, state),
    )


def _only_for(kind: WireKind, row: InteractiveRow, visible: Visibility) -> str:
    """The name of its owner, if who looks may not open it."""
    opens = not kind.for_owner_alone or visible.shows_secrets_of(row.task.owner_id)
    return "" if opens else row.username


def _ends_at(api: ApiContext, state: TaskState | None) -> datetime | None:
    allocation = None if state is None else state.open_allocation
    if allocation is None:
        return None
    return ends_at(allocation, {agent.id: agent for agent in api.services.cluster.agents()})


def _service(
    api: ApiContext,
    kind: WireKind,
    row: InteractiveRow,
    state: TaskState | None,
    visible: Visibility,
) -> str:
    if state is None or state.phase is not TaskPhase.ACTIVE or not state.is_ready:
        return ""
    shown = Shown(api, row.task, visible.shows_secrets_of(row.task.owner_id))
    extras: Any = kind.extras(shown)
    return str(extras["serviceAddress"])


async def _last_lines(api: ApiContext, row: InteractiveRow, by: Principal) -> Sequence[str]:
    task = row.task
    target = Target(
        kind="task",
        id=task.id,
        owner_id=task.owner_id,
        workspace_id=task.workspace_id,
        task_id=task.id,
    )
    if not allowed(by, Action.VIEW_ARTIFACTS, target):
        return ()
    query = LogQuery(task_ids=(task.id,), limit=LAST_LINES, descending=True, by=by.user_id)
    return [line.log for line in reversed(await api.services.logs.query(query))]
