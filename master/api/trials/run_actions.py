"""What users do to several runs at once: each is tried, and each has its own answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import APIRouter
from pydantic import Field

from master.api.access import Caller, Visible, require
from master.api.experiments.bulk import ActionResult, ActionResults
from master.api.lists.search import live_states
from master.api.permits import IN_BODY, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Int32
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import require_new, trial_target
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.experiments.finding.columns import Table
from master.experiments.finding.filters import parse_filter
from master.experiments.finding.queries import RunPlace, Search
from master.experiments.lifecycle.state import Phase
from windlass.base.errors import InvalidArgument, InvalidState, LeaseLost, WindlassError

router = APIRouter(prefix="/api/v1/runs", route_class=ApiRoute, tags=["runs"])

MAX_RUNS = 10_000
"""Of one call: each is a commit of its own."""
Act: TypeAlias = Callable[[ApiContext, RunPlace, Principal], Awaitable[None]]
"""Raises InvalidState."""


class SomeRuns(Body):
    """By their ids, or all that the filter finds."""

    run_ids: Annotated[tuple[Int32, ...], Field(max_length=MAX_RUNS)] = ()
    filter: str = ""
    """In the language of the search for runs."""
    project_id: Annotated[Int32, Field(ge=0)] = 0
    """Only runs of this project; 0: of any."""


@dataclass(frozen=True, slots=True)
class RunAction:
    needs: Action
    act: Act


async def _kill(api: ApiContext, run: RunPlace, by: Principal) -> None:
    if not Phase(run.state).is_terminal:
        await api.services.experiments.kill_trial(run.id, by=by)


async def _pause(api: ApiContext, run: RunPlace, by: Principal) -> None:
    _require_single(run)
    await api.services.experiments.pause(run.experiment_id, by=by)


async def _resume(api: ApiContext, run: RunPlace, by: Principal) -> None:
    _require_single(run)
    await api.services.experiments.activate(run.experiment_id, by=by)


def _require_single(run: RunPlace) -> None:
    if run.archived:
        raise InvalidState("Run is archived.")
    if run.is_multitrial:
        raise InvalidState(f"Cannot pause/unpause run '{run.id}' (part of multi-trial).")


async def _archive(api: ApiContext, run: RunPlace, by: Principal) -> None:
    await _set_archived(api, run, True, by)


async def _unarchive(api: ApiContext, run: RunPlace, by: Principal) -> None:
    await _set_archived(api, run, False, by)


async def _set_archived(api: ApiContext, run: RunPlace, archived: bool, by: Principal) -> None:
    """A run of a single trial is archived with its experiment, one of several by itself."""
    if not Phase(run.state).is_terminal:
        raise InvalidState("Run is not in terminal state.")
    if run.experiment_archived and run.is_multitrial:
        raise InvalidState(f"Run is part of archived Search (id: '{run.experiment_id}').")
    if run.archived == archived:
        return
    if run.is_multitrial:
        await api.services.metadata.set_run_archived(run.id, archived, by=by)
    else:
        await api.services.metadata.set_archived(run.experiment_id, archived, by=by)


async def _delete(api: ApiContext, run: RunPlace, by: Principal) -> None:
    """Its experiment stays, even without any run."""
    await api.services.checkpoints.delete_trial(run.id, by=by)


ACTIONS: Mapping[str, RunAction] = {
    "kill": RunAction(Action.END_EXPERIMENT, _kill),
    "pause": RunAction(Action.UPDATE_EXPERIMENT, _pause),
    "resume": RunAction(Action.UPDATE_EXPERIMENT, _resume),
    "archive": RunAction(Action.UPDATE_METADATA, _archive),
    "unarchive": RunAction(Action.UPDATE_METADATA, _unarchive),
    "delete": RunAction(Action.DELETE_EXPERIMENT, _delete),
}


def _add(name: str, action: RunAction) -> None:
    @router.post(f"/{name}", name=f"{name}_runs")
    @permit(action.needs, IN_BODY)
    async def on_each(
        body: SomeRuns, principal: Caller, visible: Visible, api: TheApi
    ) -> Reply[ActionResults]:
        return await _on_each(api, body, visible, principal, action)


for _name, _action in ACTIONS.items():
    _add(_name, _action)


class MoveRuns(SomeRuns):
    source_project_id: Annotated[Int32, Field(ge=0)] = 0
    """Only runs of this project; 0: of any."""
    destination_project_id: Annotated[Int32, Field(ge=0)]
    skip_multitrial: bool = False


@router.post("/move")
@permit(Action.MOVE_EXPERIMENT, IN_BODY)
async def move_runs(
    body: MoveRuns, principal: Caller, visible: Visible, api: TheApi
) -> Reply[ActionResults]:
    """A run moves with its experiment, so the other runs of a search follow."""
    target = body.destination_project_id
    await api.reads.workspaces.project(target, visible)
    await require_new(api, principal, Action.TAKE_EXPERIMENT, project_id=target)

    async def act(api: ApiContext, run: RunPlace, by: Principal) -> None:
        if run.archived:
            raise InvalidState("Run is archived.")
        if run.is_multitrial and body.skip_multitrial:
            raise InvalidState(f"Skipping run '{run.id}' (part of multi-trial).")
        await api.services.metadata.move(run.experiment_id, target, by=by)

    some = body.model_copy(update={"project_id": body.source_project_id})
    return await _on_each(api, some, visible, principal, RunAction(Action.MOVE_EXPERIMENT, act))


async def _on_each(
    api: ApiContext, body: SomeRuns, visible: Visibility, by: Principal, action: RunAction
) -> Reply[ActionResults]:
    asked = await _asked(api, body, visible)
    places = await api.reads.finder.run_places(asked, visible)
    known = {run.id: run for run in places if body.project_id in (0, run.project_id)}
    results: list[ActionResult] = [
        {"id": id_, "error": await _tried(api, by, action, known[id_])}
        if id_ in known
        else {"id": id_, "error": _not_found(id_, body.project_id)}
        for id_ in asked
    ]
    return reply({"results": results})


async def _asked(api: ApiContext, body: SomeRuns, visible: Visibility) -> Sequence[int]:
    """Ids, each once. Raises InvalidArgument."""
    if not body.filter:
        if not body.run_ids:
            raise InvalidArgument("runIds: give either these or filter")
        return list(dict.fromkeys(body.run_ids))
    if body.run_ids:
        raise InvalidArgument("if filter is provided run id list must be empty")
    if body.project_id:
        await api.reads.workspaces.project(body.project_id, visible)
    wanted = parse_filter(body.filter, Table.RUNS)
    live = live_states(api, Table.RUNS, wanted.root)
    search = Search(filter=wanted, project_id=body.project_id, live=live)
    found = await api.reads.finder.run_ids(search, api.services.clock.now(), visible)
    if len(found) > MAX_RUNS:
        raise InvalidArgument(
            f"filter: finds {len(found)} runs, more than {MAX_RUNS}: narrow it down"
        )
    return found


def _not_found(run_id: int, project_id: int) -> str:
    place = f" in project with id '{project_id}'" if project_id else ""
    return f"Run with id '{run_id}' not found{place}"


async def _tried(api: ApiContext, by: Principal, action: RunAction, run: RunPlace) -> str:
    """Why it could not be done; empty if it was."""
    try:
        require(api, by, action.needs, await trial_target(api, run.id))
        await action.act(api, run, by)
    except LeaseLost:
        raise
    except WindlassError as error:
        return error.message
    return ""
