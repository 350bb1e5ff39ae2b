"""Machines that are kept ready without work, by hours of the day."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.scheduler.types import SchedulerSettings
from provisioner.day_hours import DAY_S, is_within, next_change
from provisioner.money.budgets import Budget
from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.simulator.replay import ClusterPlan, PoolPlan, play
from provisioner.simulator.trace import TraceJob
from provisioner.types import Node, PoolDemand, PoolSettings
from tests.fakes.fleet_world import a_gang, an_offer

NOON = 20 * DAY_S + 12 * 3600.0
FOUR, EIGHT = an_offer(4, 4.0), an_offer(8, 8.0)
DAYTIME = ("8:00-18:00",)


def planned(
    *idle_s: float | None, coming: int = 0, gangs: int = 0, now: float = NOON, **more: Any
) -> Plan:
    """Machines of four slots: idle for so long, or busy (None)."""
    machines = [
        Machine(name=f"m{n}", offer=FOUR, phase=MachinePhase.UP, idle_s=idle, age_s=9e3)
        for n, idle in enumerate(idle_s)
    ]
    nodes = tuple(
        Node(
            agent_id=m.name,
            pool="gpu",
            slots=4,
            free_slots=0 if m.idle_s is None else 4,
            busy=m.idle_s is None,
        )
        for m in machines
    )
    machines += [
        Machine(name=f"c{n}", offer=FOUR, phase=MachinePhase.COMING) for n in range(coming)
    ]
    waiting = tuple(a_gang(f"g{n}", 4) for n in range(gangs))
    settings = PoolSettings(pool="gpu", **({"max_instances": 10, "warm_agents": 2} | more))
    pool = PoolInput(
        settings=settings,
        offers=(EIGHT, FOUR),
        demand=PoolDemand(pool="gpu", nodes=nodes, gangs=waiting),
        machines=tuple(machines),
    )
    return plan(PlanInput(now=now, pools=(pool,)))


def bought(decision: Plan) -> int:
    return sum(launch.count for launch in decision.launches)


@pytest.mark.parametrize(
    ("fleet", "expected"),
    [
        ({}, 2),
        ({"coming": 1}, 1),
        ({"coming": 2}, 0),
        ({"gangs": 1}, 3),  # one for the gang, and two that are ready
        ({"coming": 2, "gangs": 1}, 1),
        ({"max_instances": 1}, 1),
        ({"budget": Budget(usd_per_hour=5.0)}, 1),
        ({"min_instances": 5}, 5),
        ({"warm_hours": DAYTIME}, 2),
        ({"warm_hours": DAYTIME, "now": NOON + 8 * 3600.0}, 0),
    ],
)
def test_as_many_are_launched_as_are_missing(fleet: dict[str, Any], expected: int) -> None:
    assert bought(planned(**fleet)) == expected


def test_machines_that_work_do_not_count() -> None:
    assert bought(planned(None, None, 5.0)) == 1


def test_those_that_are_to_be_ready_are_kept_and_say_so() -> None:
    decision = planned(900.0, 800.0, 700.0, warm_hours=DAYTIME)
    assert [end.instance_id for end in decision.terminations] == ["m0"]
    assert decision.kept["m2"] == ("warm_agents is 2", NOON + 6 * 3600.0)
    assert planned(900.0, 800.0).kept["m0"].until is None


def test_they_go_when_the_hours_are_over() -> None:
    decision = planned(900.0, 800.0, warm_hours=DAYTIME, now=NOON + 6 * 3600.0)
    assert len(decision.terminations) == 2


@given(
    st.lists(st.sampled_from([None, 0.0, 299.0, 900.0]), max_size=8),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 3),
    st.integers(0, 2),
)
def test_what_is_ended_is_not_bought_again(
    idle: list[float | None], coming: int, warm: int, gangs: int, least: int
) -> None:
    fleet = {"coming": coming, "warm_agents": warm, "min_instances": least, "max_instances": 12}
    decision = planned(*idle, gangs=gangs, **fleet)
    assert len(idle) + coming + bought(decision) <= max(12, len(idle) + coming)
    assert not (decision.launches and decision.terminations)


@pytest.mark.parametrize(
    ("at_h", "inside", "next_h"), [(7.0, False, 8.0), (8.0, True, 18.0), (18.0, False, 32.0)]
)
def test_hours_of_the_day(at_h: float, inside: bool, next_h: float) -> None:
    now = 5 * DAY_S + at_h * 3600.0
    assert is_within(DAYTIME, now) is inside
    assert next_change(DAYTIME, now) == 5 * DAY_S + next_h * 3600.0


def test_simulated_jobs_do_not_wait_for_a_boot() -> None:
    def waited(warm: int) -> tuple[float, float]:
        settings = PoolSettings(pool="gpu", max_instances=10, max_idle_s=300.0, warm_agents=warm)
        pool = PoolPlan(settings=settings, scheduler=SchedulerSettings(), offers=(FOUR,))
        jobs = [
            TraceJob(job_id=str(n), arrival_s=1000.0 + 4000.0 * n, slots=4, duration_s=1000.0)
            for n in range(5)
        ]
        result = asyncio.run(play(ClusterPlan(pools=[pool], default_pool="gpu"), jobs))
        ends = [(m.ended_s or result.ended_s) - m.created_s for m in result.machines]
        return sum(job.waited_s for job in result.jobs), sum(ends)

    cold, warm = waited(0), waited(1)
    assert cold[0] == pytest.approx(5 * FOUR.boot_s)
    assert warm[0] == 0.0
    assert warm[1] > cold[1]
