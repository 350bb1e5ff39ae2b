"""What users do to several experiments at once: each is tried, and each has its own answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller, Visible, require
from master.api.experiments.requests import State
from master.api.logs.retention import RetentionDays
from master.api.permits import IN_BODY, permit
from master.api.replies import Reply, reply
from master.api.request_models import MAX_ID, Body, Int32, Text
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import experiment_target, require_new
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.experiments.queries.experiments import ExperimentFilter
from master.store.paging import Page
from windlass.base.errors import InvalidArgument, LeaseLost, NotFound, WindlassError

router = APIRouter(
    prefix="/api/v1/projects/{project_id}/experiments", route_class=ApiRoute, tags=["experiments"]
)

MAX_EXPERIMENTS = 10_000
"""Of one call: each is a commit of its own."""
ANY_PROJECT = -1
ProjectId = Annotated[int, Path(ge=ANY_PROJECT, le=MAX_ID)]
"""-1 and 0: any."""
Act = Callable[[ApiContext, int, Principal], Awaitable[None]]


class Filters(Body):
    name: Text = ""
    description: Text = ""
    labels: tuple[Text, ...] = ()
    archived: bool | None = None
    states: tuple[State, ...] = ()
    user_ids: tuple[Int32, ...] = ()
    project_id: Int32 = 0
    excluded_experiment_ids: tuple[Int32, ...] = ()

    def where(self, ids: Sequence[int] = (), project_id: int = 0) -> ExperimentFilter:
        """`ids`: none but these, unless there are none. `project_id`: overrules the filter's."""
        return ExperimentFilter(
            name=self.name,
            description=self.description,
            labels=self.labels,
            archived=self.archived,
            states=tuple(state for state in self.states if state),
            user_ids=self.user_ids,
            project_id=project_id or self.project_id or None,
            ids={"incl": ids, "notIn": self.excluded_experiment_ids},
        )


class SomeExperiments(Body):
    """By their ids, or all that the filters find."""

    experiment_ids: Annotated[tuple[Int32, ...], Field(max_length=MAX_EXPERIMENTS)] = ()
    filters: Filters | None = None

    def where(self, project_id: int) -> ExperimentFilter:
        """Raises InvalidArgument."""
        if (self.filters is None) == (not self.experiment_ids):
            raise InvalidArgument("experimentIds: give either these or filters")
        return (self.filters or Filters()).where(self.experiment_ids, max(project_id, 0))


class ActionResult(TypedDict):
    id: int
    error: str
    """Empty: it was done."""


class ActionResults(TypedDict):
    results: list[ActionResult]


ACTS: dict[str, tuple[Action, Act]] = {
    "activate": (
        Action.UPDATE_EXPERIMENT,
        lambda api, id_, by: api.services.experiments.activate(id_, by=by),
    ),
    "pause": (
        Action.UPDATE_EXPERIMENT,
        lambda api, id_, by: api.services.experiments.pause(id_, by=by),
    ),
    "cancel": (
        Action.END_EXPERIMENT,
        lambda api, id_, by: api.services.experiments.cancel(id_, by=by),
    ),
    "kill": (Action.END_EXPERIMENT, lambda api, id_, by: api.services.experiments.kill(id_, by=by)),
    "archive": (
        Action.UPDATE_METADATA,
        lambda api, id_, by: api.services.metadata.set_archived(id_, True, by=by),
    ),
    "unarchive": (
        Action.UPDATE_METADATA,
        lambda api, id_, by: api.services.metadata.set_archived(id_, False, by=by),
    ),
    "delete": (
        Action.DELETE_EXPERIMENT,
        lambda api, id_, by: api.services.checkpoints.delete_experiment(id_, by=by),
    ),
}


def _add(name: str, action: Action, act: Act) -> None:
    route = router.delete if name == "delete" else router.post

    @route(f"/{name}", name=f"{name}_experiments")
    @permit(action, IN_BODY)
    async def on_each(
        project_id: ProjectId,
        body: SomeExperiments,
        principal: Caller,
        visible: Visible,
        api: TheApi,
    ) -> Reply[ActionResults]:
        return await _on_each(api, body, project_id, visible, principal, action, act)


for _name, (_action, _act) in ACTS.items():
    _add(_name, _action, _act)


class MoveExperiments(SomeExperiments):
    destination_project_id: Annotated[Int32, Field(ge=0)]


@router.post("/move")
@permit(Action.MOVE_EXPERIMENT, IN_BODY)
async def move_experiments(
    project_id: ProjectId, body: MoveExperiments, principal: Caller, visible: Visible, api: TheApi
) -> Reply[ActionResults]:
    target = body.destination_project_id
    await api.reads.workspaces.project(target, visible)
    await require_new(api, principal, Action.TAKE_EXPERIMENT, project_id=target)
    return await _on_each(
        *(api, body, project_id, visible, principal, Action.MOVE_EXPERIMENT),
        lambda api, id_, by: api.services.metadata.move(id_, target, by=by),
    )


class RetainLogsOfSome(SomeExperiments):
    num_days: RetentionDays


@router.put("/retain_logs", name="retain_logs_of_experiments")
@permit(Action.UPDATE_EXPERIMENT, IN_BODY)
async def retain_logs(
    project_id: ProjectId,
    body: RetainLogsOfSome,
    principal: Caller,
    visible: Visible,
    api: TheApi,
) -> Reply[ActionResults]:
    def act(api: ApiContext, id_: int, by: Principal) -> Awaitable[None]:
        return api.services.metadata.set_log_retention(id_, body.num_days, by=by)

    return await _on_each(api, body, project_id, visible, principal, Action.UPDATE_EXPERIMENT, act)


async def _on_each(
    api: ApiContext,
    body: SomeExperiments,
    project_id: int,
    visible: Visibility,
    by: Principal,
    action: Action,
    act: Act,
) -> Reply[ActionResults]:
    results: list[ActionResult] = [
        {"id": id_, "error": await _tried(api, by, action, act, id_)}
        if known
        else {"id": id_, "error": NotFound("experiment", id_).message}
        for id_, known in await _found(api, body, project_id, visible)
    ]
    return reply({"results": results})


async def _found(
    api: ApiContext, body: SomeExperiments, project_id: int, visible: Visibility
) -> Sequence[tuple[int, bool]]:
    """Experiments, each with whether it is there for the caller."""
    page = Page(limit=MAX_EXPERIMENTS)
    found = await api.reads.experiments.experiments(body.where(project_id), page, visible)
    known = {row.experiment.id for row in found.rows}
    asked = dict.fromkeys(body.experiment_ids or sorted(known))
    return [(id_, id_ in known) for id_ in asked]


async def _tried(
    api: ApiContext, by: Principal, action: Action, act: Act, experiment_id: int
) -> str:
    """Why it could not be done; empty if it was."""
    try:
        require(api, by, action, await experiment_target(api, experiment_id))
        await act(api, experiment_id, by)
    except LeaseLost:
        raise
    except WindlassError as error:
        return error.message
    return ""
