"""fair_share on small pools, case by case: who starts, who is asked to leave, and what the others are told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from master.core.scheduler import decide
from master.core.scheduler.types import (
    AgentState,
    Launchable,
    PoolState,
    Request,
)
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

A, B, C = job("a", 1.0), job("b", 2.0), job("c", 3.0)


@pytest.mark.parametrize(("weight", "expected"), [(1.0, (2, 6)), (3.0, (4, 4))])
def test_the_documented_example(weight: float, expected: tuple[int, int]) -> None:
    wanted = requests("a", 10) + requests("b", 30)
    decision = decide(pool([job("a", 1.0, weight=weight), B], wanted))
    assert (started(decision)["a"], started(decision)["b"]) == expected
    assert kind(decision, "b.9") is ReasonKind.SHARE_USED
    assert text(decision, "b.9") == (
        f"Fair-share limit reached ({expected[1]} of {expected[1]} slots; the pool has 8)"
    )


def test_a_newcomer_on_a_full_pool_gets_its_share_from_the_latest_started() -> None:
    decision = decide(pool([A, B], requests("b", 8), full_of("a", "n0")))
    assert released(decision) == {"a.4", "a.5", "a.6", "a.7"}
    assert not decision.start
    for one in decision.release:
        (waits,) = one.for_requests
        answer = decision.waiting[waits]
        assert answer.victims == (one.request_id,)
        assert answer.reason.kind is ReasonKind.NEEDS_RELEASE
        assert not answer.needs_capacity
        assert one.request_id in answer.reason.text
    left = [i for i, answer in decision.waiting.items() if not answer.victims]
    assert {text(decision, i) for i in left} == {
        "queued: 8 of 8 slots are in use by other jobs at their fair share"
    }


def test_work_saved_last_loses_least() -> None:
    tasks = full_of("a", "n0")
    tasks[2] = replace(tasks[2], last_checkpoint=NOW)
    decision = decide(pool([A, B], requests("b", 1), tasks))
    assert released(decision) == {"a.2"}


def test_slots_that_come_back_anyhow_are_not_asked_for_again() -> None:
    tasks = [replace(one, releasing=i < 4) for i, one in enumerate(full_of("a", "n0"))]
    decision = decide(pool([A, B], requests("b", 8), tasks))
    assert not decision.release
    assert decision.waiting["b.0"].victims == ("a.0",)
    assert decision.waiting["b.4"].needs_capacity


def test_nothing_is_released_in_vain() -> None:
    """The notebook in the middle stays, so no eight slots can come together."""
    notebook = requests("c", 1, preemptible=False)[0]
    tasks = [*full_of("a", "n0", slots=7), running(notebook, {"n0": 1})]
    decision = decide(pool([A, B, C], requests("b", 1, 8), tasks))
    assert not decision.release
    assert decision.waiting["b.0"].needs_capacity
    assert text(decision, "b.0") == (
        "queued: 8 of 8 slots are in use by other jobs at their fair share"
    )


def test_victims_are_chosen_on_one_agent_when_a_gang_needs_it() -> None:
    """Job a may lose 8 of 16; the latest started are spread, but the gang needs one agent."""
    tasks = requests("a", 16)
    spread = [running(t, {f"n{i % 2}": 1}, started=float(i)) for i, t in enumerate(tasks)]
    gang = requests("b", 1, 8, single=True)
    decision = decide(pool([A, B], gang, spread, on=agents(8, 8)))
    assert released(decision) == {f"a.{i}" for i in range(1, 16, 2)}
    assert decision.waiting["b.0"].victims == tuple(sorted(released(decision)))


def test_a_gang_over_several_agents_starts_whole() -> None:
    decision = decide(pool([A], requests("a", 1, 16), on=agents(8, 8, 4)))
    assert [dict(start.placement) for start in decision.start] == [{"n0": 8, "n1": 8}]


def test_whole_agents_are_cleared_for_a_gang() -> None:
    tasks = full_of("a", "n0", "n1")
    decision = decide(pool([job("b", 0.5), A], requests("b", 1, 16), tasks, on=agents(8, 8)))
    assert len(released(decision)) == 16


def test_two_gangs_that_cannot_run_together_take_turns_by_age() -> None:
    wanted = requests("a", 1, 8) + requests("b", 1, 8)
    state = pool([A, B], wanted)
    first = decide(state)
    assert started(first) == {"a": 1}
    later = replace(state, waiting=tuple(requests("b", 1, 8)))
    assert started(decide(later)) == {"b": 1}


def test_a_gang_above_its_share_is_lifted_and_the_others_shrink() -> None:
    decision = decide(
        pool(
            [A, B],
            requests("b", 1, 8) + requests("a", 50, first=16),
            full_of("a", "n0", "n1"),
            agents(8, 8),
        )
    )
    assert len(released(decision)) == 8
    assert decision.waiting["b.0"].victims


def test_leftovers_go_beyond_shares_but_not_beyond_max_slots() -> None:
    """Job b cannot use n1, so job a gets more than its half there."""
    wanted = requests("a", 20) + requests("b", 20, blocked=["n1"])
    decision = decide(pool([A, B], wanted, on=agents(8, 8)))
    assert sum(started(decision).values()) == 16
    capped = decide(pool([job("a", 1.0, max_slots=3), B], wanted, on=agents(8, 8)))
    assert started(capped) == {"a": 3, "b": 8}
    assert kind(capped, "a.7") is ReasonKind.SHARE_USED
    assert text(capped, "a.7") == "max_slots limit reached (3 of 3 slots)"
    assert not capped.waiting["a.7"].needs_capacity


def test_a_request_above_max_slots_says_so() -> None:
    decision = decide(pool([job("a", max_slots=4)], requests("a", 1, 8)))
    assert text(decision, "a.0") == (
        "Requested 8 slots; the job's max_slots is 4: raise max_slots to run it"
    )
    assert not decision.waiting["a.0"].needs_capacity


def test_leaving_work_still_counts_for_max_slots() -> None:
    tasks = [running(t, {"n0": 1}, releasing=True) for t in requests("a", 4)]
    decision = decide(pool([job("a", max_slots=4)], requests("a", 1, first=4), tasks))
    assert text(decision, "a.4") == "max_slots limit reached (4 of 4 slots)"


@pytest.mark.parametrize(
    ("offer", "releases"),
    [
        pytest.param(Launchable(slots_per_agent=8, count=1, ready_in_s=120.0), 0, id="in time"),
        pytest.param(Launchable(slots_per_agent=8, count=1, ready_in_s=900.0), 4, id="too late"),
        pytest.param(Launchable(slots_per_agent=8, count=0, ready_in_s=1.0), 4, id="none left"),
        pytest.param(
            Launchable(slots_per_agent=8, count=1, ready_in_s=30.0, booting=True), 0, id="booting"
        ),
        pytest.param(Launchable(slots_per_agent=2, count=1, ready_in_s=30.0), 3, id="not enough"),
    ],
)
def test_nothing_is_released_for_what_a_launch_serves(offer: Launchable, releases: int) -> None:
    decision = decide(pool([A, B], requests("b", 8), full_of("a", "n0"), launchable=[offer]))
    assert len(decision.release) == releases
    if releases == 0:
        assert all(answer.needs_capacity for answer in decision.waiting.values())
        assert kind(decision, "b.0") is ReasonKind.NEEDS_CAPACITY


def test_capacity_of_the_wrong_shape_keeps_no_gang_waiting() -> None:
    small = Launchable(slots_per_agent=4, count=10, ready_in_s=30.0)
    gang = requests("b", 1, 8, single=True)
    decision = decide(
        pool(
            [job("b", 0.5), A],
            gang + requests("a", 8, first=8),
            full_of("a", "n0"),
            launchable=[small],
        )
    )
    assert len(released(decision)) == 8
    assert decision.waiting["a.8"].needs_capacity


def test_all_that_waits_in_an_empty_elastic_pool_is_demand() -> None:
    offer = Launchable(slots_per_agent=8, count=4, ready_in_s=60.0)
    decision = decide(pool([A], requests("a", 20), on=(), launchable=[offer]))
    assert len(decision.waiting) == 20
    assert all(answer.needs_capacity for answer in decision.waiting.values())
    assert text(decision, "a.0") == (
        "needs 1 slot, not free now; agents can be launched, ready in about 60 s"
    )


@pytest.mark.parametrize(
    ("wanted", "on", "expected"),
    [
        pytest.param(
            requests("a", 1, 16, single=True),
            agents(8, 8),
            "needs 16 slots on one agent, and the largest has 8",
            id="single agent",
        ),
        pytest.param(
            requests("a", 1, 32),
            agents(8, 8),
            "needs 32 slots, and all agents together have 16",
            id="too many",
        ),
        pytest.param(
            requests("a", 1, 12),
            agents(8, 8),
            "needs 12 slots: no number of whole agents (with 8 slots) makes exactly that",
            id="no sum",
        ),
        pytest.param(
            requests("a", 1),
            (),
            "needs 1 slot, and no agent that can take work is connected",
            id="none",
        ),
        pytest.param(
            requests("a", 1, blocked=["n0"]),
            agents(8),
            "needs 1 slot, and it must not use any of the connected agents",
            id="blocked",
        ),
    ],
)
def test_a_shape_that_no_agent_has(
    wanted: list[Request], on: tuple[AgentState, ...], expected: str
) -> None:
    decision = decide(pool([A], wanted, on=on))
    assert kind(decision, "a.0") is ReasonKind.NO_SUCH_AGENT
    assert text(decision, "a.0") == expected
    assert decision.waiting["a.0"].needs_capacity


def test_hopeless_work_takes_no_share() -> None:
    decision = decide(pool([A, B], requests("a", 9, 64) + requests("b", 8)))
    assert started(decision) == {"b": 8}


def test_a_draining_agent_gets_nothing_and_its_work_still_counts() -> None:
    """16 slots are shared, 8 of them held by a on the draining agent: all of n1 is b's."""
    on = (replace(agents(8)[0], schedulable=False), AgentState(id="n1", slots=8))
    wanted = requests("a", 8, first=8) + requests("b", 16)
    decision = decide(pool([A, B], wanted, full_of("a", "n0"), on=on))
    assert started(decision) == {"b": 8}
    assert {agent for start in decision.start for agent in start.placement} == {"n1"}
    assert not decision.release


