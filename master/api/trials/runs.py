"""What `core.init()` asks for first, and the metadata of a run. A "run" of this API is a trial."""

from __future__ import annotations

from typing import Any, NotRequired

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller, Visible, require
from master.api.permits import IN_BODY, VISIBLE, permit, trial
from master.api.replies import Reply, reply
from master.api.request_models import Body, FreeObject, Int32, RowId
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.targets import trial_target
from master.api.values import finite
from master.auth.actions import Action
from master.experiments.lifecycle.state import TrialState
from master.experiments.live import LiveExperiment
from windlass.base.errors import InvalidArgument, InvalidState
from windlass.base.formats.json_types import JsonObject


class StartedRunReply(TypedDict):
    storageId: NotRequired[int]


class StartedTrialReply(TypedDict):
    trialRunId: int
    latestCheckpoint: str | None
    stepsCompleted: int


class RunMetadataReply(TypedDict):
    metadata: JsonObject | None


router = APIRouter(route_class=ApiRoute, tags=["runs"])

MAX_KEYS = 1000
MAX_DEPTH = 10
MAX_KEY_CHARS = 50
MAX_TEXT_CHARS = 5000
MAX_ITEMS = 100
_FORBIDDEN = set("$.[]")


class StartRun(Body):
    run_id: Int32 = 0
    checkpoint_storage: FreeObject | None = None


@router.post("/api/v1/runs/start")
@permit(Action.REPORT, IN_BODY)
async def start(body: StartRun, principal: Caller, api: TheApi) -> Reply[StartedRunReply]:
    target = await trial_target(api, body.run_id)
    require(api, principal, Action.REPORT, target)
    storage_id = await api.services.reports.storage_id(
        body.checkpoint_storage, owner_id=target.owner_id
    )
    return reply({} if storage_id is None else {"storageId": storage_id})


class StartTrial(Body):
    resume: bool = False


@router.post("/api/v1/trials/{trial_id}/start")
@permit(Action.REPORT, trial("trial_id"))
async def start_trial(
    trial_id: RowId, body: StartTrial, principal: Caller, api: TheApi
) -> Reply[StartedTrialReply]:
    """Which run reports, and where it goes on. Of an unmanaged trial this begins a run; of others the master does."""
    experiments = api.services.experiments
    live = await experiments.unmanaged.of_trial(trial_id)
    if live is not None and live.state.unmanaged:
        state = await experiments.unmanaged.start(trial_id, resume=body.resume, by=principal)
    else:
        state = _running(trial_id, live, body)
    return reply(
        {
            "trialRunId": state.run_id,
            "latestCheckpoint": state.latest_checkpoint,
            "stepsCompleted": state.latest_checkpoint_steps,
        }
    )


def _running(trial_id: int, live: LiveExperiment | None, body: StartTrial) -> TrialState:
    state = None if live is None else live.trial(trial_id)
    if state is None or state.phase.is_terminal:
        raise InvalidState(f"trial {trial_id} has ended: it starts no run")
    if state.run_id > 1 and not body.resume:
        raise InvalidState(f"trial {trial_id} has started before: it needs resume: true")
    return state


@router.get("/api/v1/runs/{run_id}/metadata")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def get_metadata(run_id: RowId, visible: Visible, api: TheApi) -> Reply[RunMetadataReply]:
    await api.reads.experiments.require_trials([run_id], visible)
    metadata = await api.services.reports.run_metadata(run_id)
    return reply({"metadata": finite(metadata)})


class RunMetadata(Body):
    metadata: FreeObject = Field(default_factory=dict)


@router.post("/api/v1/runs/{run_id}/metadata")
@permit(Action.REPORT, trial("run_id"))
async def set_metadata(
    run_id: RowId, body: RunMetadata, principal: Caller, api: TheApi
) -> Reply[RunMetadataReply]:
    check_metadata(body.metadata)
    await api.services.reports.set_run_metadata(run_id, body.metadata, by=principal)
    return reply({"metadata": finite(body.metadata)})


def check_metadata(metadata: dict[str, Any]) -> None:
    """The limits of the published API. Raises InvalidArgument that names the place."""
    keys = _check(metadata, "metadata", 1)
    if keys > MAX_KEYS:
        raise InvalidArgument(f"metadata: has {keys} keys, more than {MAX_KEYS}")


def _check(value: Any, path: str, depth: int) -> int:
    """How many keys there are below."""
    if depth > MAX_DEPTH:
        raise InvalidArgument(f"metadata: is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key in value:
            if not key or len(key) > MAX_KEY_CHARS or _FORBIDDEN & set(key):
                raise InvalidArgument(
                    f"{path}: key {key[:MAX_KEY_CHARS]!r} must have 1 to {MAX_KEY_CHARS} "
                    "characters, none of $ . [ ]"
                )
        return len(value) + sum(
            _check(item, f"{path}.{key}", depth + 1) for key, item in value.items()
        )
    if isinstance(value, list):
        if len(value) > MAX_ITEMS:
            raise InvalidArgument(f"{path}: has {len(value)} items, more than {MAX_ITEMS}")
        return sum(_check(item, path, depth + 1) for item in value)
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
        raise InvalidArgument(f"{path}: has {len(value)} characters, more than {MAX_TEXT_CHARS}")
    return 0
