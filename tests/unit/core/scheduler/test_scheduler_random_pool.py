"""Every policy in a pool that lives: what it promises after each of thousands of random steps."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings

from master.core.scheduler import decide
from master.core.scheduler.queue_order import QueueKey, priority_of, queue_key
from master.core.scheduler.types import (
    Decision,
    PoolState,
    Request,
    SchedulerSettings,
)
from tests.examples import examples
from tests.unit.core.scheduler.living_pool import (
    LivingPool,
    apply,
    could_start,
    is_allowed,
    let_leave,
    take_away,
)

RESERVE_AFTER_S = 1000.0
RESERVED = "are kept for it"
"""What a gang with a reservation is told."""
OFTEN = settings(
    max_examples=examples(150),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


pytestmark = pytest.mark.slow


class FairShare(LivingPool):
    settings = SchedulerSettings(type="fair_share", reserve_after=None)

    def check_policy(self, after: PoolState, decision: Decision) -> None:
        self._check_no_victim_in_vain(after, decision)

    def _check_no_victim_in_vain(self, after: PoolState, decision: Decision) -> None:
        """Once all have left, each release has started what it was for, or its job's like of it.

        With launchable capacity another job's claim may take the slots, and leave its instance to this one.
        """
        others_leave = any(one.releasing for one in self.pool.running)
        if not decision.release or (others_leave and self.pool.settings.fitting_policy == "worst"):
            return  # spread out, what is left of several holes may not be together
        later = let_leave(after)
        starts = decide(later).start
        asked = {request.id: request for request in (*self.pool.waiting, *later.waiting)}
        kind = {one: (request.job_id, request.slots) for one, request in asked.items()}
        started = {kind[start.request_id] for start in (*decision.start, *starts)}
        if any(asked[s.request_id].slots and not asked[s.request_id].preemptible for s in starts):
            return  # a new floor moves the shares that the releases were made for
        placed = {agent for start in starts for agent in start.placement}
        victims = {one.request.id: set(one.placement) for one in self.pool.running}
        for release in decision.release:
            assert release.for_requests
            assert victims[release.request_id] & placed, release
            if not self.pool.launchable:
                assert started & {kind[one] for one in release.for_requests}, release


class Priority(LivingPool):
    """Without preemption."""

    settings = SchedulerSettings(type="priority", reserve_after=None)

    def may_wait(self, request: Request, after: PoolState, decision: Decision) -> bool:
        """If those that it must not delay could use every agent on which it fits."""
        kept = {
            agent.id
            for other in after.waiting
            if other.slots and is_allowed(other, decision) and self._holds_back(other, request)
            for agent in after.agents
            if agent.slots >= other.slots or not other.single_agent
        }
        return not could_start(after, request, without=kept)

    def check_policy(self, after: PoolState, decision: Decision) -> None:
        if not self.pool.settings.preemption:
            assert not decision.release
        self._check_nothing_passes_the_first(after, decision)

    def _holds_back(self, ahead: Request, request: Request) -> bool:
        return self._priority(ahead) < self._priority(request)

    def _check_nothing_passes_the_first(self, after: PoolState, decision: Decision) -> None:
        """The first that waits could not have started on what those before it left."""
        if decision.release or any(r.releasing for r in after.running) or after.launchable:
            return
        waiting = [r for r in after.waiting if r.slots and is_allowed(r, decision)]
        if not waiting:
            return
        first = min(waiting, key=self._place)
        behind = {
            r.id for r in self.pool.waiting if r.slots and self._place(r) > self._place(first)
        }
        started = [one for one in after.running if one.request.id in behind]
        assert not could_start(take_away(after, started, again=False), first), first
        for start in decision.start:
            if start.request_id in behind:
                assert start.backfilled

    def _priority(self, request: Request) -> int:
        return priority_of(self.pool.jobs[request.job_id], self.pool.settings)

    def _place(self, request: Request) -> tuple[QueueKey, float, str]:
        job = self.pool.jobs[request.job_id]
        return queue_key(job, self.pool.settings), request.requested, request.id


class Preemption(Priority):
    settings = SchedulerSettings(type="priority", preemption=True)

    def is_final(self, after: PoolState) -> bool:
        """While slots are coming back, those behind may be promised others than they were when they were asked for."""
        return not any(one.releasing for one in after.running)

    def check_policy(self, after: PoolState, decision: Decision) -> None:
        super().check_policy(after, decision)
        asked = {one.request.id: one.request for one in self.pool.running}
        asked |= {request.id: request for request in self.pool.waiting}
        for release in decision.release:
            (needs,) = release.for_requests
            assert self._place(asked[needs])[0] < self._place(asked[release.request_id])[0]
        others_leave = any(one.releasing for one in self.pool.running)
        if decision.release and not others_leave and not after.launchable:
            self._check_each_release_starts_what_it_is_for(after, decision)

    def _holds_back(self, ahead: Request, request: Request) -> bool:
        return not request.preemptible and self._place(ahead) < self._place(request)

    def _check_each_release_starts_what_it_is_for(
        self, after: PoolState, decision: Decision
    ) -> None:
        """However they leave, and nobody is asked for it twice.

        One by one only if all that wait for slots have one priority: a higher one takes what is free first. And only
        what is ahead of all that leaves: this asks again, and then has its own turn.
        """
        served = [r for r in after.waiting if decision.waiting[r.id].victims]
        alike = len({self._priority(request) for request in served}) == 1
        foremost = min(self._place(one.request) for one in after.running if one.releasing)
        safe = {request.id for request in served if self._place(request) < foremost}
        releases = [one for one in decision.release if safe.issuperset(one.for_requests)]
        for together in (True, False) if alike else (True,):
            pool = after
            served_once = {one for release in releases for one in release.for_requests}
            while leaving := [one for one in pool.running if one.releasing]:
                pool = take_away(pool, leaving if together else leaving[:1], again=True)
                then = decide(pool)
                for release in then.release:
                    assert served_once.isdisjoint(release.for_requests), release
                pool = apply(pool, then)
            runs = {one.request.id for one in pool.running}
            for release in releases:
                assert set(release.for_requests) <= runs, release


class RoundRobin(LivingPool):
    settings = SchedulerSettings(type="round_robin", reserve_after=None)

    def may_wait(self, request: Request, after: PoolState, decision: Decision) -> bool:
        """Behind the first of its job that waits."""
        return any(
            (other.requested, other.id) < (request.requested, request.id)
            for other in after.waiting
            if other.job_id == request.job_id and other.slots
        )

    def check_policy(self, after: PoolState, decision: Decision) -> None:
        assert not decision.release


class Guarded(LivingPool):
    """With the starvation guard, which may keep slots free and let work of others pass where it is gone in time."""

    def may_wait(self, request: Request, after: PoolState, decision: Decision) -> bool:
        """While a place is kept for somebody."""
        return any(RESERVED in answer.reason.text for answer in decision.waiting.values())

    def is_final(self, after: PoolState) -> bool:
        """While nobody starves: what has just started may give a better place to keep, and leave slots for others."""
        long_ago = after.now - RESERVE_AFTER_S
        return not any(r.slots > 1 and r.requested <= long_ago for r in after.waiting)


class GuardedFairShare(Guarded):
    settings = FairShare.settings.model_copy(
        update={"reserve_after": timedelta(seconds=RESERVE_AFTER_S)}
    )


class GuardedPriority(Guarded, Priority):
    settings = Priority.settings.model_copy(
        update={"reserve_after": timedelta(seconds=RESERVE_AFTER_S)}
    )

    def may_wait(self, request: Request, after: PoolState, decision: Decision) -> bool:
        return Guarded.may_wait(self, request, after, decision) or Priority.may_wait(
            self, request, after, decision
        )

    def check_policy(self, after: PoolState, decision: Decision) -> None:
        """Nobody more important than what waits with a place kept for it is passed."""
        if not any(RESERVED in answer.reason.text for answer in decision.waiting.values()):
            super().check_policy(after, decision)


class GuardedRoundRobin(Guarded, RoundRobin):
    settings = RoundRobin.settings.model_copy(
        update={"reserve_after": timedelta(seconds=RESERVE_AFTER_S)}
    )

    def may_wait(self, request: Request, after: PoolState, decision: Decision) -> bool:
        return Guarded.may_wait(self, request, after, decision) or RoundRobin.may_wait(
            self, request, after, decision
        )


FairShare.TestCase.settings = OFTEN
Priority.TestCase.settings = OFTEN
Preemption.TestCase.settings = OFTEN
RoundRobin.TestCase.settings = OFTEN
GuardedFairShare.TestCase.settings = OFTEN
GuardedPriority.TestCase.settings = OFTEN
GuardedRoundRobin.TestCase.settings = OFTEN
TestFairShare = FairShare.TestCase
TestPriority = Priority.TestCase
TestPreemption = Preemption.TestCase
TestRoundRobin = RoundRobin.TestCase
TestGuardedFairShare = GuardedFairShare.TestCase
TestGuardedPriority = GuardedPriority.TestCase
TestGuardedRoundRobin = GuardedRoundRobin.TestCase
