"""What the provisioner has done since it started, counted for monitoring. Nothing decides by it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from provisioner.fleet.state import Event, Launched, LaunchRefused, LaunchUnanswered
from provisioner.types import Market

BOUNDS_S = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
UNANSWERED = "unanswered"


class Durations:
    """How many took how long."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        """At most each of `BOUNDS_S`, and longer; not cumulative."""
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


class FleetCounters:
    def __init__(self) -> None:
        self.machines: Counter[tuple[str, Market]] = Counter()
        """Launched, by pool and market."""
        self.refusals: Counter[str] = Counter()
        """Of launches, by the value of their `BlockKind`, or `UNANSWERED`."""
        self.plans = Durations()
        self.passes = Durations()
        """Whole passes: the decision, its commit, and the start of its calls."""

    def note(self, events: Sequence[Event]) -> None:
        """A pass has taken these in."""
        for event in events:
            match event:
                case Launched():
                    key = event.intent.pool, event.intent.offer.key.market
                    self.machines[key] += len(event.instance_ids)
                case LaunchRefused():
                    self.refusals[event.kind.value] += 1
                case LaunchUnanswered():
                    self.refusals[UNANSWERED] += 1
                case _:
                    pass
