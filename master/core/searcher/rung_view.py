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
        )
        for number, bracket in enumerate(brackets)
        for index, rung in enumerate(bracket.rungs)
    ]


def _entry_view(bracket: AshaState, index: int, entry: RungEntry) -> RungEntryView:
    reported = entry.metric if bracket.smaller_is_better else -entry.metric
    return RungEntryView(
        request_id=entry.request_id,
        metric=None if entry.metric == WORST else reported,
        promoted=bracket.trials[entry.request_id].rung > index,
    )
