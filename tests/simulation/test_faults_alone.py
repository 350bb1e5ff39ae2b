"""Each fault by itself, at a moment when it matters: what it may cost, and what it must not."""

from __future__ import annotations

import pytest

from tests.simulation.days import quiet_day, run_seed
from tests.simulation.faults import Fault
from tests.simulation.scenario import Outcome
from tests.simulation.world import RECONNECT_WAIT_S

SEED = 1
"""Both searches run on the elastic pool, and all of its machines are busy for more than a minute."""
AGENT_FAILURE = "agent failure"


def struck(kind: str, *, at_s: float, lasts_s: float = 1.0, draw: float = 0.0) -> Outcome:
    fault = Fault(kind=kind, at_s=at_s, lasts_s=lasts_s, draw=draw)
    outcome = run_seed(SEED, faults=(fault,))
    assert outcome.searches[0].trials == quiet_day(SEED).searches[0].trials
    return outcome


def lost_allocations(outcome: Outcome) -> list[str]:
    return [reason for reason in outcome.ends if AGENT_FAILURE in reason]


@pytest.mark.slow
def test_a_killed_agent_comes_back_to_its_tasks() -> None:
    outcome = struck("agent killed", at_s=40.0, lasts_s=RECONNECT_WAIT_S - 5)
    assert not lost_allocations(outcome)
    assert outcome.launched == quiet_day(SEED).launched


@pytest.mark.slow
def test_an_agent_that_stays_away_loses_its_tasks_and_they_run_again() -> None:
    outcome = struck("agent killed", at_s=40.0, lasts_s=RECONNECT_WAIT_S + 20)
    assert lost_allocations(outcome)
    assert outcome.restarts == 0
    assert any("was refused: Unauthenticated" in line for line in outcome.trace)


@pytest.mark.slow
def test_a_killed_host_loses_its_tasks_and_they_run_again() -> None:
    outcome = struck("host killed", at_s=40.0)
    assert lost_allocations(outcome)
    assert outcome.restarts == 0


@pytest.mark.slow
def test_a_failed_task_counts_and_runs_again() -> None:
    outcome = struck("task failed", at_s=40.0)
    assert outcome.restarts == 1
    assert not lost_allocations(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["master killed", "master killed after a commit"])
@pytest.mark.parametrize("away_s", [0.1, 30.0])
def test_a_killed_master_costs_no_run(kind: str, away_s: float) -> None:
    outcome = struck(kind, at_s=40.0, lasts_s=away_s)
    assert outcome.masters == 2
    assert not lost_allocations(outcome)
    assert outcome.restarts == 0
    assert outcome.launched == quiet_day(SEED).launched


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["launch reply lost", "launch unanswered", "master killed at a launch"]
)
def test_no_launch_is_made_twice(kind: str) -> None:
    outcome = struck(kind, at_s=0.0)
    assert outcome.launched == quiet_day(SEED).launched


@pytest.mark.slow
@pytest.mark.parametrize(
    "at_s", [0.0, *(pytest.param(at_s, marks=pytest.mark.slow) for at_s in (1.0, 2.0))]
)
def test_two_masters_on_one_database_buy_no_machine_twice(at_s: float) -> None:
    """The second takes the lease; no commit of the first counts after that, so it asks for nothing more."""
    outcome = struck("second master", at_s=at_s)
    assert outcome.masters == 2
    assert outcome.launched == quiet_day(SEED).launched


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["launches are queued", "calls are throttled"])
def test_launches_that_take_their_time_are_no_reason_to_buy_again(kind: str) -> None:
    outcome = struck(kind, at_s=0.0, lasts_s=60.0, draw=0.4)
    assert outcome.launched == quiet_day(SEED).launched
    assert outcome.restarts == 0


@pytest.mark.slow
def test_a_machine_that_is_taken_back_is_left_before_it_goes() -> None:
    outcome = struck("machine taken back", at_s=40.0, lasts_s=60.0)
    assert any("goes at" in reason and "spot notice" in reason for reason in outcome.ends)
    assert not lost_allocations(outcome), "its work was asked to leave, and did"
    assert outcome.restarts == 0


@pytest.mark.slow
def test_a_second_master_takes_over_and_the_first_gives_up() -> None:
    outcome = struck("second master", at_s=40.0)
    assert outcome.masters == 2
    assert any("LeaseLost" in line for line in outcome.trace)


@pytest.mark.slow
def test_a_stock_out_is_what_waiting_requests_say() -> None:
    outcome = struck("stock-out", at_s=0.0, lasts_s=60.0, draw=0.9)
    said = [text for text in outcome.reasons if text.startswith("no_capacity")]
    assert any("no two left in a" in text and "no two left in b" in text for text in said)


@pytest.mark.slow
def test_a_full_disk_stops_nothing_for_good() -> None:
    outcome = struck("disk full", at_s=40.0, lasts_s=20.0)
    assert outcome.masters == 1
    assert outcome.restarts == 0
    assert not lost_allocations(outcome)
