"""Who may ask a batch system for a job, and who has all agents of its job."""

from __future__ import annotations

from dataclasses import replace

from master.core.reasons import ReasonKind
from master.core.scheduler.policies.dispatch import decide_dispatch
from master.core.scheduler.types import (
    AgentState,
    Job,
    Launchable,
    PoolState,
    Request,
    SchedulerSettings,
)


def pool(*requests: Request, **settings: object) -> PoolState:
    jobs = {request.job_id: Job(id=request.job_id, submitted=0.0) for request in requests}
    state = PoolState(now=0.0, settings=SchedulerSettings(), jobs=jobs, waiting=requests)
    return replace(state, **settings)  # type: ignore[arg-type]


def request(number: int, slots: int = 4, job: str = "j") -> Request:
    return Request(id=f"r{number}", job_id=job, slots=slots, requested=float(number))


def agents(*names: str, slots: int = 2) -> tuple[AgentState, ...]:
    return tuple(AgentState(id=name, slots=slots) for name in names)


def test_it_starts_when_all_agents_of_its_job_are_there() -> None:
    leases = {"r1": ("a", "b")}
    some = pool(request(1), leases=leases, agents=agents("a"))
    assert decide_dispatch(some).start == ()
    assert decide_dispatch(some).waiting["r1"].needs_capacity
    (start,) = decide_dispatch(replace(some, agents=agents("a", "b"))).start
    assert (start.request_id, start.placement) == ("r1", {"a": 2, "b": 2})


def test_agents_of_others_are_of_no_use() -> None:
    state = pool(request(1), request(2), leases={"r1": ("a", "b")}, agents=agents("a", "b", "c"))
    decision = decide_dispatch(state)
    assert [start.request_id for start in decision.start] == ["r1"]
    assert set(decision.waiting) == {"r2"}


def test_agents_with_too_few_slots_start_nothing() -> None:
    state = pool(request(1), leases={"r1": ("a", "b")}, agents=agents("a", "b", slots=1))
    assert decide_dispatch(state).start == ()


def test_work_without_slots_has_an_agent_of_its_own() -> None:
    state = pool(request(1, slots=0), leases={"r1": ("a",)}, agents=agents("a", slots=0))
    (start,) = decide_dispatch(state).start
    assert start.placement == {"a": 0}


def test_max_slots_bounds_what_is_asked_for() -> None:
    state = pool(request(1), request(2), request(3))
    limited = replace(state, jobs={"j": Job(id="j", submitted=0.0, max_slots=8)})
    decision = decide_dispatch(limited)
    assert [decision.waiting[f"r{n}"].needs_capacity for n in (1, 2, 3)] == [True, True, False]
    assert decision.waiting["r3"].reason.kind is ReasonKind.SHARE_USED


def test_free_nodes_at_the_site_are_a_prospect() -> None:
    free = (Launchable(slots_per_agent=4, count=1, ready_in_s=5.0),)
    decision = decide_dispatch(pool(request(1), request(2, slots=8), launchable=free))
    assert decision.waiting["r1"].reason.kind is ReasonKind.NEEDS_CAPACITY
    assert decision.waiting["r2"].reason.kind is ReasonKind.QUEUED