def test_notebooks_keep_their_slots() -> None:
    tasks = full_of("a", "n0", preemptible=False)
    decision = decide(pool([A, B], requests("b", 4), tasks))
    assert not decision.release
    assert decision.waiting["b.0"].needs_capacity


def test_a_job_nobody_introduced_is_still_served() -> None:
    decision = decide(pool([], requests("ghost", 2)))
    assert started(decision) == {"ghost": 2}


class TestZeroSlots:
    def test_first_in_first_out_and_counted_together(self) -> None:
        wanted = [
            replace(one, requested=10.0 - i) for i, one in enumerate(requests("a", 5, slots=0))
        ]
        decision = decide(pool([A], wanted, on=agents(8, aux_places=3)))
        assert [start.request_id for start in decision.start] == ["a.4", "a.3", "a.2"]
        assert {dict(start.placement)["n0"] for start in decision.start} == {0}
        assert text(decision, "a.0") == (
            "all places for zero-slot tasks on the agents it may use are taken"
        )
        assert decision.waiting["a.0"].needs_capacity

    def test_they_run_where_all_slots_are_taken_rather_than_on_an_idle_agent(self) -> None:
        decision = decide(
            pool([A, B], requests("b", 1, slots=0), full_of("a", "n1"), on=agents(8, 8))
        )
        assert dict(decision.start[0].placement) == {"n1": 0}

    def test_a_place_that_comes_back_is_no_demand(self) -> None:
        leaving = [running(requests("b", 1, slots=0)[0], {"n0": 0}, releasing=True)]
        wanted = requests("a", 2, slots=0)
        decision = decide(pool([A, B], wanted, leaving, on=agents(8, aux_places=1)))
        assert [decision.waiting[f"a.{i}"].needs_capacity for i in (0, 1)] == [False, True]

    def test_blocked_agents_are_passed_over(self) -> None:
        wanted = requests("a", 1, slots=0, blocked=["n0"]) + requests("b", 1, slots=0)
        decision = decide(pool([A, B], wanted, on=agents(8, 8, aux_places=1)))
        assert {s.request_id: [*s.placement] for s in decision.start} == {
            "a.0": ["n1"],
            "b.0": ["n0"],
        }


