"""One decision while it is made: what starts, what is promised to whom, who is asked to leave, and what is said.

A policy says in which order requests are served and who may lose slots. What can be done for a request is the same
everywhere, best first: start it; promise it slots that are coming back anyhow; leave it to expected capacity; ask
running work to leave, if that really suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from master.core.scheduler import explain
from master.core.scheduler.aux_places import place_aux
from master.core.scheduler.availability import Availability
from master.core.scheduler.fitting import EXPECTED, REAL, RequestShape
from master.core.scheduler.ledger import open_ledger
from master.core.scheduler.types import (
    Decision,
    Placement,
    PoolState,
    Release,
    Request,
    Running,
    Start,
    Waiting,
)
from master.core.scheduler.unplaced import explain_hopeless
from master.core.scheduler.victims import Clearing, VictimSearch

WhyReleased: TypeAlias = Callable[[Running, Request], str]
"""(victim, the request it makes room for) -> why it has to leave"""


class Placed(NamedTuple):
    """A request with its slots, in use from now on or promised."""

    request: Request
    shape: RequestShape
    placement: Placement
    backfilled: bool = False


class DecisionBuilder:
    """The working state of one decision. Where a method takes a shape, that may be narrower than the request's own."""

    def __init__(self, pool: PoolState, *, strict: bool = False) -> None:
        """`strict` promises are explained by `Availability`."""
        self.pool = pool
        self.ledger = open_ledger(pool)
        self.accounts = self.ledger.accounts
        self.availability = Availability(pool.settings, self.ledger, strict=strict)
        self.starts: dict[str, Start] = {}
        self.reasons: dict[str, Waiting] = {}
        self.releases: dict[str, Release] = {}
        self.served_later: set[str] = set()
        """Jobs with a request that waits for slots to come back."""
        self.placed: dict[str, Placed] = {}
        """What has slots that exist, free or not yet, in the order in which it was served."""
        self._expected: dict[RequestShape, Waiting] = {}
        self.leftovers = 0
        """How often victims gave back more than was needed."""
        self._no_room: dict[bool, set[RequestShape]] = {False: set(), True: set()}
        self._unfit: dict[int, set[RequestShape]] = {REAL: set(), EXPECTED: set()}
        """Shapes that the availability has no place for, by tier, until more is asked to leave."""

    def find_free(self, shape: RequestShape, *, open_only: bool = False) -> dict[str, int] | None:
        """A place that may be given away now, for policies that take nothing back: what has none gets none later."""
        no_room = self._no_room[open_only]
        if shape in no_room:
            return None
        view = self.availability.open if open_only else self.availability.spare
        placement = view.find(shape)
        if placement is None:
            no_room.add(shape)
        return placement

    def start(
        self,
        request: Request,
        shape: RequestShape,
        placement: Placement,
        *,
        backfilled: bool = False,
    ) -> None:
        self.availability.start(placement)
        self.placed[request.id] = Placed(request, shape, placement, backfilled)
        self.accounts[request.job_id].hold(request)
        self.starts[request.id] = Start(
            request_id=request.id, placement=placement, backfilled=backfilled
        )

    def promise(self, request: Request, shape: RequestShape, tier: int) -> bool:
        """Reserve slots that are coming back, or with the second tier those of expected agents, if they suffice."""
        if shape in self._unfit[tier]:
            return False
        placement = self.availability.later.find(shape, tier)
        if placement is None:
            self._unfit[tier].add(shape)
            return False
        self.availability.promise(placement)
        self.accounts[request.job_id].promised += request.slots
        if tier == REAL:
            self.placed[request.id] = Placed(request, shape, placement)
            self.wait_for(request, shape, self.availability.wait_on(placement))
        else:
            why = self._expected.get(shape) or explain.expected(shape, self.pool)
            self.reasons[request.id] = self._expected[shape] = why
        return True

    def settle(self, request: Request, shape: RequestShape) -> bool:
        """Let it wait until what is leaving has left, if that leaves over enough slots that may do for it."""
        leavers = self.availability.settling(shape)
        if leavers:
            self.wait_for(request, shape, leavers)
        return bool(leavers)

    def release_for(
        self,
        request: Request,
        shape: RequestShape,
        search: VictimSearch,
        why: WhyReleased,
        *,
        rank: int = -1,
    ) -> bool:
        """Ask running work to leave, if all that may be asked makes room. What was about to start is taken back."""
        cleared = search.clear(shape, rank)
        if cleared is None:
            return False
        self._ask(cleared, request, why)
        free_now = self.availability.swap(cleared.placement, shape)
        if free_now is not None or self._is_anything_left(cleared):
            self._unfit = {REAL: set(), EXPECTED: set()}
            self.leftovers += 1
        if free_now is not None:
            self.start(request, shape, free_now)
        else:
            self.accounts[request.job_id].promised += request.slots
            self.placed[request.id] = Placed(request, shape, cleared.placement)
            self.wait_for(request, shape, self.availability.wait_on(cleared.placement))
        return True

    def place(self, placed: Sequence[Placed]) -> None:
        """Start what has its slots free now, in this order, and promise theirs to the others."""
        for one in placed:
            request, shape, placement, backfilled = one
            if self.availability.is_free(placement):
                self.reasons.pop(request.id, None)
                self.start(request, shape, placement, backfilled=backfilled)
            else:
                self.placed[request.id] = one
                self.availability.promise(placement)
                self.accounts[request.job_id].promised += request.slots
                self.wait_for(request, shape, self.availability.wait_on(placement))

    def unplace(self) -> list[Placed]:
        """Take all places back, to give them again otherwise; what had them, in the order of service."""
        placed = list(self.placed.values())
        for request, _, placement, _ in placed:
            account = self.accounts[request.job_id]
            if request.id in self.starts:
                account.take_back(request)
                self.availability.undo_start(placement)
            else:
                account.promised -= request.slots
                self.availability.undo_promise(placement)
        self.starts.clear()
        self.placed.clear()
        self._no_room = {False: set(), True: set()}
        return placed

    def wait_for(self, request: Request, shape: RequestShape, leavers: Sequence[str]) -> None:
        self.reasons[request.id] = explain.needs_release(shape, leavers)
        self.served_later.add(request.job_id)

    def finish(self, aux: Sequence[Request]) -> Decision:
        """The decision, with the zero-slot tasks placed in this order. Every other request has its reason by now."""
        busy = {agent for start in self.starts.values() for agent in start.placement}
        busy |= self.ledger.usage.used.keys()
        aux_starts, aux_reasons = place_aux(self.pool, aux, busy)
        return Decision(
            start=(*self.starts.values(), *aux_starts),
            release=tuple(self.releases.values()),
            waiting={**self.reasons, **explain_hopeless(self.pool, self.ledger), **aux_reasons},
        )

    def _ask(self, cleared: Clearing, request: Request, why: WhyReleased) -> None:
        for victim in cleared.victims:
            leaver = victim.request
            account = self.accounts[leaver.job_id]
            if leaver.id in self.starts:
                del self.starts[leaver.id], self.placed[leaver.id]
                account.take_back(leaver)
                self.availability.note_taken_back(victim)
            else:
                self.releases[leaver.id] = Release(
                    request_id=leaver.id, why=why(victim, request), for_requests=(request.id,)
                )
                account.let_go(leaver)
                self.availability.note_asked(victim)

    def _is_anything_left(self, cleared: Clearing) -> bool:
        """Whether the victims give back more than the gang takes: others may have a place there."""
        if self.availability.left <= 0:
            return False
        later = self.availability.later
        agents = {agent for victim in cleared.victims for agent in victim.placement}
        return any(later.free_on(agent) > 0 for agent in agents)
