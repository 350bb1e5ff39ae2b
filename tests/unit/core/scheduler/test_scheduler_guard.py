"""No gang waits for ever, under any policy, however much small work flows past; and it costs no more than it must."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from master.core.scheduler import decide
from master.core.scheduler.types import (
    AgentState,
    Job,
    PoolState,
    Request,
    SchedulerSettings,
)
from tests.unit.core.scheduler.living_pool import apply, let_leave, take_away, used

TICK_S = 30.0
RESERVE_AFTER_S = 900.0
LONGEST_S = 600.0
"""No task of the flow runs longer."""
AGENTS, SLOTS = 4, 4
GANG = "gang.0"
POLICIES = {
    "fair_share": SchedulerSettings(type="fair_share"),
    "priority": SchedulerSettings(type="priority"),
    "priority with preemption": SchedulerSettings(type="priority", preemption=True),
    "round_robin": SchedulerSettings(type="round_robin"),
}
NEEDS_NO_GUARD = "priority with preemption"


class Flow:
    """A full pool, more small work than it can hold, and one gang that came early."""

    def __init__(self, settings: SchedulerSettings, *, seed: int, slots: int, known: bool) -> None:
        self._rng = random.Random(seed)
        self._known = known
        self._ends: dict[str, float] = {}
        self._numbers = iter(range(1_000_000))
        agents = tuple(AgentState(id=f"n{i}", slots=SLOTS) for i in range(AGENTS))
        self.pool = PoolState(now=0.0, settings=settings, agents=agents)
        self.utilisation: list[float] = []
        while sum(r.slots for r in self.pool.waiting) < AGENTS * SLOTS:
            self._arrive(1)
        self._decide()
        self.pool = replace(self.pool, now=1.0)
        self._add("gang", (self._request("gang", slots, preemptible=True),))

    @property
    def gang_allocations(self) -> bool:
        return any(one.request.id == GANG for one in self.pool.running)

    def tick(self) -> None:
        self.pool = replace(self.pool, now=self.pool.now + TICK_S)
        gone = [
            one
            for one in self.pool.running
            if one.request.id != GANG and self._ends[one.request.id] <= self.pool.now
        ]
        self.pool = let_leave(take_away(self.pool, gone, again=False))
        while sum(r.slots for r in self.pool.waiting if r.id != GANG) < AGENTS * SLOTS:
            self._arrive()
        self._decide()
        self.utilisation.append(sum(used(self.pool).values()) / (AGENTS * SLOTS))

    def _decide(self) -> None:
        before = {one.request.id for one in self.pool.running}
        self.pool = apply(self.pool, decide(self.pool))
        for one in self.pool.running:
            if one.request.id not in before and one.request.id != GANG:
                run_s = one.request.expected_run_s or self._rng.uniform(60, LONGEST_S)
                self._ends[one.request.id] = self.pool.now + run_s
        if self._known:
            self.pool = replace(
                self.pool,
                running=tuple(
                    replace(one, expected_end=self._ends.get(one.request.id))
                    for one in self.pool.running
                ),
            )

    def _arrive(self, slots: int | None = None) -> None:
        """A job of tasks that cannot be preempted: what preemption would do is not the question here."""
        name = f"small-{next(self._numbers)}"
        slots = slots or self._rng.choice((1, 1, 2))
        requests = [self._request(name, slots, preemptible=False, n=n) for n in range(4)]
        self._add(name, tuple(requests))

    def _request(self, job: str, slots: int, *, preemptible: bool, n: int = 0) -> Request:
        run_s = self._rng.uniform(60, LONGEST_S) if self._known and job != "gang" else None
        return Request(
            id=f"{job}.{n}",
            job_id=job,
            slots=slots,
            requested=self.pool.now,
            preemptible=preemptible,
            expected_run_s=run_s,
        )

    def _add(self, name: str, requests: tuple[Request, ...]) -> None:
        jobs = {**self.pool.jobs, name: Job(id=name, submitted=self.pool.now)}
        self.pool = replace(self.pool, jobs=jobs, waiting=(*self.pool.waiting, *requests))


def waited_s(settings: SchedulerSettings, seed: int, *, slots: int, known: bool) -> float | None:
    """How long the gang waited; None if it still does after three times the longest it should."""
    flow = Flow(settings, seed=seed, slots=slots, known=known)
    while flow.pool.now < 3 * (RESERVE_AFTER_S + LONGEST_S):
        flow.tick()
        if flow.gang_allocations:
            return flow.pool.now - 1.0
    return None


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["known run times", "unknown run times"])
@pytest.mark.parametrize("slots", [4, 8, 16])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_waits_no_longer_than_the_guard_and_the_longest_task(
    policy: str, slots: int, known: bool
) -> None:
    settings = POLICIES[policy].model_copy(
        update={"reserve_after": timedelta(seconds=RESERVE_AFTER_S)}
    )
    for seed in range(4):
        waited = waited_s(settings, seed, slots=slots, known=known)
        assert waited is not None, f"seed {seed}: it starves"
        assert waited <= RESERVE_AFTER_S + LONGEST_S + 2 * TICK_S, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != NEEDS_NO_GUARD])
def test_without_the_guard_it_starves(policy: str) -> None:
    """Or the test above would show nothing."""
    settings = POLICIES[policy].model_copy(update={"reserve_after": None})
    waits = [waited_s(settings, seed, slots=16, known=True) for seed in range(4)]
    assert waits == [None] * 4


def test_priority_with_preemption_needs_no_guard() -> None:
    """What cannot be preempted does not pass the gang, and fills no more of its agents."""
    settings = POLICIES[NEEDS_NO_GUARD].model_copy(update={"reserve_after": None})
    for seed in range(4):
        waited = waited_s(settings, seed, slots=16, known=True)
        assert waited is not None
        assert waited <= LONGEST_S + 2 * TICK_S


def test_known_run_times_keep_reserved_slots_in_use() -> None:
    """While agents empty for the gang, what is gone in time runs on them."""

    def used_while_reserved(*, known: bool) -> float:
        settings = POLICIES["round_robin"].model_copy(
            update={"reserve_after": timedelta(seconds=RESERVE_AFTER_S)}
        )
        parts = []
        for seed in range(6):
            flow = Flow(settings, seed=seed, slots=16, known=known)
            while not flow.gang_allocations:
                flow.tick()
            parts += flow.utilisation[int(RESERVE_AFTER_S / TICK_S) :]
        return sum(parts) / len(parts)

    assert used_while_reserved(known=True) > used_while_reserved(known=False)
