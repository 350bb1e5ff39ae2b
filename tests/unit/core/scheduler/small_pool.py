"""Pools, jobs and requests in a few words, and what a decision says about them: for the tables of the policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from master.core.reasons import ReasonKind
from master.core.scheduler.types import (
    AgentState,
    Decision,
    Job,
    Launchable,
    Placement,
    PoolState,
    Request,
    Running,
    SchedulerSettings,
)

NOW = 1000.0
FAIR_SHARE = SchedulerSettings(type="fair_share")


def requests(
    job: str,
    count: int,
    slots: int = 1,
    *,
    first: int = 0,
    requested: float = 0.0,
    single: bool = False,
    preemptible: bool = True,
    blocked: Iterable[str] = (),
) -> list[Request]:
    return [
        Request(
            id=f"{job}.{i}",
            job_id=job,
            slots=slots,
            requested=requested,
            single_agent=single,
            preemptible=preemptible,
            blocked_agents=frozenset(blocked),
        )
        for i in range(first, first + count)
    ]


def running(request: Request, placement: Placement, **more: float | bool) -> Running:
    return Running(request=request, placement=placement, **{"started": 0.0, **more})  # type: ignore[arg-type]


def full_of(job: str, *agents: str, slots: int = 8, **more: bool) -> list[Running]:
    """Single-slot tasks on all slots, the later started the later named."""
    places = [agent for agent in agents for _ in range(slots)]
    tasks = requests(job, len(places), **more)  # type: ignore[arg-type]
    return [
        running(task, {agent: 1}, started=float(i))
        for i, (task, agent) in enumerate(zip(tasks, places, strict=True))
    ]


def agents(*sizes: int, **more: int | bool) -> tuple[AgentState, ...]:
    return tuple(AgentState(id=f"n{i}", slots=size, **more) for i, size in enumerate(sizes))  # type: ignore[arg-type]


def pool(
    jobs: Iterable[Job],
    waiting: Iterable[Request] = (),
    running: Iterable[Running] = (),
    on: tuple[AgentState, ...] = agents(8),
    launchable: Iterable[Launchable] = (),
    settings: SchedulerSettings = FAIR_SHARE,
) -> PoolState:
    return PoolState(
        now=NOW,
        settings=settings,
        agents=on,
        jobs={job.id: job for job in jobs},
        waiting=tuple(waiting),
        running=tuple(running),
        launchable=tuple(launchable),
    )


def job(job_id: str, submitted: float = 0.0, **more: object) -> Job:
    return Job(id=job_id, submitted=submitted, **more)  # type: ignore[arg-type]


def started(decision: Decision) -> Counter[str]:
    return Counter(start.request_id.split(".")[0] for start in decision.start)


def released(decision: Decision) -> set[str]:
    return {release.request_id for release in decision.release}


def text(decision: Decision, request_id: str) -> str:
    return decision.waiting[request_id].reason.text


def kind(decision: Decision, request_id: str) -> ReasonKind:
    return decision.waiting[request_id].reason.kind
