"""No gang has slots of two types: a rank on a GPU cannot wait for one on a CPU."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from master.core.scheduler import decide
from master.core.scheduler.types import (
    AgentState,
    Launchable,
    PoolState,
    Request,
    SchedulerSettings,
)
from tests.unit.core.scheduler.living_pool import apply, let_leave
from tests.unit.core.scheduler.small_pool import (
    full_of,
    job,
    pool,
    released,
    requests,
    running,
    text,
)

PREEMPTION = SchedulerSettings(type="priority", preemption=True)
POLICIES = [
    SchedulerSettings(type="fair_share"),
    SchedulerSettings(type="priority"),
    PREEMPTION,
    SchedulerSettings(type="round_robin"),
]


def machines(**types: str) -> tuple[AgentState, ...]:
    return tuple(AgentState(id=name, slots=4, slot_type=kind) for name, kind in types.items())


def one_gang(slots: int, on: tuple[AgentState, ...], settings: SchedulerSettings) -> PoolState:
    return pool([job("gang")], waiting=requests("gang", 1, slots), on=on, settings=settings)


def place(state: PoolState) -> dict[str, int]:
    (start,) = decide(state).start
    return dict(start.placement)


@pytest.mark.parametrize("settings", POLICIES)
def test_a_gang_takes_agents_of_one_type(settings: SchedulerSettings) -> None:
    mixed = machines(a="cpu", b="cuda", c="cpu", d="cuda")
    assert set(place(one_gang(8, mixed, settings))) in ({"a", "c"}, {"b", "d"})


@pytest.mark.parametrize("settings", POLICIES)
def test_where_no_type_has_enough_it_says_so(settings: SchedulerSettings) -> None:
    state = one_gang(8, machines(a="cpu", b="cuda"), settings)
    assert decide(state).start == ()
    assert "no number of whole agents of one slot type (with 4 slots)" in text(
        decide(state), "gang.0"
    )


@pytest.mark.parametrize("settings", POLICIES)
def test_the_type_that_has_enough_is_found(settings: SchedulerSettings) -> None:
    state = one_gang(12, machines(a="cpu", b="cuda", c="cuda", d="cuda"), settings)
    assert set(place(state)) == {"b", "c", "d"}


def test_what_fits_on_one_agent_goes_wherever_it_fits() -> None:
    state = one_gang(4, machines(a="cpu", b="cuda"), PREEMPTION)
    assert place(state) in ({"a": 4}, {"b": 4})


def test_expected_agents_complete_a_gang_of_any_type() -> None:
    state = replace(
        one_gang(8, machines(a="cuda"), PREEMPTION),
        launchable=(Launchable(slots_per_agent=4, count=1, ready_in_s=60.0),),
    )
    assert "agents can be launched" in text(decide(state), "gang.0")


def test_victims_make_room_on_agents_of_one_type() -> None:
    on = machines(a="cpu", b="cuda", c="cuda")
    state = pool(
        [job("old", priority=50), job("gang", 1.0, priority=1)],
        waiting=requests("gang", 1, 8),
        running=full_of("old", "a", "b", "c", slots=4),
        on=on,
        settings=PREEMPTION,
    )
    decision = decide(state)
    assert released(decision) == {f"old.{i}" for i in range(4, 12)}
    assert set(place(let_leave(apply(state, decision)))) == {"b", "c"}


def test_a_place_is_reserved_on_agents_of_one_type() -> None:
    """`b` and `c` are free later than `a` and `b` would be."""
    on = machines(a="cpu", b="cuda", c="cuda")
    settings = POLICIES[3].model_copy(update={"reserve_after": timedelta(seconds=100)})
    ends = {"a": 1100.0, "b": 1200.0, "c": 1300.0}
    held = [
        running(fixed(task), {agent: 4}, expected_end=end)
        for task, (agent, end) in zip(requests("old", 3, 4), ends.items(), strict=True)
    ]
    state = pool(
        [job("old"), job("gang", 1.0)],
        waiting=requests("gang", 1, 8, requested=0.0),
        running=held,
        on=on,
        settings=settings,
    )
    assert "kept for it on b, c, free in about 5 minutes" in text(decide(state), "gang.0")


def fixed(request: Request) -> Request:
    return replace(request, preemptible=False)
