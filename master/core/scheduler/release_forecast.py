"""When the slots of each agent come back, as far as that is known: what the starvation guard plans with.

Slots are kept in parcels: what is free, and what one piece of work will give back. Parcels have a rank that says which
are waited for rather than others. A place is as good as its worst parcel, so ranks decide two things: how soon a gang
starts, and whether it starts at all. For the second, the chosen place must not become worse than others because time
passes or because new work starts elsewhere: else agents would be drained by turns, and none ever empty. So ranks are
made of facts that hold since a point in time (`since`) which moves rarely:

1. free slots; 2. work that was asked to leave; 3. work whose end is known, by that end, and it stays there when it
turns out to be late; 4. work whose end nobody knows and that ran at `since`: the later started first, because it is
expected to run about as long again as it has run; 5. newer work whose end nobody knows, oldest first; 6. reservations
without a known end, in order.

While nothing is started on a place its rank cannot get worse, and what starts elsewhere ranks behind it or ends soon.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from master.core.scheduler.fitting import FreeAgent
from master.core.scheduler.types import Running

FREE, LEAVING, KNOWN, UNKNOWN, NEWER, RESERVED = range(6)

LEAVING_S = 60.0
"""How soon work that was asked to leave is usually gone: it writes a checkpoint first."""
LEAST_PATIENCE_S = 300.0
"""`since` does not move more often than this, however short `reserve_after` is."""

Rank: TypeAlias = tuple[int, float]
"""(tier, time or order within it); the lower, the sooner."""

WHENEVER: Rank = (RESERVED + 1, 0.0)
"""Behind every parcel."""


class Parcel(NamedTuple):
    """Slots of one agent that come back together. Sorts by rank."""

    rank: Rank
    by: str
    """The request that gives them back; empty for free slots and reservations."""
    slots: int


class ReleaseForecast:
    """The parcels of all agents. Every agent's parcels together are the slots it will have."""

    def __init__(
        self, free: Iterable[FreeAgent], running: Iterable[Running], *, now: float, since: float
    ) -> None:
        self.now = now
        rows = list(free)
        self.sizes = {agent: size for agent, size, _, _ in rows}
        self._parcels: dict[str, list[Parcel]] = {
            agent: [Parcel((FREE, 0.0), "", left)] if left > 0 else [] for agent, _, left, _ in rows
        }
        for one in running:
            if one.request.slots <= 0:
                continue
            rank = _rank(one, since)
            for agent, slots in one.placement.items():
                back = slots - one.closing.get(agent, 0)
                if agent in self.sizes:
                    self.sizes[agent] -= slots - back
                    if back > 0:
                        self._parcels[agent].append(Parcel(rank, one.request.id, back))
        for agent, parcels in self._parcels.items():
            parcels.sort()
            # Slots that were taken out of service do not come back, even where it was not said which.
            self.remove(agent, sum(p.slots for p in parcels) - self.sizes[agent])

    def ready(self, agent: str, slots: int) -> Rank | None:
        """The rank at which so many slots of an agent are free; None if they never are."""
        for parcel in self._parcels[agent]:
            slots -= parcel.slots
            if slots <= 0:
                return parcel.rank
        return None

    def take(self, agent: str, slots: int, rank: Rank) -> list[Parcel]:
        """Take slots that are there by `rank`: the latest ones, so that the others remain for others."""
        parcels = self._parcels[agent]
        taken: list[Parcel] = []
        i = sum(parcel.rank <= rank for parcel in parcels)
        while slots > 0 and i > 0:
            i -= 1
            part = parcels[i]._replace(slots=min(slots, parcels[i].slots))
            slots -= part.slots
            taken.append(part)
            self._shorten(agent, i, part.slots)
        return taken

    def remove(self, agent: str, slots: int, until: Rank = WHENEVER) -> int:
        """Take up to so many of the slots that come first, among those there by `until`; returns how many."""
        parcels = self._parcels[agent]
        removed = 0
        while removed < slots and parcels and parcels[0].rank <= until:
            part = min(slots - removed, parcels[0].slots)
            self._shorten(agent, 0, part)
            removed += part
        return removed

    def add(self, agent: str, slots: int, rank: Rank) -> None:
        if slots > 0:
            insort(self._parcels[agent], Parcel(rank, "", slots))

    def sure_by(self, agent: str, at: float) -> int:
        """How many slots will be free at a time by all that is known. Work that is late does not count."""
        return sum(
            parcel.slots
            for parcel in self._parcels[agent]
            if (when := self.time(parcel.rank)) is not None and when <= at
        )

    def time(self, rank: Rank) -> float | None:
        """When slots of that rank are free, in seconds since the epoch; None: nobody knows."""
        tier, key = rank
        if tier == FREE:
            return self.now
        if tier == LEAVING:
            return self.now + LEAVING_S
        return key if tier == KNOWN and key > self.now else None

    def _shorten(self, agent: str, index: int, slots: int) -> None:
        parcels = self._parcels[agent]
        left = parcels[index].slots - slots
        parcels[index : index + 1] = [parcels[index]._replace(slots=left)] if left else []


def facts_since(requested: float, reserve_after_s: float, now: float) -> float:
    """The point in time from which on ranks do not change, for a gang that waits since `requested`.

    First the time at which it began to starve; then each as long again after the last. A place that was chosen badly is
    thus given up, but soon one is kept for longer than any work runs.
    """
    since = requested + reserve_after_s
    patience = max(reserve_after_s, LEAST_PATIENCE_S)
    while since + patience <= now:
        since += patience
        patience *= 2
    return since


def _rank(one: Running, since: float) -> Rank:
    if one.releasing:
        return (LEAVING, 0.0)
    if one.expected_end is not None and one.expected_end > since:
        return (KNOWN, one.expected_end)
    if one.started <= since:
        return (UNKNOWN, -one.started)
    return (NEWER, one.started)
