"""Pools for the benchmark of `decide()`: still ones in typical states, and one that lives through a busy day."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from master.core.scheduler.types import (
    AgentState,
    Decision,
    Job,
    Launchable,
    PoolState,
    Request,
    Running,
    SchedulerSettings,
)

NOW = 1e6
AGENTS = 1_000
SLOTS = 8
JOBS = 100
GANGS = (1, 2, 4, 8, 16)
RUN_S = 7_200.0

VARIANTS = {
    "fair_share": SchedulerSettings(type="fair_share"),
    "priority": SchedulerSettings(type="priority"),
    "priority, preempt": SchedulerSettings(type="priority", preemption=True),
    "round_robin": SchedulerSettings(type="round_robin"),
}


def agents() -> tuple[AgentState, ...]:
    return tuple(AgentState(id=f"agent-{i:04d}", slots=SLOTS) for i in range(AGENTS))


def jobs(count: int) -> dict[str, Job]:
    """The first is the oldest and the least important, so that every policy takes from it if it may."""
    return {
        f"job-{i:05d}": Job(
            id=f"job-{i:05d}", submitted=float(i), priority=99 if i == 0 else 1 + i * 37 % 98
        )
        for i in range(count)
    }


def waiting(
    count: int, job_ids: list[str], gangs: tuple[int, ...] = (1,), *, run_s: float | None = None
) -> tuple[Request, ...]:
    """They all came within the last minutes: none of them starves."""
    return tuple(
        Request(
            id=f"wait-{i:06d}",
            job_id=job_ids[i % len(job_ids)],
            slots=gangs[i // len(job_ids) % len(gangs)],
            requested=NOW - 600.0 + i * 600.0 / count,
            expected_run_s=run_s,
        )
        for i in range(count)
    )


def running(job_ids: list[str], *, run_s: float | None = None) -> tuple[Running, ...]:
    """90 % of the slots, one by one, spread over all agents."""
    return tuple(
        Running(
            request=Request(
                id=f"run-{i:05d}", job_id=job_ids[i % len(job_ids)], slots=1, requested=0.0
            ),
            placement={f"agent-{i % AGENTS:04d}": 1},
            started=NOW - i,
            expected_end=None if run_s is None else NOW - i + run_s,
        )
        for i in range(AGENTS * SLOTS * 9 // 10)
    )


def states(settings: SchedulerSettings, requests: int) -> Iterator[tuple[str, PoolState]]:
    """The states that the benchmark names, with so many waiting requests."""
    account, many = jobs(JOBS), jobs(requests)
    ids = list(account)
    pool = PoolState(now=NOW, settings=settings, agents=agents(), jobs=account)
    ones, mixed = waiting(requests, ids), waiting(requests, ids, GANGS)
    launch = Launchable(slots_per_agent=SLOTS, count=AGENTS, ready_in_s=120.0)
    yield "empty", replace(pool, waiting=ones)
    yield "full", replace(pool, waiting=ones, running=running(ids))
    yield "contended", replace(pool, waiting=ones, running=running(ids[:1]))
    yield "gangs, empty", replace(pool, waiting=mixed)
    yield "gangs, contended", replace(pool, waiting=mixed, running=running(ids[:1]))
    yield "jobs, empty", replace(pool, jobs=many, waiting=waiting(requests, list(many)))
    yield "elastic", replace(pool, waiting=ones, running=running(ids), launchable=(launch,))
    yield "starving", starving(pool, requests, ids)


def starving(pool: PoolState, requests: int, ids: list[str]) -> PoolState:
    """A fifth are gangs of two agents that have waited for hours, of jobs that have nothing; the rest would fill
    every hole."""
    half = len(ids) // 2
    fill = waiting(requests - requests // 5, ids, (1, 2), run_s=600.0)
    gangs = tuple(
        Request(
            id=f"gang-{i:06d}",
            job_id=ids[half + i % half],
            slots=2 * SLOTS,
            requested=NOW - 4 * 3_600.0 + i,
            preemptible=False,
            expected_run_s=RUN_S,
        )
        for i in range(requests // 5)
    )
    tasks = tuple(
        replace(one, request=replace(one.request, preemptible=False))
        for one in running(ids[:half], run_s=RUN_S)
    )
    return replace(pool, waiting=(*gangs, *fill), running=tasks)


class Day:
    """A busy day, from one seed. `advance` applies a decision and goes on by one tick.

    About 10,000 requests wait all the time; work runs for about two hours, saves about every half hour, and leaves
    within a tick when it is asked to. Every job has gangs of its own size.
    """

    TICK_S = 86_400.0 / 50

    def __init__(self, settings: SchedulerSettings, requests: int) -> None:
        self._random = random.Random(1)
        self._number = 0
        self._waiting_wanted = requests
        self._ends: dict[str, float] = {}
        self.state = PoolState(now=NOW, settings=settings, agents=agents(), jobs=jobs(JOBS))
        self._arrive()

    def advance(self, decision: Decision) -> None:
        before = self.state
        placements = {start.request_id: start.placement for start in decision.start}
        asked = {release.request_id for release in decision.release}
        begun = [
            Running(
                request=request,
                placement=placements[request.id],
                started=before.now,
                expected_end=before.now + RUN_S,
            )
            for request in before.waiting
            if request.id in placements
        ]
        for one in begun:
            length = self._random.expovariate(1 / RUN_S)
            self._ends[one.request.id] = before.now + max(300.0, length)
        now = before.now + self.TICK_S
        tasks = [one for one in (*before.running, *begun) if self._ends[one.request.id] > now]
        stay = [one for one in tasks if one.request.id not in asked]
        again = [one.request for one in tasks if one.request.id in asked]
        self.state = replace(
            before,
            now=now,
            running=tuple(self._saved(one, now) for one in stay),
            waiting=(*(r for r in before.waiting if r.id not in placements), *again),
        )
        self._arrive()

    def _saved(self, one: Running, now: float) -> Running:
        return replace(one, last_checkpoint=now - self._random.uniform(0, 1_800))

    def _arrive(self) -> None:
        state = self.state
        missing = self._waiting_wanted - len(state.waiting)
        ids = list(state.jobs)
        new: list[Request] = []
        for _ in range(missing):
            job = self._random.randrange(JOBS)
            self._number += 1
            new.append(
                Request(
                    id=f"day-{self._number:07d}",
                    job_id=ids[job],
                    slots=GANGS[job % len(GANGS)],
                    requested=state.now + self._number * 1e-6,
                    preemptible=job % 10 != 0,
                    expected_run_s=RUN_S,
                )
            )
        self.state = replace(state, waiting=(*state.waiting, *new))


def used_part(state: PoolState) -> float:
    """The part of the slots in use."""
    used = Counter[str]()
    for one in state.running:
        used.update(dict(one.placement))
    return sum(used.values()) / (AGENTS * SLOTS)
