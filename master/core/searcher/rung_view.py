"""Rungs as screens show them: who was ranked where, in the user's own numbers."""

from __future__ import annotations

from dataclasses import dataclass

from master.core.searcher.adaptive import TournamentState
from master.core.searcher.asha import AshaState, RungEntry
from master.core.searcher.metrics import WORST
from master.core.searcher.search import SearchState
from master.core.searcher.types import RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class RungEntryView:
    request_id: RequestId
    metric: float | None
    """As reported; None for a trial that failed or reported something that is not finite."""
    promoted: bool
    """It went on to the next rung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RungView:
    bracket: int
    """From 0; the first bracket has the most rungs."""
    rung: int
    """From 0, the lowest."""
    units: int
    """Training, in units of the time metric, at which trials are ranked here."""
    entries: tuple[RungEntryView, ...]
    """Best first."""
    training: tuple[RequestId, ...] = ()
    """Trials on their way here, which have not been ranked yet; oldest first."""


def metric_to_go_on(rung: RungView, divisor: float) -> float | None:
    """What the next trial ranked here has to reach at least to go on; None: any number is enough.

    One in `divisor` goes on, itself counted, and among equals the later one ranks better (`asha.Asha`). From the
    highest rung of a bracket nothing goes on, whatever this says.
    """
    going_on = max(int((len(rung.entries) + 1) / divisor), 1)
    return rung.entries[going_on - 1].metric if going_on <= len(rung.entries) else None


def describe_rungs(state: SearchState) -> list[RungView]:
    """Every rung of every bracket, in order; empty for methods without rungs."""
    match state.method:
        case AshaState():
            brackets: tuple[AshaState, ...] = (state.method,)
        case TournamentState():
            brackets = state.method.brackets
        case _:
            return []
    return [
        RungView(
            bracket=number,
            rung=index,
            units=rung.units,
            entries=tuple(_entry_view(bracket, index, entry) for entry in rung.entries),
            training=tuple(training.get(index, ())),
        )
        for number, bracket in enumerate(brackets)
        for training in (_training(bracket),)
        for index, rung in enumerate(bracket.rungs)
    ]


def _training(bracket: AshaState) -> dict[int, list[RequestId]]:
    """Rung -> the trials on their way there."""
    found: dict[int, list[RequestId]] = {}
    for request_id, trial in bracket.trials.items():
        if not trial.ended:
            found.setdefault(trial.rung, []).append(request_id)
    return found


def _entry_view(bracket: AshaState, index: int, entry: RungEntry) -> RungEntryView:
    reported = entry.metric if bracket.smaller_is_better else -entry.metric
    return RungEntryView(
        request_id=entry.request_id,
        metric=None if entry.metric == WORST else reported,
        promoted=bracket.trials[entry.request_id].rung > index,
    )
