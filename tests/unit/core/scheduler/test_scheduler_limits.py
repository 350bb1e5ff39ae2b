"""A `max_slots` that was lowered while the job runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.core.scheduler import decide
from master.core.scheduler.types import (
    PoolState,
    Running,
    SchedulerSettings,
)
from tests.unit.core.scheduler.living_pool import apply, let_leave
from tests.unit.core.scheduler.small_pool import (
    FAIR_SHARE,
    agents,
    full_of,
    job,
    pool,
    released,
    requests,
    running,
    started,
    text,
)

PREEMPTION = SchedulerSettings(type="priority", preemption=True)
NEVER_ASK = [
    SchedulerSettings(type="priority"),
    SchedulerSettings(type="round_robin"),
]


def limited(
    max_slots: int, held: list[Running], settings: SchedulerSettings = FAIR_SHARE
) -> PoolState:
    return pool([job("a", max_slots=max_slots)], running=held, settings=settings)


@pytest.mark.parametrize("settings", [FAIR_SHARE, PREEMPTION])
def test_what_is_above_the_limit_leaves_the_latest_first(settings: SchedulerSettings) -> None:
    decision = decide(limited(5, full_of("a", "n0"), settings))
    assert released(decision) == {"a.7", "a.6", "a.5"}
    assert decision.release[0].why == "job a holds more than its max_slots of 5"


@pytest.mark.parametrize("settings", NEVER_ASK)
def test_policies_that_never_ask_wait_until_it_ends(settings: SchedulerSettings) -> None:
    assert decide(limited(5, full_of("a", "n0"), settings)).release == ()


def test_it_is_asked_once_and_comes_back_when_the_limit_allows() -> None:
    state = limited(5, full_of("a", "n0"))
    state = apply(state, decide(state))
    assert decide(state).release == ()
    state = let_leave(state)
    assert not decide(state).start
    assert text(decide(state), "a.7") == "max_slots limit reached (5 of 5 slots)"
    raised = replace(state, jobs={"a": job("a", max_slots=7)})
    assert started(decide(raised)) == {"a": 2}


def test_who_loses_least_leaves() -> None:
    held = full_of("a", "n0")
    held[2] = replace(held[2], last_checkpoint=999.0)
    assert released(decide(limited(7, held))) == {"a.2"}


def test_no_gang_more_than_needed() -> None:
    """The latest is small and does not suffice; once the large one leaves it may stay."""
    one, four = requests("a", 1, 1)[0], requests("a", 1, 4, first=1)[0]
    held = [running(four, {"n0": 4}, started=1.0), running(one, {"n0": 1}, started=2.0)]
    assert released(decide(limited(4, held))) == {"a.0"}
    assert released(decide(limited(3, held))) == {"a.1"}


def test_what_cannot_be_preempted_stays() -> None:
    assert decide(limited(0, full_of("a", "n0", preemptible=False))).release == ()


def test_its_slots_serve_others_at_once_they_are_back() -> None:
    state = pool(
        [job("a", max_slots=4), job("b", 1.0)],
        waiting=requests("b", 4),
        running=full_of("a", "n0"),
        on=agents(8),
    )
    decision = decide(state)
    assert len(decision.release) == 4
    state = let_leave(apply(state, decision))
    assert started(decide(state)) == {"b": 4}
