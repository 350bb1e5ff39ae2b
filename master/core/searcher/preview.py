"""How many trials a search plans to train, and for how long each, if none of them fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from master.core.searcher.adaptive import Tournament
from master.core.searcher.asha import Asha
from master.core.searcher.external import External
from master.core.searcher.random_search import RandomSearch
from master.core.searcher.search import Search


@dataclass(frozen=True, slots=True)
class PlannedTrials:
    """`units` None: to their own end."""

    count: int
    units: int | None = None
    time_metric: str = ""


def planned_trials(search: Search) -> Sequence[PlannedTrials]:
    """Shortest trials first."""
    match search.method:
        case Tournament(brackets):
            return _stopped_at(brackets)
        case Asha() as bracket:
            return _stopped_at((bracket,))
        case RandomSearch(max_trials=count):  # a grid is one, too
            return (PlannedTrials(count),)
        case External():
            return ()
        case other:
            raise TypeError(f"{type(other).__name__} has no preview")


def _stopped_at(brackets: Sequence[Asha]) -> Sequence[PlannedTrials]:
    """At each rung one in `divisor` goes on, and at least one."""
    counts: Counter[int] = Counter()
    for bracket in brackets:
        left = bracket.max_trials
        for units in bracket.units[:-1]:
            going_on = max(int(left / bracket.divisor), 1)
            counts[units] += left - going_on
            left = going_on
        counts[bracket.units[-1]] += left
    time_metric = brackets[0].time_metric
    return [
        PlannedTrials(count, units, time_metric) for units, count in sorted(counts.items()) if count
    ]
