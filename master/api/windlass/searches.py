"""How a search stands: its rungs, or the points of its grid."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import RowId
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.values import Number, finite
from master.auth.actions import Action
from master.core.searcher.rung_view import RungView, metric_to_go_on
from master.experiments.queries.searches import SearchView

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])


class RungEntry(TypedDict):
    trialId: int | None
    requestId: str
    metric: Number | None
    promoted: bool


class TrainingTrial(TypedDict):
    trialId: int | None
    requestId: str


class Rung(TypedDict):
    bracket: int
    rung: int
    units: int
    """Training at which trials are ranked here, in units of the time metric."""
    entries: list[RungEntry]
    """Best first."""
    training: list[TrainingTrial]
    """Trials on their way here, which have not been ranked yet."""
    toGoOn: Number | None
    """What the next trial ranked here has to reach to go on. Null: any metric is enough, or nothing goes on."""
    isLast: bool
    """The highest rung of its bracket: nothing goes on from there."""


class GridAxis(TypedDict):
    name: str
    """Nested names are joined by dots."""
    size: int
    values: list[Any]
    """The first thousand."""


class SearcherReply(TypedDict):
    searcher: str
    metric: str
    smallerIsBetter: bool
    timeMetric: str
    """In whose units rungs are; empty without rungs."""
    divisor: float
    """One in so many goes on from a rung; 0 without rungs."""
    maxTrials: int
    """Trials that the search plans in all; 0: as many as are added to it."""
    brackets: int
    rungs: list[Rung]
    grid: list[GridAxis]
    """The hyperparameters that a grid varies; empty for other searches."""


@router.get("/experiments/{id}/searcher")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def searcher(id: RowId, visible: Visible, api: TheApi) -> Reply[SearcherReply]:
    await api.reads.experiments.require_experiments([id], visible)
    view = await api.reads.searches.search(id, api.services.experiments.live(id))
    brackets = [rung.bracket for rung in view.rungs]
    lasts = [here != above for here, above in zip_longest(brackets, brackets[1:])]
    return reply(
        {
            "searcher": view.method,
            "metric": view.metric,
            "smallerIsBetter": view.smaller_is_better,
            "timeMetric": view.time_metric,
            "divisor": view.divisor,
            "maxTrials": view.max_trials,
            "brackets": len(set(brackets)),
            "rungs": [
                _rung(view, rung, is_last=is_last)
                for rung, is_last in zip(view.rungs, lasts, strict=True)
            ],
            "grid": [
                {"name": ".".join(axis.path), "size": axis.size, "values": finite(axis.values)}
                for axis in view.grid
            ],
        }
    )


def _rung(view: SearchView, rung: RungView, *, is_last: bool) -> Rung:
    return {
        "bracket": rung.bracket,
        "rung": rung.rung,
        "units": rung.units,
        "entries": [
            {
                "trialId": view.trial_ids.get(entry.request_id),
                "requestId": entry.request_id,
                "metric": finite(entry.metric),
                "promoted": entry.promoted,
            }
            for entry in rung.entries
        ],
        "training": [
            {"trialId": view.trial_ids.get(request_id), "requestId": request_id}
            for request_id in rung.training
        ],
        "toGoOn": None if is_last else finite(metric_to_go_on(rung, view.divisor)),
        "isLast": is_last,
    }
