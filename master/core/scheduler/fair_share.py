"""fair_share: slots in proportion to demand x weight, and running work adjusted when jobs come and go.

One decision, in this order (`shares` and `victims` document their own rules):

1. Shares. Capacity is what is schedulable, what is still held on agents that get no more work, and what is booting
   or could be launched within `preempt_after_s`.
2. Starts within shares. Every job claims its next requests, by (requested, id), up to its share and `max_slots`.
   Large gangs are placed first, then those with blocked agents; equal ones take turns between jobs, by how much
   of its share each has.
3. Claims that do not fit now, in the same order: slots that are coming back anyhow are promised to them; else they
   are left to expected capacity; else jobs over their share are asked to release work, if that really suffices.
4. Leftovers. Free slots that no claim waits for go to requests beyond shares, the job least above its share first.
   `max_slots` still holds. Jobs that get some are above their shares, and may be asked to give them back.
5. Everything that still waits gets its reason. It is demand for the provisioner unless `max_slots` forbids it or
   slots that are coming back will serve it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from master.core.scheduler import explain
from master.core.scheduler.aux_places import place_aux
from master.core.scheduler.fitting import EXPECTED, REAL, FreeSlots, Shape
from master.core.scheduler.ledger import JobBook, Wanted, capacity, open_ledger
from master.core.scheduler.outlook import Outlook
from master.core.scheduler.shares import Stake, divide, proportion
from master.core.scheduler.types import (
    Decision,
    PoolState,
    Release,
    Request,
    Running,
    Start,
    Waiting,
)
from master.core.scheduler.unplaced import explain_rest
from master.core.scheduler.victims import Clearing, VictimSearch, spare_slots

MOST_ROUNDS = 4
"""How often shares are divided again within one decision; once is the rule, more is rare."""


class Claim(NamedTuple):
    """A waiting request within its job's share. Sorts in the order of service: `nth` makes the rest irrelevant."""

    smallness: int
    """Minus the slots."""
    freedom: int
    """Minus the agents it must not use: who has less choice chooses first."""
    part: float
    """How much of its share the job has when this claim and those before it are served."""
    age: int
    nth: int
    request: Request
    shape: Shape
    book: JobBook
    reach: int
    """`part` in slots."""


@dataclass(slots=True)
class Asked:
    """One victim: the share its job was held to, and who needs its slots."""

    running: Running
    share: int
    for_requests: list[str] = field(default_factory=list)


def decide(pool: PoolState) -> Decision:
    """One round; or more, while what starts is not preemptible.

    Such work is a floor under its job's share from then on and so moves the others' shares. They are divided again
    with it in place before anything else is started that would be asked to leave at once.
    """
    fixed: dict[str, Start] = {}
    state = pool
    for _ in range(MOST_ROUNDS):
        decision = _Round(state).decide()
        stays = {one.id: one for one in state.waiting if one.slots and not one.preemptible}
        new = {one.request_id: one for one in decision.start if one.request_id in stays}
        if not new:
            break
        fixed |= new
        state = replace(
            state,
            waiting=tuple(one for one in state.waiting if one.id not in new),
            running=(
                *state.running,
                *(
                    Running(request=stays[i], placement=start.placement, started=pool.now)
                    for i, start in new.items()
                ),
            ),
        )
    else:
        decision = _Round(state).decide()
    return replace(decision, start=(*fixed.values(), *decision.start))