def test_a_small_claim_does_not_take_what_a_large_one_waits_to_complete() -> None:
    """Four slots of n0 are free, four come back: they are b's. A newcomer waits, though it is within its share."""
    leaving = [replace(one, releasing=True) for one in full_of("a", "n0", slots=4)]
    wanted = requests("b", 1, 8, single=True) + requests("c", 2)
    decision = decide(pool([A, B, C], wanted, [*leaving, *full_of("d", "n1")], on=agents(8, 8)))
    assert decision.waiting["b.0"].victims == ("a.0", "a.1", "a.2", "a.3")
    assert {dict(start.placement).get("n0") for start in decision.start} <= {None}
    assert released(decision) == {"d.7"}


def test_no_more_is_asked_to_leave_while_enough_is_leaving_somewhere() -> None:
    """Four slots come back on each agent. The gang needs eight on one, which is known only when they are free."""
    tasks = full_of("a", "n0", "n1")
    state = pool(
        [job("b", 0.5), A],
        requests("b", 1, 8, single=True),
        [replace(one, releasing=i % 2 == 0) for i, one in enumerate(tasks)],
        on=agents(8, 8),
    )
    decision = decide(state)
    assert not decision.release
    assert kind(decision, "b.0") is ReasonKind.NEEDS_RELEASE
    left = tuple(one for one in state.running if not one.releasing)
    again = tuple(one.request for one in state.running if one.releasing)
    later = decide(replace(state, running=left, waiting=(*state.waiting, *again)))
    assert len(released(later)) == 4
    assert started(later) == {"a": 4}


