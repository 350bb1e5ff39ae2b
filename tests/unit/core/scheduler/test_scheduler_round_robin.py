"""round_robin on small pools, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.core.reasons import ReasonKind
from master.core.scheduler import decide
from master.core.scheduler.types import Launchable, SchedulerSettings
from tests.unit.core.scheduler.small_pool import (
    agents,
    full_of,
    job,
    kind,
    pool,
    released,
    requests,
    started,
    text,
)

TURNS = SchedulerSettings(type="round_robin")
A, B, C = job("a", 1.0), job("b", 2.0), job("c", 3.0)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(0, {"a": 3, "b": 3, "c": 2}, id="all start with nothing: by age"),
        pytest.param(2, {"a": 2, "b": 2, "c": 2}, id="who has most comes last"),
        pytest.param(7, {"b": 1}, id="one slot: the oldest of those with fewest"),
    ],
)
def test_jobs_take_turns(held: int, expected: dict[str, int]) -> None:
    wanted = requests("a", 9, first=10) + requests("b", 9) + requests("c", 9)
    decision = decide(
        pool([A, B, C], wanted, full_of("a", "n0", slots=held), agents(8), settings=TURNS)
    )
    assert started(decision) == expected
    assert text(decision, "c.7") == (
        "queued behind the first waiting request of its job, which cannot be placed now"
    )


def test_a_job_whose_first_request_does_not_fit_is_out_and_the_others_go_on() -> None:
    wanted = requests("a", 1, 8) + requests("a", 1, first=1) + requests("b", 9)
    decision = decide(pool([A, B], wanted, full_of("c", "n0", slots=2), settings=TURNS))
    assert started(decision) == {"b": 6}
    assert text(decision, "a.0") == (
        "queued: needs 8 slots; 0 of 8 slots are free for it, and the rest is in use"
    )
    assert decision.waiting["a.0"].needs_capacity
    assert decision.waiting["a.1"].needs_capacity


def test_places_are_reserved_as_they_are_given() -> None:
    """Six of four slots each fit one by one, two fit together."""
    wanted = requests("a", 3, 4) + requests("b", 3, 4)
    decision = decide(pool([A, B], wanted, settings=TURNS))
    assert started(decision) == {"a": 1, "b": 1}


def test_max_slots_holds() -> None:
    wanted = requests("a", 9) + requests("b", 3)
    decision = decide(pool([replace(A, max_slots=2), B], wanted, settings=TURNS))
    assert started(decision) == {"a": 2, "b": 3}
    assert text(decision, "a.2") == "max_slots limit reached (2 of 2 slots)"
    assert not decision.waiting["a.8"].needs_capacity


def test_an_impossible_request_ends_its_jobs_turn_and_no_other() -> None:
    wanted = requests("a", 1) + requests("a", 1, 99, first=1) + requests("a", 2, first=2)
    decision = decide(pool([A, B], wanted + requests("b", 1), settings=TURNS))
    assert started(decision) == {"a": 1, "b": 1}
    assert kind(decision, "a.1") is ReasonKind.NO_SUCH_AGENT
    for later in ("a.2", "a.3"):
        assert text(decision, later).startswith(
            "queued behind the first waiting request of its job"
        )


def test_nothing_is_released() -> None:
    decision = decide(pool([A, B], requests("b", 8), full_of("a", "n0"), settings=TURNS))
    assert not released(decision)
    assert not decision.start


def test_zero_slot_tasks_have_places_of_their_own() -> None:
    wanted = requests("a", 1, 0) + requests("b", 1, 0)
    decision = decide(pool([A, B], wanted, full_of("c", "n0"), settings=TURNS))
    assert started(decision) == {"a": 1, "b": 1}


def test_slots_that_come_back_and_agents_that_come_are_promised_in_turns() -> None:
    leaving = [replace(one, releasing=True) for one in full_of("c", "n0")]
    offer = Launchable(slots_per_agent=8, count=1, ready_in_s=60.0)
    wanted = requests("a", 2, 8) + requests("b", 1, 8)
    decision = decide(pool([A, B], wanted, leaving, launchable=[offer], settings=TURNS))
    assert len(decision.waiting["a.0"].victims) == 8
    assert decision.waiting["b.0"].reason.kind is ReasonKind.NEEDS_CAPACITY
    assert decision.waiting["a.1"].reason.kind is ReasonKind.QUEUED
