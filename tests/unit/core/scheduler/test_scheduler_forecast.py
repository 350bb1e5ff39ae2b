"""Expected start times: what is known gives a time, what is not gives none, and large pools take bounded work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from master.core.scheduler import decide
from master.core.scheduler.forecast import HORIZON_S, MOST_STEPS, WORK, expected_start
from master.core.scheduler.release_forecast import LEAVING_S
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

NOW = 10_000.0


def request(name: str, slots: int = 1, *, run: float | None = None, nth: int = 0) -> Request:
    return Request(
        id=name, job_id=name.split(".")[0], slots=slots, requested=float(nth), expected_run_s=run
    )


def work(
    name: str, agent: str, slots: int = 1, end: float | None = None, *, releasing: bool = False
) -> Running:
    return Running(
        request=request(name, slots),
        placement={agent: slots},
        started=0.0,
        releasing=releasing,
        expected_end=None if end is None else NOW + end,
    )


def pool(
    sizes: Iterable[int],
    waiting: Iterable[Request],
    running: Iterable[Running] = (),
    launchable: Iterable[Launchable] = (),
) -> PoolState:
    requests = tuple(waiting)
    tasks = tuple(running)
    names = {r.job_id for r in (*requests, *(one.request for one in tasks))}
    return PoolState(
        now=NOW,
        settings=SchedulerSettings(),
        agents=tuple(AgentState(id=f"n{i}", slots=size) for i, size in enumerate(sizes)),
        jobs={name: Job(id=name, submitted=float(ord(name[0]))) for name in names},
        waiting=requests,
        running=tasks,
        launchable=tuple(launchable),
    )


def after(state: PoolState, name: str) -> float | None:
    """The expected start in seconds from now."""
    at = expected_start(state, name)
    return None if at is None else at - NOW


def test_what_fits_starts_now() -> None:
    assert after(pool([2], [request("a.0")]), "a.0") == 0


def test_what_does_not_wait_has_no_forecast() -> None:
    assert after(pool([2], [request("a.0")]), "a.1") is None
    assert after(pool([2], [], [work("a.0", "n0", 1, 50)]), "a.0") is None


def test_a_gang_waits_for_the_last_of_its_slots() -> None:
    tasks = [work(f"a.{i}", "n0", 1, 100.0 * (i + 1)) for i in range(4)]
    assert after(pool([4], [request("a.9", 1)], tasks), "a.9") == 100
    assert after(pool([4], [request("a.9", 3)], tasks), "a.9") == 300


def test_work_ahead_takes_its_time() -> None:
    queue = [request("a.1", run=50, nth=1), request("a.2", run=70, nth=2), request("a.3", nth=3)]
    state = pool([1], queue, [work("a.0", "n0", 1, 100)])
    assert [after(state, r.id) for r in queue] == [100, 150, 220]


def test_nobody_knows_what_waits_for_work_without_an_end() -> None:
    assert after(pool([1], [request("a.1")], [work("a.0", "n0")]), "a.1") is None
    queue = [request("a.1", nth=1), request("a.2", nth=2)]
    assert after(pool([1], queue, [work("a.0", "n0", 1, 100)]), "a.2") is None
    other = [work("a.0", "n0"), work("a.3", "n1", 1, 100)]
    assert after(pool([1, 1], [request("a.1")], other), "a.1") == 100


def test_late_work_is_expected_to_be_late_for_as_long_again() -> None:
    assert after(pool([1], [request("a.1")], [work("a.0", "n0", 1, -30)]), "a.1") == 30


def test_work_that_leaves_is_soon_gone() -> None:
    state = pool([1], [request("a.0")], [work("b.0", "n0", 1, 9e5, releasing=True)])
    assert after(state, "a.0") == LEAVING_S


def test_victims_of_the_newcomer_make_room_and_come_again() -> None:
    """Two jobs on two slots: one each. The victim's next run waits for the newcomer's end."""
    tasks = [work("a.0", "n0"), work("a.1", "n0")]
    state = pool([2], [request("b.0", run=500)], tasks)
    assert after(state, "b.0") == LEAVING_S
    back = pool([2], [request("b.0", run=500), request("a.2", nth=5)], tasks)
    assert after(back, "a.2") is None, "the victim, which is older, comes first and runs for ever"
    known = [replace(one, request=replace(one.request, expected_run_s=NOW + 400)) for one in tasks]
    back = replace(back, running=tuple(known))
    assert after(back, "a.2") == pytest.approx(LEAVING_S + 500 + 340)


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        (Launchable(slots_per_agent=4, count=1, ready_in_s=120), 120),
        (Launchable(slots_per_agent=4, count=1, ready_in_s=7200), 7200),
        (Launchable(slots_per_agent=4, count=0, ready_in_s=120), None),
        (Launchable(slots_per_agent=2, count=9, ready_in_s=120), 120),
        (Launchable(slots_per_agent=3, count=9, ready_in_s=120), None),
    ],
)
def test_capacity_comes_when_it_is_ready(offer: Launchable, expected: float | None) -> None:
    assert after(pool([], [request("a.0", 4)], launchable=[offer]), "a.0") == expected


def test_no_more_capacity_comes_than_there_is_and_none_later_for_what_happens_before() -> None:
    offer = Launchable(slots_per_agent=4, count=1, ready_in_s=7200)
    assert after(pool([], [request("a.0", 8)], launchable=[offer]), "a.0") is None
    tasks = [work("a.9", "n0", 1, 5000)]
    assert after(pool([1], [request("a.0", 4)], tasks, [offer]), "a.0") == 7200


def test_slots_that_are_taken_out_of_service_do_not_come_back() -> None:
    closing = replace(work("a.0", "n0", 2, 100), closing={"n0": 1})
    state = pool([2], [request("a.1", 2)], [closing])
    assert after(state, "a.1") is None
    assert after(replace(state, waiting=(request("a.1", 1),)), "a.1") == 100


def test_nothing_is_said_about_the_far_future() -> None:
    state = pool([1], [request("a.1")], [work("a.0", "n0", 1, HORIZON_S + 1)])
    assert after(state, "a.1") is None


class Counted:
    """The scheduler, counting what it looks at."""

    def __init__(self) -> None:
        self.calls = 0
        self.seen = 0

    def __call__(self, state: PoolState) -> Decision:
        self.calls += 1
        self.seen += len(state.waiting) + len(state.running) + len(state.agents)
        return decide(state)


@pytest.mark.slow
def test_many_ends_are_few_steps_and_little_is_lost() -> None:
    tasks = [work(f"a.{i}", f"n{i // 8}", 1, 60.0 * i + 60) for i in range(800)]
    state = pool([8] * 100, [request("b.0", 8)], tasks)
    fixed = [replace(one, request=replace(one.request, preemptible=False)) for one in tasks]
    for slots in (8, 80, 800):
        waiting = (request("b.0", slots),)
        at = expected_start(replace(state, running=tuple(fixed), waiting=waiting), "b.0")
        assert at is not None
        assert 60 * slots <= at - NOW <= 60 * slots * 1.1


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [600, 3_000])
def test_a_forecast_that_leads_nowhere_ends(ahead: int) -> None:
    """Short work for ever, with always more of it ahead."""
    queue = [request(f"a.{i:05d}", run=1.0, nth=i) for i in range(ahead)]
    state = pool([1], [*queue, request("a.last", nth=9_999)], [work("a.x", "n0", 1, 1.0)])
    counted = Counted()
    assert expected_start(state, "a.last", counted) is None
    assert counted.calls <= MOST_STEPS
    assert counted.seen <= 1.1 * WORK