def test_what_starts_now_is_not_asked_to_leave_at_once() -> None:
    """Giving job d the last slot of n1 would only make the old gang's claim on both agents dearer."""
    jobs = [
        job("a", 1.0, weight=3.0, max_slots=9),
        job("b", 2.0, weight=0.0),
        job("c", 3.0, weight=0.0),
        job("d", 4.0, max_slots=4),
    ]
    twos = requests("a", 8, 2, single=True)
    ones = requests("d", 2)
    fours = requests("c", 4, 4)
    state = pool(
        jobs,
        [*twos[3:], *requests("b", 9, 12), *fours[1:], ones[1]],
        [
            running(fours[0], {"n0": 4}),
            running(twos[0], {"n0": 2}),
            running(twos[1], {"n1": 2}),
            running(twos[2], {"n1": 2}),
            running(ones[0], {"n1": 1}),
        ],
        on=agents(6, 6, 2),
    )
    decision = decide(state)
    assert decision.waiting["b.0"].victims
    assert not any("n1" in start.placement for start in decision.start)


def test_shares_are_divided_again_when_a_notebook_starts() -> None:
    """Its slot is a floor from now on: nothing else may start that the new shares would ask back."""
    jobs = [job("a", 1.0, weight=3.0), B, C]
    wanted = requests("a", 6) + requests("b", 5) + requests("c", 2, preemptible=False)
    state = pool(jobs, wanted)
    decision = decide(state)
    placed = {start.request_id: start.placement for start in decision.start}
    after = replace(
        state,
        waiting=tuple(r for r in wanted if r.id not in placed),
        running=tuple(running(r, placed[r.id]) for r in wanted if r.id in placed),
    )
    assert not decide(after).release


