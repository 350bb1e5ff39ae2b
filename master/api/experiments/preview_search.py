"""What a hyperparameter search would train, before it is submitted."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.permits import CLUSTER, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, FreeObject, Int32
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import finite
from master.auth.actions import Action
from master.core.searcher.preview import PlannedTrials, planned_trials
from windlass.base.formats.json_types import JsonObject

router = APIRouter(route_class=ApiRoute, tags=["experiments"])


class SearchUnit(TypedDict):
    name: str | None
    """The metric that counts the length of a trial."""
    value: int | None
    maxLength: bool
    """Each trains to its own end."""


class TrialSummary(TypedDict):
    count: int
    unit: SearchUnit


class SearchSummary(TypedDict):
    config: JsonObject
    """The `searcher` section, complete."""
    trials: list[TrialSummary]


class PreviewSearchReply(TypedDict):
    summary: SearchSummary


class PreviewSearch(Body):
    config: FreeObject = Field(default_factory=dict)
    """Of an experiment. It needs no `entrypoint`."""
    seed: Int32 = 0
    """Changes nothing: only numbers of trials are answered."""


@router.post("/api/v1/preview-hp-search")
@permit(Action.PREVIEW_SEARCH, CLUSTER)
async def preview_search(body: PreviewSearch, api: TheApi) -> Reply[PreviewSearchReply]:
    config, search = await api.services.experiments.preview_search(body.config)
    trials = [trial_summary(planned) for planned in planned_trials(search)]
    searcher = finite(config.to_json()["searcher"])
    return reply({"summary": {"config": searcher, "trials": trials}})


def trial_summary(planned: PlannedTrials) -> TrialSummary:
    return {
        "count": planned.count,
        "unit": {
            "name": planned.time_metric or None,
            "value": planned.units,
            "maxLength": planned.units is None,
        },
    }
