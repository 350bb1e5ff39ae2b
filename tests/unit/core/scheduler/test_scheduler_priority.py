"""priority on small pools, case by case: who is first, who may pass, who is asked to leave, and what is said."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from master.core.reasons import ReasonKind
from master.core.scheduler import decide
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
from tests.unit.core.scheduler.living_pool import apply, let_leave, take_away
from tests.unit.core.scheduler.small_pool import (
    NOW,
    agents,
    full_of,
    job,
    kind,
    pool,
    released,
    requests,
    running,
    started,
    text,
)

PLAIN = SchedulerSettings(type="priority")
PREEMPTS = SchedulerSettings(type="priority", preemption=True)

TOP, MIDDLE, LOW = job("top", 3.0, priority=1), job("mid", 2.0), job("low", 1.0, priority=99)
BOTH = pytest.mark.parametrize("settings", [PLAIN, PREEMPTS], ids=["plain", "preempts"])


def starts(decision: Decision) -> set[str]:
    return {start.request_id for start in decision.start}


def backfilled(decision: Decision) -> set[str]:
    return {start.request_id for start in decision.start if start.backfilled}


def add(state: PoolState, wanted: list[Request]) -> PoolState:
    return replace(state, waiting=(*state.waiting, *wanted))


def end(state: PoolState, job_id: str, count: int = 100) -> PoolState:
    gone = [one for one in state.running if one.request.job_id == job_id]
    return take_away(state, gone[:count], again=False)


def holding(state: PoolState) -> dict[str, int]:
    slots: dict[str, int] = {}
    for one in state.running:
        slots[one.request.job_id] = slots.get(one.request.job_id, 0) + one.request.slots
    return slots


def test_the_manuals_example_in_seven_steps() -> None:
    jobs = [
        job("two", 1.0, priority=2),
        job("one", 2.0, priority=1),
        job("three", 3.0, priority=3),
        job("big", 4.0, priority=1),
        job("filler", 5.0, priority=2),
    ]
    state = pool(jobs, requests("two", 20), settings=PREEMPTS)

    state = apply(state, decide(state))
    assert holding(state) == {"two": 8}

    state = add(state, requests("one", 1, 4))
    decision = decide(state)
    assert not decision.start
    assert len(decision.release) == 4
    assert {release.for_requests for release in decision.release} == {("one.0",)}
    state = let_leave(apply(state, decision))
    state = apply(state, decide(state))
    assert holding(state) == {"two": 4, "one": 4}

    state = add(state, requests("three", 1, preemptible=False))
    assert not decide(state).release
    for _ in range(17):
        state = end(state, "two", 1)
        decision = decide(state)
        state = apply(state, decision)
        assert ("three.0" in starts(decision)) == (
            holding(state).get("two", 0) == 3 and "three" in holding(state)
        )
        if "three.0" in starts(decision):
            break
    assert holding(state) == {"two": 3, "one": 4, "three": 1}

    state = end(end(state, "two"), "one")
    assert holding(state) == {"three": 1}

    state = add(state, requests("big", 1, 8))
    decision = decide(state)
    assert not decision.start
    assert not decision.release
    assert decision.waiting["big.0"].needs_capacity

    state = add(state, requests("filler", 1, 4))
    decision = decide(state)
    assert backfilled(decision) == {"filler.0"}
    state = apply(state, decision)

    state = end(state, "three")
    decision = decide(state)
    assert released(decision) == {"filler.0"}
    state = let_leave(apply(state, decision))
    state = apply(state, decide(state))
    assert holding(state) == {"big": 8}
    state = end(state, "big")
    decision = decide(state)
    assert starts(decision) == {"filler.0"}
    assert not backfilled(decision)


@BOTH
@pytest.mark.parametrize(
    ("jobs", "first"),
    [
        pytest.param([job("a", 1.0, priority=2), job("b", 2.0, priority=1)], "b", id="priority"),
        pytest.param([job("a", 1.0), job("b", 2.0)], "a", id="age"),
        pytest.param([job("a", 1.0, priority=43), job("b", 2.0)], "b", id="the default is 42"),
        pytest.param([job("a", 1.0), job("b", 2.0, position=Decimal("0.5"))], "b", id="moved up"),
        pytest.param([job("a", 1.0, position=Decimal(3)), job("b", 2.0)], "b", id="moved down"),
        pytest.param(
            [job("a", 1.0, position=Decimal(2)), job("b", 2.0)], "a", id="equal positions"
        ),
        pytest.param([job("a", 1.0), job("b", 1.0)], "a", id="equal age: the id"),
    ],
)
def test_who_is_first(settings: SchedulerSettings, jobs: list[Job], first: str) -> None:
    wanted = requests("a", 1, 8) + requests("b", 1, 8)
    assert started(decide(pool(jobs, wanted, settings=settings))) == {first: 1}


def test_the_pool_sets_the_default_priority() -> None:
    wanted = requests("mid", 1, 8) + requests("other", 1, 8)
    jobs = [MIDDLE, job("other", 9.0, priority=42)]
    state = pool(jobs, wanted, settings=SchedulerSettings(type="priority", default_priority=50))
    assert started(decide(state)) == {"other": 1}


def test_requests_of_one_job_are_served_by_age() -> None:
    late, early = requests("mid", 1, 8), requests("mid", 1, 8, first=1, requested=-5.0)
    assert starts(decide(pool([MIDDLE], late + early, settings=PLAIN))) == {"mid.1"}


@BOTH
def test_an_impossible_request_says_so_and_blocks_nobody(settings: SchedulerSettings) -> None:
    wanted = requests("top", 1, 64) + requests("mid", 8, preemptible=False)
    decision = decide(pool([TOP, MIDDLE], wanted, settings=settings))
    assert started(decision) == {"mid": 8}
    assert not backfilled(decision)
    assert kind(decision, "top.0") is ReasonKind.NO_SUCH_AGENT


@BOTH
def test_max_slots_holds_says_so_and_blocks_nobody(settings: SchedulerSettings) -> None:
    capped = replace(TOP, max_slots=3)
    wanted = requests("top", 5) + requests("top", 1, 4, first=5) + requests("low", 5)
    decision = decide(pool([capped, LOW], wanted, settings=settings))
    assert started(decision) == {"top": 3, "low": 5}
    assert text(decision, "top.3") == "max_slots limit reached (3 of 3 slots)"
    assert text(decision, "top.5").startswith("Requested 4 slots; the job's max_slots is 3")
    assert not any(answer.needs_capacity for answer in decision.waiting.values())


def test_no_more_is_demand_than_max_slots_allows() -> None:
    capped = replace(MIDDLE, max_slots=2)
    decision = decide(pool([capped, TOP], requests("mid", 4), full_of("top", "n0"), settings=PLAIN))
    assert [decision.waiting[f"mid.{i}"].needs_capacity for i in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    assert (
        text(decision, "mid.2")
        == "max_slots limit reached (0 of 2 slots); 2 more requested before it"
    )


def test_without_preemption_nothing_is_released() -> None:
    decision = decide(pool([TOP, LOW], requests("top", 1, 4), full_of("low", "n0"), settings=PLAIN))
    assert not decision.release
    assert text(decision, "top.0") == (
        "queued: needs 4 slots; 0 of 8 slots are free for it, and the rest is in use"
    )
    assert decision.waiting["top.0"].needs_capacity


def test_without_preemption_lower_priorities_wait_behind_what_cannot_be_placed() -> None:
    wanted = requests("top", 1, 8) + requests("mid", 2)
    decision = decide(
        pool([TOP, MIDDLE, LOW], wanted, full_of("low", "n0", slots=4), settings=PLAIN)
    )
    assert not decision.start
    assert text(decision, "mid.0") == (
        "queued behind 1 request of higher priority; free slots are kept for those before it"
    )
    assert text(decision, "mid.1") == (
        "queued behind 1 request of higher priority and 1 of its own; "
        "free slots are kept for those before it"
    )
    assert decision.waiting["mid.0"].needs_capacity


def test_without_preemption_equals_may_pass() -> None:
    jobs = [job("old", 1.0), MIDDLE, LOW]
    wanted = requests("old", 1, 8) + requests("mid", 2)
    decision = decide(pool(jobs, wanted, full_of("low", "n0", slots=4), settings=PLAIN))
    assert starts(decision) == backfilled(decision) == {"mid.0", "mid.1"}


@pytest.mark.parametrize(
    ("first", "on", "expected"),
    [
        pytest.param(requests("top", 1, 8, single=True), agents(8, 4), {"n1"}, id="too small"),
        pytest.param(requests("top", 1, 8, blocked=["n1"]), agents(8, 4), {"n1"}, id="blocked"),
        pytest.param(requests("top", 1, 8), agents(8, 4), {"n1"}, id="too few of that size"),
        pytest.param(requests("top", 1, 8), agents(8, 4, 4, 4), {"n0"}, id="whole agents"),
        pytest.param(requests("top", 1, 8), agents(8, 3), {"n1"}, id="not a divisor"),
    ],
)
@BOTH
def test_lower_priorities_start_where_they_cannot_be_in_the_way(
    settings: SchedulerSettings,
    first: list[Request],
    on: tuple[AgentState, ...],
    expected: set[str],
) -> None:
    """The agents that the first could use each have one slot that nobody can take from its holder."""
    if expected == {"n0"}:
        first = [replace(one, blocked_agents=frozenset({"n0"})) for one in first]
    busy = [
        running(request, {agent.id: 1})
        for request, agent in zip(requests("stay", 4, preemptible=False), on, strict=False)
        if agent.id not in expected
    ]
    wanted = first + requests("low", 30, preemptible=False)
    state = pool([TOP, LOW, job("stay", 0.0, priority=50)], wanted, busy, on, settings=settings)
    decision = decide(state)
    assert {agent for start in decision.start for agent in start.placement} == expected
    sizes = {agent.id: agent.slots for agent in on}
    assert started(decision) == {"low": sum(sizes[agent] for agent in expected)}
    assert backfilled(decision) == starts(decision)


def test_with_preemption_only_what_can_be_taken_back_passes() -> None:
    stays = running(requests("stay", 1, preemptible=False)[0], {"n0": 1})
    wanted = requests("top", 1, 8) + requests("mid", 2, preemptible=False) + requests("low", 3)
    jobs = [TOP, MIDDLE, LOW, job("stay", 0.0)]
    decision = decide(pool(jobs, wanted, [stays], settings=PREEMPTS))
    assert starts(decision) == backfilled(decision) == {"low.0", "low.1", "low.2"}
    assert not decision.release
    assert "kept for those before it" in text(decision, "mid.0")


def test_the_last_in_the_queue_loses_first() -> None:
    """Not the cheapest of all: what is taken from the middle would ask those behind it in turn."""
    jobs = [TOP, job("a", 1.0), job("b", 2.0), job("c", 0.0, priority=43)]
    tasks = [
        running(requests("a", 1, 4)[0], {"n0": 4}, started=NOW),
        running(requests("b", 1, 2)[0], {"n0": 2}),
        running(requests("c", 1, 2)[0], {"n0": 2}),
    ]
    for slots, expected in (
        (1, {"c.0"}),
        (2, {"c.0"}),
        (3, {"b.0", "c.0"}),
        (8, {"a.0", "b.0", "c.0"}),
    ):
        decision = decide(pool(jobs, requests("top", 1, slots), tasks, settings=PREEMPTS))
        assert released(decision) == expected


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        pytest.param(full_of("low", "n0"), {"low.7"}, id="the latest started"),
        pytest.param(
            [replace(one, started=0.0) for one in full_of("low", "n0")],
            {"low.7"},
            id="the last named",
        ),
        pytest.param(
            [
                replace(one, last_checkpoint=NOW if i == 2 else None)
                for i, one in enumerate(full_of("low", "n0"))
            ],
            {"low.2"},
            id="the latest saved",
        ),
    ],
)
def test_of_one_job_what_loses_least_goes(tasks: list[Running], expected: set[str]) -> None:
    decision = decide(pool([TOP, LOW], requests("top", 1), tasks, settings=PREEMPTS))
    assert released(decision) == expected
    (release,) = decision.release
    assert release.why == "a request of priority 1 needs its slots: top.0"
    (victim,) = expected
    assert text(decision, "top.0") == f"Waiting for {victim} to be preempted (1 slot needed)"
    assert decision.waiting["top.0"].victims == (victim,)
    assert not decision.waiting["top.0"].needs_capacity


def test_no_more_leave_than_are_needed() -> None:
    """The small ones would go first, but the large one is needed, and alone enough."""
    tasks = [
        running(requests("low", 1, 6)[0], {"n0": 6}),
        running(requests("low", 1, 2, first=1)[0], {"n0": 2}, started=NOW),
    ]
    decision = decide(pool([TOP, LOW], requests("top", 1, 5), tasks, settings=PREEMPTS))
    assert released(decision) == {"low.0"}


def test_at_equal_priority_only_who_is_behind_is_asked() -> None:
    jobs = [job("a", 1.0), job("b", 2.0), job("c", 3.0)]
    tasks = full_of("a", "n0", slots=4) + [
        replace(one, request=replace(one.request, id=f"c.{i}", job_id="c"))
        for i, one in enumerate(full_of("c", "n0", slots=4))
    ]
    decision = decide(pool(jobs, requests("b", 1, 4), tasks, settings=PREEMPTS))
    assert released(decision) == {"c.0", "c.1", "c.2", "c.3"}
    assert decision.release[0].why == (
        "a request of priority 42, ahead of it in the queue, needs its slots: b.0"
    )
    decision = decide(pool(jobs, requests("b", 1, 5), tasks, settings=PREEMPTS))
    assert not decision.release


def test_nothing_is_released_in_vain() -> None:
    stays = running(requests("stay", 1, preemptible=False)[0], {"n0": 1})
    jobs = [TOP, LOW, job("stay", 0.0, priority=99)]
    tasks = [*full_of("low", "n0", slots=7), stays]
    decision = decide(pool(jobs, requests("top", 1, 8), tasks, settings=PREEMPTS))
    assert not decision.release
    assert text(decision, "top.0") == (
        "queued: needs 8 slots; 0 of 8 slots are free for it, and the rest cannot be asked to leave"
    )


def test_whole_agents_are_cleared_where_that_costs_least() -> None:
    tasks = [
        *full_of("low", "n0", "n1", "n2"),
        running(requests("mid", 1)[0], {"n3": 1}),
    ]
    state = pool(
        [TOP, MIDDLE, LOW], requests("top", 1, 16), tasks, agents(8, 8, 8, 8), settings=PREEMPTS
    )
    assert released(decide(state)) == {f"low.{i}" for i in range(8, 24)}


def test_nothing_starts_in_the_hole_that_is_being_made() -> None:
    """The four that are free, and those that come back, are for the first."""
    wanted = requests("top", 1, 8) + requests("mid", 2) + requests("mid", 1, 6, first=2)
    state = pool(
        [TOP, MIDDLE, LOW], wanted, full_of("low", "n0", slots=4), agents(8), settings=PREEMPTS
    )
    decision = decide(state)
    assert not decision.start
    assert len(decision.release) == 4
    state = apply(state, decision)
    assert not decide(state).start
    assert not decide(state).release
    one_left = [one for one in state.running if one.releasing][:1]
    assert not decide(take_away(state, one_left, again=True)).start


def test_a_small_request_waits_for_its_own_slots_rather_than_take_a_large_ones() -> None:
    """Both have one priority. The slot for the first comes back later than some of those for the second."""
    jobs = [job("a", 1.0), job("b", 2.0), LOW]
    gang = [
        replace(one, request=replace(one.request, id=f"low.big{i}"))
        for i, one in enumerate(full_of("low", "n1"))
    ]
    alone = running(requests("low", 1, 4)[0], {"n0": 1}, started=NOW)
    small = requests("a", 1)
    state = pool(
        jobs,
        small + requests("b", 1, 8),
        [replace(alone, request=replace(alone.request, slots=1)), *gang],
        (AgentState(id="n0", slots=1), AgentState(id="n1", slots=8)),
        settings=PREEMPTS,
    )
    decision = decide(state)
    assert len(decision.release) == 9
    state = apply(state, decision)
    while gone := [one for one in state.running if one.releasing and "n1" in one.placement]:
        state = take_away(state, gone[:1], again=True)
        decision = decide(state)
        assert not decision.release
        state = apply(state, decision)
    assert holding(state)["b"] == 8
    state = take_away(state, [one for one in state.running if one.releasing], again=True)
    assert starts(decide(state)) == {"a.0"}


@pytest.mark.parametrize(
    ("settings", "second", "expected"),
    [
        pytest.param(PREEMPTS, LOW, "top.0", id="not for a lower priority"),
        pytest.param(PLAIN, job("even", 5.0, priority=1), "top.0", id="not without preemption"),
        pytest.param(PREEMPTS, job("even", 5.0, priority=1), "even.0", id="for its own priority"),
    ],
)
def test_who_waits_so_that_another_is_complete(
    settings: SchedulerSettings, second: Job, expected: str
) -> None:
    """The first needs one slot: the free agent has it, the other agent gets it back. The second needs all of one."""
    leaving = running(requests("gone", 1)[0], {"n0": 1}, releasing=True)
    state = pool(
        [TOP, second],
        requests("top", 1) + requests(second.id, 1, 8),
        [leaving],
        (AgentState(id="n0", slots=1), AgentState(id="n1", slots=8)),
        settings=settings,
    )
    assert starts(decide(state)) == {expected}


@pytest.mark.parametrize(
    ("offer", "releases"),
    [
        pytest.param(Launchable(slots_per_agent=8, count=1, ready_in_s=60.0), 0, id="in time"),
        pytest.param(Launchable(slots_per_agent=8, count=1, ready_in_s=900.0), 4, id="too late"),
        pytest.param(Launchable(slots_per_agent=2, count=9, ready_in_s=60.0), 4, id="too small"),
    ],
)
def test_nothing_is_released_for_what_a_launch_serves(offer: Launchable, releases: int) -> None:
    decision = decide(
        pool(
            [TOP, LOW],
            requests("top", 1, 4, single=True),
            full_of("low", "n0"),
            launchable=[offer],
            settings=PREEMPTS,
        )
    )
    assert len(decision.release) == releases
    assert decision.waiting["top.0"].needs_capacity == (releases == 0)


def test_slots_that_come_back_anyhow_are_not_asked_for_again() -> None:
    tasks = [replace(one, releasing=i < 4) for i, one in enumerate(full_of("low", "n0"))]
    decision = decide(pool([TOP, LOW], requests("top", 1, 4), tasks, settings=PREEMPTS))
    assert not decision.release
    assert decision.waiting["top.0"].victims == ("low.0", "low.1", "low.2", "low.3")


def test_slots_that_go_out_of_service_help_nobody() -> None:
    """The latest would go first, but its slot does not come back."""
    tasks = full_of("low", "n0")
    tasks[7] = replace(tasks[7], closing={"n0": 1})
    decision = decide(pool([TOP, LOW], requests("top", 1), tasks, settings=PREEMPTS))
    assert released(decision) == {"low.6"}
    decision = decide(pool([TOP, LOW], requests("top", 1, 8), tasks, settings=PREEMPTS))
    assert not decision.release
    assert text(decision, "top.0") == "needs 8 slots, and all agents together have 7"


def test_leaving_work_does_not_give_back_what_goes_out_of_service() -> None:
    gang = running(requests("low", 1, 8)[0], {"n0": 8}, releasing=True, closing={"n0": 3})  # type: ignore[arg-type]
    wanted = requests("top", 1, 4) + requests("top", 1, 2, first=1)
    decision = decide(pool([TOP, LOW], wanted, [gang], settings=PREEMPTS))
    assert decision.waiting["top.0"].victims == ("low.0",)
    assert decision.waiting["top.1"].needs_capacity


def test_zero_slot_tasks_come_in_the_order_of_the_queue() -> None:
    wanted = requests("low", 2, 0) + requests("top", 2, 0) + requests("mid", 2, 0)
    on = agents(8, aux_places=3)
    decision = decide(pool([TOP, MIDDLE, LOW], wanted, full_of("low", "n0"), on, settings=PREEMPTS))
    assert starts(decision) == {"top.0", "top.1", "mid.0"}
    assert not decision.release


def test_a_job_that_nobody_introduced_has_the_default_priority() -> None:
    wanted = requests("ghost", 1, 8, requested=5.0)
    assert starts(decide(pool([], wanted, settings=PREEMPTS))) == {"ghost.0"}
    both = wanted + requests("low", 1, 8)
    assert starts(decide(pool([LOW], both, settings=PREEMPTS))) == {"ghost.0"}