def test_slots_that_go_out_of_service_are_not_shared() -> None:
    """Job a has eight, of which two end with their tasks: three each are left to share."""
    tasks = full_of("a", "n0")
    tasks[6:] = [replace(one, closing={"n0": 1}) for one in tasks[6:]]
    decision = decide(pool([A, B], requests("b", 8), tasks))
    assert released(decision) == {"a.3", "a.4", "a.5"}


def test_leaving_work_does_not_give_back_what_goes_out_of_service() -> None:
    tasks = [replace(one, releasing=i < 4) for i, one in enumerate(full_of("a", "n0"))]
    tasks[0] = replace(tasks[0], closing={"n0": 1})
    decision = decide(pool([A, B], requests("b", 8), tasks))
    assert {decision.waiting[f"b.{i}"].victims for i in range(3)} == {("a.1",), ("a.2",), ("a.3",)}
    assert decision.waiting["b.3"].needs_capacity


@given(
    sizes=st.lists(st.tuples(st.integers(1, 40), st.sampled_from([0.5, 1.0, 3.0])), max_size=6),
    count=st.integers(1, 3),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_the_input_does_not_matter(
    sizes: list[tuple[int, float]], count: int, order: object
) -> None:
    jobs = [job(f"j{i}", float(i), weight=weight) for i, (_, weight) in enumerate(sizes)]
    wanted = [r for i, (n, _) in enumerate(sizes) for r in requests(f"j{i}", n)]
    on = agents(*[8] * count)
    shuffled = list(wanted)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    one = decide(pool(jobs, wanted, on=on))
    other = decide(pool(reversed(jobs), shuffled, on=tuple(reversed(on))))
    assert one == other


@given(
    data=st.data(),
    old=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3),
    new=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=3),
    count=st.integers(1, 3),
)
def test_running_work_is_adjusted_until_each_job_is_within_one_gang_of_its_share(
    data: st.DataObject, old: list[int], new: list[int], count: int
) -> None:
    """Jobs come to a pool that others fill; releases are obeyed. It comes to rest, and what rests is fair."""
    gangs = old + new
    demands = [gang * data.draw(st.integers(1, 40)) for gang in gangs]
    jobs = [job(f"j{i}", float(i)) for i in range(len(gangs))]
    wanted = [
        r
        for i, gang in enumerate(gangs)
        for r in requests(f"j{i}", demands[i] // gang, gang, single=True)
    ]
    slots = 8 * count
    early = tuple(r for r in wanted if int(r.job_id[1:]) < len(old))
    state = rest(pool(jobs, early, on=agents(*[8] * count)))
    state = rest(replace(state, waiting=(*state.waiting, *wanted[len(early) :])))
    held = Counter[str]()
    for one in state.running:
        held[one.request.job_id] += one.request.slots
    level = min(1.0, slots / sum(demands))
    for i, demand in enumerate(demands):
        over = held[f"j{i}"] - level * demand
        # A gang of its own by rounding, and one of the job whose turn it is.
        assert over >= -(max(gangs) + gangs[i])
        # Beyond its share a job may hold what is of no use to others: of each, less than a gang.
        unusable = sum(gang - 1 for j, gang in enumerate(gangs) if j != i)
        assert over <= max(gangs) + gangs[i] + unusable
    if set(gangs) == {1}:
        assert sum(held.values()) == min(slots, sum(demands))


def rest(state: PoolState) -> PoolState:
    """Apply decisions, obey releases at once, until nothing changes."""
    for _ in range(20):
        decision = decide(state)
        if not decision.start and not decision.release:
            return state
        placed = {start.request_id: start.placement for start in decision.start}
        asked = released(decision)
        leaving = [one.request for one in state.running if one.request.id in asked]
        state = replace(
            state,
            waiting=(*(r for r in state.waiting if r.id not in placed), *leaving),
            running=(
                *(one for one in state.running if one.request.id not in asked),
                *(running(r, placed[r.id]) for r in state.waiting if r.id in placed),
            ),
        )
    raise AssertionError("the pool never comes to rest")
