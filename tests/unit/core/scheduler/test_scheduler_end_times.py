"""Agents that end: nothing starts there that could neither finish nor checkpoint before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.scheduler import decide
from master.core.scheduler.end_times import USEFUL_S, lead_s, least_s, must_leave
from master.core.scheduler.types import LEAVE_S, AgentState, Launchable, Request, Running
from tests.unit.core.scheduler.small_pool import job, pool, requests, started, text

NOW = pool([], []).now
A = job("a", 1.0)


def a_request(**changes: object) -> Request:
    return replace(Request(id="r", job_id="a", slots=4, requested=NOW), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "seconds"),
    [
        pytest.param(a_request(), USEFUL_S / 0.75, id="can checkpoint"),
        pytest.param(a_request(leave_s=60.0), USEFUL_S + 60.0, id="checkpoints fast"),
        pytest.param(a_request(leave_least_s=200.0), USEFUL_S + 200.0, id="checkpoints slowly"),
        pytest.param(a_request(leave_least_s=900.0), 2 * USEFUL_S, id="checkpoints for ever"),
        pytest.param(a_request(expected_run_s=90.0), 90.0, id="is over before"),
        pytest.param(a_request(expected_run_s=9e9), USEFUL_S / 0.75, id="runs long, checkpoints"),
        pytest.param(a_request(preemptible=False, expected_run_s=7200.0), 7200.0, id="must finish"),
        pytest.param(a_request(preemptible=False), USEFUL_S, id="nobody knows"),
    ],
)
def test_how_long_an_agent_must_last(request_: Request, seconds: float) -> None:
    assert least_s(request_) == seconds


@pytest.mark.parametrize(
    ("left_s", "preemptible", "run_s", "starts"),
    [
        (401.0, True, None, True),
        (399.0, True, None, False),
        (399.0, True, 300.0, True),
        (3601.0, False, 3600.0, True),
        (3599.0, False, 3600.0, False),
        (3599.0, True, 3600.0, True),
        (-1.0, False, None, False),
    ],
)
def test_where_the_end_is_near_only_what_can_use_it_starts(
    left_s: float, preemptible: bool, run_s: float | None, starts: bool
) -> None:
    ending = AgentState(id="n0", slots=8, ends_at=NOW + left_s)
    one = replace(requests("a", 1, 8)[0], preemptible=preemptible, expected_run_s=run_s)
    decision = decide(replace(pool([A], [one]), agents=(ending,)))
    assert bool(decision.start) is starts
    if not starts:
        assert "1 agent ends too soon for it (needs " in text(decision, "a.0")
        assert decision.waiting["a.0"].needs_capacity, "demand for one that lasts"


def test_another_agent_is_taken_instead_and_each_gets_what_it_can_use() -> None:
    ending = AgentState(id="n0", slots=8, ends_at=NOW + 350.0)
    lasting = AgentState(id="n1", slots=8)
    long, short = requests("a", 2, 8)
    short = replace(short, expected_run_s=300.0)
    decision = decide(replace(pool([A], [long, short]), agents=(ending, lasting)))
    assert {s.request_id: dict(s.placement) for s in decision.start} == {
        "a.0": {"n1": 8},
        "a.1": {"n0": 8},
    }


def test_capacity_that_would_end_too_soon_is_not_waited_for() -> None:
    """Else nothing would be asked to leave for it, and nothing bought."""
    running = [
        Running(request=replace(one, id=f"b.{n}", job_id="b"), placement={"n0": 1}, started=0.0)
        for n, one in enumerate(requests("b", 8))
    ]
    offer = Launchable(slots_per_agent=8, count=1, ready_in_s=60.0)
    jobs, wanted = [A, job("b", 0.0)], requests("a", 8)
    waits = decide(pool(jobs, wanted, running, launchable=[offer]))
    assert not waits.release
    ends = replace(offer, ends_at=NOW + 300.0)
    asks = decide(pool(jobs, wanted, running, launchable=[ends]))
    assert asks.release


def test_work_is_asked_in_time_for_a_checkpoint_unless_it_finishes() -> None:
    one = Running(request=a_request(), placement={"n0": 4}, started=NOW)
    end = NOW + 4000.0
    assert not must_leave(one, end, end - LEAVE_S - 1)
    assert must_leave(one, end, end - LEAVE_S)
    finishes = replace(one, expected_end=end - 10)
    assert not must_leave(finishes, end, end - LEAVE_S)
    assert must_leave(finishes, end, end - 9), "it is late"
    assert must_leave(replace(one, expected_end=end + 1), end, end - LEAVE_S)


@pytest.mark.parametrize(
    ("lifetime_s", "request_", "lead"),
    [
        (8 * 3600.0, a_request(), LEAVE_S),
        (180.0, a_request(), 45.0),
        (180.0, a_request(leave_s=30.0), 30.0),
        (180.0, a_request(leave_least_s=60.0), 60.0),
        (180.0, a_request(leave_least_s=600.0), 90.0),
        (8 * 3600.0, a_request(leave_least_s=600.0), 600.0),
        (-5.0, a_request(), 0.0),
    ],
)
def test_the_lead_fits_the_time_and_what_leaving_took(
    lifetime_s: float, request_: Request, lead: float
) -> None:
    assert lead_s(request_, lifetime_s) == lead


def test_what_goes_sooner_than_was_known_is_left_with_the_whole_lead() -> None:
    """A spot notice of two minutes, four minutes after the start."""
    one = Running(request=a_request(), placement={"n0": 4}, started=NOW)
    end = NOW + 240.0 + 120.0
    assert must_leave(one, end, NOW + 240.0, early=True)
    assert not must_leave(one, end, NOW + 240.0)


@given(leave_s=st.floats(0, 4000), leave_least_s=st.floats(0, 4000), lifetime_s=st.floats(0, 1e6))
def test_what_lasts_long_enough_gives_time_to_work(
    leave_s: float, leave_least_s: float, lifetime_s: float
) -> None:
    request = a_request(leave_s=leave_s, leave_least_s=leave_least_s)
    works_s = lifetime_s - lead_s(request, lifetime_s)
    assert works_s >= lifetime_s / 2 - 1e-6
    if lifetime_s >= least_s(request):
        assert works_s >= USEFUL_S - 1e-6


def test_nothing_changes_where_nothing_ends() -> None:
    decision = decide(pool([A], requests("a", 3)))
    assert started(decision) == {"a": 3}
