"""Experiments and trials whose processes run outside of the cluster, by the ids that these give them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Request
from pydantic import Field

from master.api.access import Caller, Visible, require
from master.api.experiments.replies import PutExperimentReply
from master.api.experiments.requests import CreateExperiment, read_create
from master.api.experiments.routes import experiment_json, new_unmanaged
from master.api.openapi import reads
from master.api.permits import IN_BODY, SOME, VISIBLE, permit, trial
from master.api.replies import Reply, reply
from master.api.request_models import Body, FreeObject, Int32, RowId, Text, Word
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import experiment_target
from master.api.trials.replies import TrialReply
from master.api.trials.routes import trials_json
from master.auth.actions import Action
from master.core.visibility import Visibility
from master.experiments.lifecycle.state import Phase
from master.experiments.lifecycle.unmanaged import REPORTED
from master.parsing import in_parsing_thread
from windlass.base.errors import InvalidArgument, NotFound

router = APIRouter(route_class=ApiRoute, tags=["unmanaged"])

MAX_CHARS = 255
ExternalId: TypeAlias = Annotated[Text, Path(min_length=1, max_length=MAX_CHARS)]
RUNNING = "RUNNING"
TRIAL_STATES = (RUNNING, *sorted(phase.value for phase in REPORTED))


@router.put(
    "/api/v1/experiments/by-external-id/{external_experiment_id}",
    openapi_extra=reads(CreateExperiment),
)
@permit(Action.CREATE_EXPERIMENT, SOME)
async def put_experiment(
    external_experiment_id: ExternalId,
    request: Request,
    principal: Caller,
    visible: Visible,
    api: TheApi,
) -> Reply[PutExperimentReply]:
    """The experiment with this id, created if there is none."""
    body, files = await in_parsing_thread(read_create, await request.body())
    _require_unmanaged(body.unmanaged)
    unmanaged = api.services.experiments.unmanaged
    id_ = await unmanaged.find(external_experiment_id)
    if id_ is None:
        new = await new_unmanaged(body, files, principal, visible, api)
        id_ = await unmanaged.put(new, external_experiment_id, by=principal)
    require(api, principal, Action.REPORT, await experiment_target(api, id_))
    experiment = await experiment_json(api, id_, visible)
    return reply({"experiment": experiment, "config": experiment["config"]})


class CreateTrial(Body):
    experiment_id: Int32 = 0
    hparams: FreeObject = Field(default_factory=dict)
    unmanaged: bool = False


@router.post("/api/v1/trials")
@permit(Action.REPORT, IN_BODY)
async def create_trial(
    body: CreateTrial, principal: Caller, visible: Visible, api: TheApi
) -> Reply[TrialReply]:
    await _require_creatable(api, body, principal)
    created = await api.services.experiments.unmanaged.create_trial(
        body.experiment_id, body.hparams, by=principal
    )
    return await _trial(api, created, visible)


class PutTrial(Body):
    create_trial_request: CreateTrial
    external_trial_id: Annotated[Text, Field(min_length=1, max_length=MAX_CHARS)]


@router.put("/api/v1/trials")
@permit(Action.REPORT, IN_BODY)
async def put_trial(
    body: PutTrial, principal: Caller, visible: Visible, api: TheApi
) -> Reply[TrialReply]:
    """The trial of the experiment with this id, created if there is none."""
    new = body.create_trial_request
    await _require_creatable(api, new, principal)
    put = await api.services.experiments.unmanaged.create_trial(
        new.experiment_id, new.hparams, external_id=body.external_trial_id, by=principal
    )
    return await _trial(api, put, visible)


class PatchTrial(Body):
    state: Annotated[str, Word("STATE_", TRIAL_STATES)] = ""


@router.patch("/api/v1/trials/{trial_id}")
@permit(Action.REPORT, trial("trial_id"))
async def patch_trial(
    trial_id: RowId, body: PatchTrial, visible: Visible, api: TheApi
) -> Reply[TrialReply]:
    """A heartbeat of an unmanaged trial, or with a state what its process says of it."""
    word = Phase.ACTIVE.value if body.state == RUNNING else body.state
    await api.services.experiments.unmanaged.heard(trial_id, Phase(word) if word else None)
    return await _trial(api, trial_id, visible)


@router.get("/api/v1/trials/by-external-id/{external_experiment_id}/{external_trial_id}")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def get_trial(
    external_experiment_id: ExternalId,
    external_trial_id: ExternalId,
    visible: Visible,
    api: TheApi,
) -> Reply[TrialReply]:
    unmanaged = api.services.experiments.unmanaged
    experiment_id = await unmanaged.find(external_experiment_id)
    found = (
        None
        if experiment_id is None
        else await unmanaged.find_trial(experiment_id, external_trial_id)
    )
    if found is None:
        raise NotFound("trial", f"{external_experiment_id}/{external_trial_id}")
    return await _trial(api, found, visible)


async def _require_creatable(api: ApiContext, body: CreateTrial, principal: Caller) -> None:
    _require_unmanaged(body.unmanaged)
    require(api, principal, Action.REPORT, await experiment_target(api, body.experiment_id))


def _require_unmanaged(unmanaged: bool) -> None:
    if not unmanaged:
        raise InvalidArgument(
            "unmanaged: must be true: managed experiments create their trials themselves"
        )


async def _trial(api: ApiContext, trial_id: int, visible: Visibility) -> Reply[TrialReply]:
    row = await api.reads.experiments.trial(trial_id, visible)
    return reply({"trial": (await trials_json(api, [row]))[0]})
