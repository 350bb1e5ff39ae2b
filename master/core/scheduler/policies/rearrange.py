"""Slots that come back suffice for a request, but what was served before it took them: place all of them anew.

Without this a small request would start in the hole that is being made for a large one, only because the slots that
are on their way to the small one come a moment later, and more would be asked to leave for the large one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto

from master.core.scheduler.decision_builder import DecisionBuilder, Placed
from master.core.scheduler.fitting import FreeSlots, RequestShape
from master.core.scheduler.types import Placement, Request

MOST_MOVED = 1000
"""How many places are looked at in one decision; each costs some microseconds."""


class Room(Enum):
    MADE = auto()
    """It has a place now, to start or to wait for."""
    LATER = auto()
    """There will be room without asking anybody, but some that are more important would have to wait for it."""
    NONE = auto()


class Rearranging:
    """The attempts of one decision, and what they may still cost."""

    def __init__(self, builder: DecisionBuilder) -> None:
        self._builder = builder
        self._budget = MOST_MOVED
        self._known: dict[tuple[RequestShape, int], Room] = {}
        """What was found for a shape, until victims give back more than they were asked for."""

    def make_room(
        self, request: Request, shape: RequestShape, may_wait: Callable[[Request], bool]
    ) -> Room:
        """Place the request with all that was placed before it, the largest first, if all of them fit.

        What was about to start may have to wait for slots on their way instead, if `may_wait` says so.
        """
        attempt = (shape, self._builder.leftovers)
        room = self._known.get(attempt)
        if room is None:
            room = self._try(request, shape, may_wait)
            if room is not Room.MADE:
                self._known[attempt] = room
        return room

    def _try(
        self, request: Request, shape: RequestShape, may_wait: Callable[[Request], bool]
    ) -> Room:
        builder = self._builder
        cost = len(builder.placed) + 1
        if cost == 1 or builder.availability.left < shape.slots:
            return Room.NONE
        if cost > self._budget:
            return Room.LATER if builder.availability.is_settling(shape) else Room.NONE
        self._budget -= cost
        wanted = [*builder.placed.values(), Placed(request, shape, {})]
        anew = _fit_all(builder, wanted)
        if anew is None:
            return Room.NONE
        firm = [i for i in builder.starts if not may_wait(builder.placed[i].request)]
        before = builder.unplace()
        builder.place([one._replace(placement=anew[one.request.id]) for one in wanted])
        if all(i in builder.starts for i in firm):
            return Room.MADE
        builder.unplace()
        builder.place(before)
        return Room.LATER


def _fit_all(builder: DecisionBuilder, wanted: Sequence[Placed]) -> dict[str, Placement] | None:
    """Places for all, on the slots that are free or on their way back when none of them had any."""
    later = builder.availability.later
    view = FreeSlots(builder.pool.settings, later.rows(), later.apart)
    for one in wanted:
        view.give_back(one.placement)
    found: dict[str, Placement] = {}
    for one in sorted(wanted, key=lambda w: (-w.shape.slots, -len(w.shape.blocked))):
        placement = view.find(one.shape)
        if placement is None:
            return None
        view.take(placement)
        found[one.request.id] = placement
    return found