class _Round:
    """The working state of one decision."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._ledger = open_ledger(pool)
        self._books = self._ledger.books
        self._stakes = {job: _stake(book) for job, book in self._books.items()}
        self._shares = self._divide(capacity(pool, self._ledger.expected))
        self._outlook = Outlook(pool.settings, self._ledger)
        self._starts: dict[str, Start] = {}
        self._reasons: dict[str, Waiting] = {}
        self._asked: dict[str, Asked] = {}
        self._expected: dict[Shape, Waiting] = {}
        self._served_later: set[str] = set()
        """Jobs with a claim that waits for slots to come back: what is left over is not for them."""
        self._unfit: dict[int, set[Shape]] = {REAL: set(), EXPECTED: set()}
        """Shapes that the outlook has no place for, by tier, until more is asked to leave."""

    def decide(self) -> Decision:
        unplaced = self._start_within_shares()
        unserved = self._serve_later(unplaced, self._shares)
        while self._give_leftovers() and unserved:
            # They put jobs above their shares. What that makes possible is decided now, not next time.
            still = self._serve_later(unserved, self._shares)
            if len(still) == len(unserved):
                break
            unserved = still
        if self._ledger.expected:
            unserved = self._serve_what_nobody_launches(unserved)
        self._reasons |= explain_rest(
            self._pool,
            self._ledger,
            self._shares,
            self._outlook,
            started=self._starts,
            promised=self._reasons,
            unserved={claim.request.id for claim in unserved},
        )
        busy = {agent for start in self._starts.values() for agent in start.placement}
        busy |= {agent for r in self._pool.running for agent in r.placement}
        aux_starts, aux_reasons = place_aux(self._pool, self._ledger.aux, busy)
        return Decision(
            start=(*self._starts.values(), *aux_starts),
            release=tuple(_release(one) for one in self._asked.values()),
            waiting={**self._reasons, **aux_reasons},
        )

    def _divide(self, slots: int) -> dict[str, int]:
        return divide(slots, list(self._stakes.values()))

    def _start_within_shares(self) -> list[Claim]:
        """Start what fits, and promise what comes back anyhow to what does not; the remaining claims, in order.

        In one go, so that a small claim does not take what a large one is already waiting to complete.
        """
        outlook = self._outlook
        unfit: set[Shape] = set()
        unplaced: list[Claim] = []
        for claim in self._claims():
            placement = None if claim.shape in unfit else outlook.spare.find(claim.shape)
            if placement is not None:
                self._start(claim.request, claim.book, placement)
                continue
            unfit.add(claim.shape)
            if not (outlook.is_anything_leaving and self._promise(claim, REAL)):
                unplaced.append(claim)
        return unplaced

    def _claims(self) -> list[Claim]:
        claims: list[Claim] = []
        for job_id, book in self._books.items():
            share, room, reach = self._shares[job_id], book.room, book.held
            for request, shape in book.waiting:
                if reach >= share:
                    break
                after = reach + shape.slots
                if after <= share and after - book.held <= room:
                    reach = after
                    claims.append(
                        Claim(
                            -shape.slots,
                            -len(shape.blocked),
                            reach / share,
                            book.age,
                            len(claims),
                            request,
                            shape,
                            book,
                            reach,
                        )
                    )
        claims.sort()
        return claims

    def _start(self, request: Request, book: JobBook, placement: Mapping[str, int]) -> None:
        self._outlook.start(placement)
        book.hold(request)
        self._starts[request.id] = Start(request_id=request.id, placement=placement)

    def _serve_later(self, claims: Sequence[Claim], shares: Mapping[str, int]) -> list[Claim]:
        """Promise, leave to expected capacity, or release for; returns the claims nothing can be done for."""
        if not claims:
            return []
        search = self._search(shares)
        unserved: list[Claim] = []
        for claim in claims:
            if self._promise(claim, REAL) or self._promise(claim, EXPECTED):
                continue
            settling = self._outlook.settling(claim.shape)
            if settling:
                self._wait_for(claim, settling)
                continue
            cleared = search.clear(claim.shape)
            if cleared is None:
                unserved.append(claim)
            else:
                self._ask(cleared, claim, shares)
        return unserved

    def _promise(self, claim: Claim, tier: int) -> bool:
        """Reserve slots that are coming back, or with the second tier those of expected agents, if they suffice."""
        shape = claim.shape
        if shape in self._unfit[tier]:
            return False
        placement = self._outlook.later.find(shape, tier)
        if placement is None:
            self._unfit[tier].add(shape)
            return False
        self._outlook.promise(placement)
        if tier == REAL:
            self._wait_for(claim, self._outlook.wait_on(placement))
        else:
            why = self._expected.get(shape) or explain.expected(shape, self._pool)
            self._reasons[claim.request.id] = self._expected[shape] = why
        return True

    def _ask(self, cleared: Clearing, claim: Claim, shares: Mapping[str, int]) -> None:
        for victim in cleared.victims:
            request = victim.request
            book = self._books[request.job_id]
            if request.id in self._starts:
                del self._starts[request.id]
                book.take_back(request)
                self._outlook.note_taken_back(victim)
            else:
                share = shares[request.job_id]
                self._asked[request.id] = Asked(victim, share, [claim.request.id])
                book.let_go(request)
                self._outlook.note_asked(victim)
        self._unfit = {REAL: set(), EXPECTED: set()}
        free_now = self._outlook.swap(cleared.placement, claim.shape)
        if free_now is not None:
            self._start(claim.request, claim.book, free_now)
        else:
            self._wait_for(claim, self._outlook.wait_on(cleared.placement))

    def _wait_for(self, claim: Claim, leavers: Sequence[str]) -> None:
        self._reasons[claim.request.id] = explain.needs_release(claim.shape, leavers)
        self._served_later.add(claim.book.job.id)

    def _search(self, shares: Mapping[str, int]) -> VictimSearch:
        """Among what runs, and what this decision starts: that is taken back rather than asked to leave."""
        spare = {job: spare_slots(book, shares[job]) for job, book in self._books.items()}
        candidates = [
            one
            for one in self._pool.running
            if spare.get(one.request.job_id) and one.request.id not in self._asked
        ]
        for book in self._books.values():
            if spare[book.job.id]:
                candidates += [
                    Running(
                        request=request,
                        placement=self._starts[request.id].placement,
                        started=self._pool.now,
                    )
                    for request, _ in book.waiting
                    if request.id in self._starts
                ]
        return VictimSearch(
            self._outlook.later,
            candidates,
            spare,
            now=self._pool.now,
            mixed_sizes=self._pool.settings.allow_heterogeneous_fits,
        )

    def _give_leftovers(self) -> bool:
        """Start requests beyond shares on slots that nothing waits for; whether there were any."""
        if self._outlook.spare.is_full:
            return False
        unfit: set[Shape] = set()
        queue = [
            (self._above(book), book.age, book, iter(book.waiting))
            for job_id, book in self._books.items()
            if book.waiting and job_id not in self._served_later
        ]
        heapq.heapify(queue)
        before = len(self._starts)
        while queue:
            _, age, book, rest = queue[0]
            found = self._next_leftover(book, rest, unfit)
            if found is None:
                heapq.heappop(queue)
                continue
            request, placement = found
            self._start(request, book, placement)
            heapq.heapreplace(queue, (self._above(book), age, book, rest))
        return len(self._starts) > before

    def _above(self, book: JobBook) -> float:
        """How far the job is above its share, in the measure of shares."""
        job_id = book.job.id
        return (book.held - self._shares[job_id]) / proportion(self._stakes[job_id])

    def _next_leftover(
        self,
        book: JobBook,
        rest: Iterator[Wanted],
        unfit: set[Shape],
    ) -> tuple[Request, dict[str, int]] | None:
        room = book.room
        for request, shape in rest:
            if shape in unfit or shape.slots > room:
                continue
            if request.id in self._starts or request.id in self._reasons:
                continue
            placement = self._outlook.spare.find(shape)
            if placement is not None:
                return request, placement
            unfit.add(shape)
        return None

    def _serve_what_nobody_launches(self, unserved: Sequence[Claim]) -> list[Claim]:
        """Expected agents of the wrong shape must not keep a gang waiting: for it, they are no capacity."""
        present = self._divide(capacity(self._pool, ()))
        launched = FreeSlots(self._pool.settings, self._ledger.expected)
        fits = {
            shape: launched.find(shape, EXPECTED) is not None
            for shape in {claim.shape for claim in unserved}
        }
        claims: list[Claim] = []
        others: list[Claim] = []
        for claim in unserved:
            within = claim.reach <= present[claim.book.job.id]
            (claims if within and not fits[claim.shape] else others).append(claim)
        return others + self._serve_later(claims, present)


def _stake(book: JobBook) -> Stake:
    gang = min(book.gangs, default=0)
    return Stake(
        job_id=book.job.id,
        weight=book.job.weight,
        demand=book.demand,
        floor=book.fixed,
        gang=gang,
        stays=book.gangs.get(gang, False),
    )


def _release(asked: Asked) -> Release:
    request = asked.running.request
    return Release(
        request_id=request.id,
        why=(
            f"job {request.job_id} is above its fair share of {explain.count(asked.share, 'slot')}; "
            f"needed by {explain.names(asked.for_requests)}"
        ),
        for_requests=tuple(asked.for_requests),
    )
