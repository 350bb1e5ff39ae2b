"""fair_share: slots in proportion to demand x weight, and running work adjusted when jobs come and go.

One decision, in this order (`shares` and `victims` document their own rules):

1. Shares. Capacity is what is schedulable, what is still held on agents that get no more work, and what is booting
   or could be launched within `preempt_after`.
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
from dataclasses import replace
from typing import NamedTuple

from master.core.scheduler import explain
from master.core.scheduler.decision_builder import DecisionBuilder
from master.core.scheduler.fitting import EXPECTED, REAL, FreeSlots, RequestShape
from master.core.scheduler.ledger import JobAccount, Wanted
from master.core.scheduler.policies.shares import Entitlement, divide, proportion
from master.core.scheduler.types import (
    Decision,
    PoolState,
    Request,
    Running,
    Start,
)
from master.core.scheduler.unplaced import explain_shares
from master.core.scheduler.usage import capacity
from master.core.scheduler.victims import Preemptibility, VictimSearch, spare_slots


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
    shape: RequestShape
    account: JobAccount
    reach: int
    """`part` in slots."""


def claims_within(accounts: Mapping[str, JobAccount], shares: Mapping[str, int]) -> list[Claim]:
    """Every job's next requests, by (requested, id), up to its share and `max_slots`. Large gangs first, then those
    with blocked agents; equal ones take turns between jobs, by how much of its share each has."""
    claims: list[Claim] = []
    for job_id, account in accounts.items():
        share, room, reach = shares[job_id], account.room, account.held
        for request, shape in account.waiting:
            if reach >= share:
                break
            after = reach + shape.slots
            if after <= share and after - account.held <= room:
                reach = after
                claims.append(
                    Claim(
                        -shape.slots,
                        -len(shape.blocked),
                        reach / share,
                        account.age,
                        len(claims),
                        request,
                        shape,
                        account,
                        reach,
                    )
                )
    claims.sort()
    return claims


MOST_ROUNDS = 4
"""How often shares are divided again within one decision; once is the rule, more is rare."""


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
    """The working state of one division of shares."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._builder = DecisionBuilder(pool)
        self._accounts = self._builder.accounts
        self._entitlements = {job: _entitlement(account) for job, account in self._accounts.items()}
        self._expected = self._builder.ledger.expected
        self._shares = self._divide(capacity(pool, self._builder.ledger.usage, self._expected))

    def decide(self) -> Decision:
        builder = self._builder
        unplaced = self._start_within_shares()
        unmet = self._serve_later(unplaced, self._shares)
        while self._give_leftovers() and unmet:
            # They put jobs above their shares. What that makes possible is decided now, not next time.
            still = self._serve_later(unmet, self._shares)
            if len(still) == len(unmet):
                break
            unmet = still
        if self._expected:
            unmet = self._serve_what_nobody_launches(unmet)
        builder.reasons |= explain_shares(
            self._pool,
            builder.ledger,
            self._shares,
            builder.availability,
            started=builder.starts,
            promised=builder.reasons,
            unmet={claim.request.id for claim in unmet},
        )
        return builder.finish(builder.ledger.aux)

    def _divide(self, slots: int) -> dict[str, int]:
        return divide(slots, list(self._entitlements.values()))

    def _start_within_shares(self) -> list[Claim]:
        """Start what fits, and promise what comes back anyhow to what does not; the remaining claims, in order.

        In one go, so that a small claim does not take what a large one is already waiting to complete.
        """
        availability = self._builder.availability
        unfit: set[RequestShape] = set()
        unplaced: list[Claim] = []
        for claim in claims_within(self._accounts, self._shares):
            request, shape = claim.request, claim.shape
            placement = None if shape in unfit else availability.spare.find(shape)
            if placement is not None:
                self._builder.start(request, shape, placement)
                continue
            unfit.add(shape)
            if not (
                availability.is_anything_leaving and self._builder.promise(request, shape, REAL)
            ):
                unplaced.append(claim)
        return unplaced

    def _serve_later(self, claims: Sequence[Claim], shares: Mapping[str, int]) -> list[Claim]:
        """Promise, leave to expected capacity, or release for; returns the claims nothing can be done for."""
        if not claims:
            return []
        builder = self._builder
        search = self._search(shares)

        def above_its_share(victim: Running, request: Request) -> str:
            job_id = victim.request.job_id
            share = explain.count(shares[job_id], "slot")
            return f"job {job_id} is above its fair share of {share}; needed by {request.id}"

        return [
            claim
            for claim in claims
            if not (
                builder.promise(claim.request, claim.shape, REAL)
                or builder.promise(claim.request, claim.shape, EXPECTED)
                or builder.settle(claim.request, claim.shape)
                or builder.release_for(claim.request, claim.shape, search, above_its_share)
            )
        ]

    def _search(self, shares: Mapping[str, int]) -> VictimSearch:
        """Among what runs, and what this decision starts: that is taken back rather than asked to leave."""
        spare = {job: spare_slots(account, shares[job]) for job, account in self._accounts.items()}
        builder = self._builder
        candidates = [
            one
            for one in self._pool.running
            if spare.get(one.request.job_id) and one.request.id not in builder.releases
        ]
        for account in self._accounts.values():
            if spare[account.job.id]:
                candidates += [
                    Running(
                        request=request,
                        placement=builder.starts[request.id].placement,
                        started=self._pool.now,
                    )
                    for request, _ in account.waiting
                    if request.id in builder.starts
                ]
        return VictimSearch(
            builder.availability.later,
            candidates,
            {job_id: Preemptibility(slots) for job_id, slots in spare.items()},
            now=self._pool.now,
            mixed_sizes=self._pool.settings.allow_heterogeneous_fits,
        )

    def _give_leftovers(self) -> bool:
        """Start requests beyond shares on slots that nothing waits for; whether there were any."""
        builder = self._builder
        if builder.availability.spare.is_full:
            return False
        unfit: set[RequestShape] = set()
        queue = [
            (self._above(account), account.age, account, iter(account.waiting))
            for job_id, account in self._accounts.items()
            if account.waiting and job_id not in builder.served_later
        ]
        heapq.heapify(queue)
        before = len(builder.starts)
        while queue:
            _, age, account, rest = queue[0]
            found = self._next_leftover(account, rest, unfit)
            if found is None:
                heapq.heappop(queue)
                continue
            builder.start(*found)
            heapq.heapreplace(queue, (self._above(account), age, account, rest))
        return len(builder.starts) > before

    def _above(self, account: JobAccount) -> float:
        """How far the job is above its share, in the measure of shares."""
        job_id = account.job.id
        return (account.held - self._shares[job_id]) / proportion(self._entitlements[job_id])

    def _next_leftover(
        self,
        account: JobAccount,
        rest: Iterator[Wanted],
        unfit: set[RequestShape],
    ) -> tuple[Request, RequestShape, dict[str, int]] | None:
        room = account.room
        for request, shape in rest:
            if shape in unfit or shape.slots > room:
                continue
            if request.id in self._builder.starts or request.id in self._builder.reasons:
                continue
            placement = self._builder.availability.spare.find(shape)
            if placement is not None:
                return request, shape, placement
            unfit.add(shape)
        return None

    def _serve_what_nobody_launches(self, unmet: Sequence[Claim]) -> list[Claim]:
        """Expected agents of the wrong shape must not keep a gang waiting: for it, they are no capacity."""
        present = self._divide(capacity(self._pool, self._builder.ledger.usage, ()))
        launched = FreeSlots(self._pool.settings, self._expected)
        fits = {
            shape: launched.find(shape, EXPECTED) is not None
            for shape in {claim.shape for claim in unmet}
        }
        claims: list[Claim] = []
        others: list[Claim] = []
        for claim in unmet:
            within = claim.reach <= present[claim.account.job.id]
            (claims if within and not fits[claim.shape] else others).append(claim)
        return others + self._serve_later(claims, present)


def _entitlement(account: JobAccount) -> Entitlement:
    gang = min(account.gangs, default=0)
    return Entitlement(
        job_id=account.job.id,
        weight=account.job.weight,
        demand=account.demand,
        floor=account.fixed,
        gang=gang,
        stays=account.gangs.get(gang, False),
    )
