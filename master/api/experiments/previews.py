"""What would become of an experiment that nobody has submitted: our own addition to the API."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.access import Caller, Visible, require
from master.api.enums import LaunchWarning
from master.api.experiments.preview_search import TrialSummary, trial_summary
from master.api.experiments.replies import ConfigOrigin
from master.api.experiments.wire import origins_json
from master.api.permits import SOME, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Int32, Text
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import applied_template, experiment_target, require_new
from master.api.values import finite
from master.api.windlass.plans import PlanReply, plan_of
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.expconf.located import located
from master.core.expconf.secrets import masked
from master.core.searcher.preview import planned_trials
from master.core.visibility import Visibility
from master.experiments.submission.admission import CheckedExperiment
from master.parsing import in_parsing_thread
from rm_backends.base import AllocationRequest
from windlass.base.errors import InvalidArgument
from windlass.base.formats.json_types import JsonObject

router = APIRouter(prefix="/api/v1/windlass/experiments", route_class=ApiRoute, tags=["windlass"])


class PreviewExperiment(Body):
    config: Text = ""
    """YAML, as it would be submitted; of a continuation its override, which may be empty."""
    template: Text = ""
    """The name of the template that it would be submitted with."""
    project_id: Int32 = 0
    """0: as at its submission."""
    continues: Int32 = 0
    """The experiment that would go on; 0: a new one."""


class ConfigProblem(TypedDict):
    path: str
    """Of the key, as `searcher.metric`; empty: the whole configuration."""
    message: str
    line: int | None
    """Of the text; null: the key is not in it."""


class ExperimentPreview(TypedDict):
    problems: list[ConfigProblem]
    """What it would be refused for; then all below is empty."""
    projectId: int
    """0: not known."""
    config: JsonObject | None
    """Complete, as it would run; secrets are masked."""
    origins: list[ConfigOrigin] | None
    """Of the values of `config` that are no defaults of Windlass; null: of a continuation, not known."""
    warnings: list[LaunchWarning]
    configWarnings: list[str]
    """What a config policy changes, keys without effect, and more, in sentences."""
    trials: list[TrialSummary]
    """That its search plans; empty: not known, or those of a continuation."""
    plan: PlanReply | None
    """Where and when its first runs start, and at what price."""


@router.post("/preview")
@permit(Action.PREVIEW_EXPERIMENT, SOME)
async def preview(
    body: PreviewExperiment, by: Caller, visible: Visible, api: TheApi
) -> Reply[ExperimentPreview]:
    """Checks it as at its submission, and says what would happen. Creates nothing."""
    try:
        if body.continues:
            return reply(await _continuation(api, body, by))
        return reply(await _new(api, body, by, visible))
    except InvalidArgument as error:
        return reply(await _refused(error, body.config))


async def _new(
    api: ApiContext, body: PreviewExperiment, by: Principal, visible: Visibility
) -> ExperimentPreview:
    experiments = api.services.experiments
    template = await applied_template(api, body.template, by)
    project_id = await experiments.place(
        body.config, project_id=body.project_id, template=template, visible=visible
    )
    await require_new(api, by, Action.CREATE_EXPERIMENT, project_id=project_id)
    checked = await experiments.check(body.config, by=by, project_id=project_id, template=template)
    requests = experiments.first_requests(checked, user=by.name)
    shown = await _accepted(api, checked, requests, by)
    shown["projectId"] = project_id
    shown["trials"] = [trial_summary(one) for one in planned_trials(checked.search)]
    return shown


async def _continuation(
    api: ApiContext, body: PreviewExperiment, by: Principal
) -> ExperimentPreview:
    require(api, by, Action.UPDATE_EXPERIMENT, await experiment_target(api, body.continues))
    experiments = api.services.experiments
    going_on = await experiments.check_continuation(body.continues, body.config)
    requests = experiments.first_requests(
        going_on.checked, user=going_on.owner_name, trials=len(going_on.trials)
    )
    return await _accepted(api, going_on.checked, requests, by)


async def _accepted(
    api: ApiContext,
    checked: CheckedExperiment,
    requests: Sequence[AllocationRequest],
    by: Principal,
) -> ExperimentPreview:
    return {
        "problems": [],
        "projectId": 0,
        "config": finite(masked(checked.config.to_json())),
        "origins": origins_json(checked.origins),
        "warnings": [LaunchWarning(warning) for warning in checked.warnings],
        "configWarnings": list(checked.config_warnings),
        "trials": [],
        "plan": await plan_of(api, requests, await hidden_pools(api, by)),
    }


async def _refused(error: InvalidArgument, text: str) -> ExperimentPreview:
    problems = await in_parsing_thread(located, error, text)
    return {
        "problems": [
            {"path": one.path, "message": one.message, "line": one.line} for one in problems
        ],
        "projectId": 0,
        "config": None,
        "origins": None,
        "warnings": [],
        "configWarnings": [],
        "trials": [],
        "plan": None,
    }
