"""Machines without work that are stopped instead of ended, and started again before others are bought."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from master.core.scheduler.types import SchedulerSettings
from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind
from provisioner.money.budgets import Budget
from provisioner.planning.plan_types import (
    Machine,
    MachinePhase,
    Plan,
    PlanInput,
    PoolInput,
    StoppedMachine,
)
from provisioner.planning.planner import plan
from provisioner.planning.preview import preview
from provisioner.planning.scale_down.stop_value import expected_gap_s, pays, start_of, start_offers
from provisioner.planning.scale_down.stopped_agents import StoppedAgents
from provisioner.simulator.replay import ClusterPlan, PoolPlan, play
from provisioner.simulator.report import Summary, summary
from provisioner.simulator.trace import TraceJob
from provisioner.types import Gang, Node, Offer, PoolDemand, PoolSettings, Scope
from tests.fakes.fleet_world import a_gang, an_offer
from tests.fakes.stopped_agents import EIGHT, FOUR, RULES, bought

DEAR_DISK = an_offer(4, 4.0, boot_s=180.0, can_stop=True, disk_usd_per_hour=1.0)


@pytest.mark.parametrize(
    ("offer", "more", "expected"),
    [
        (FOUR, {}, True),
        (DEAR_DISK, {}, False),
        (FOUR, {"gap_s": 1e6}, False),
        (FOUR, {"start_s": 180.0}, False),  # a start is no faster than a boot
        (an_offer(4, 4.0, can_stop=True, disk_usd_per_hour=0.065), {}, False),
        (an_offer(4, 4.0, can_stop=True, disk_usd_per_hour=0.065), {"slot_usd": 1.0}, True),
        (an_offer(4, 0.0, can_stop=True), {}, False),  # it costs nothing to boot
    ],
)
def test_a_stop_pays_where_the_disk_costs_less_than_the_boot(
    offer: Offer, more: dict[str, float], expected: bool
) -> None:
    # 54 s of 4 USD an hour are 0.060 USD, and 0.066 with the wait of four slots.
    values = {"boot_s": 180.0, "start_s": 126.0, "slot_usd": 0.0, "gap_s": 3600.0} | more
    assert pays(offer, **values) is expected


def test_the_gap_is_learned_from_those_that_were_started() -> None:
    assert expected_gap_s(100.0, []) == 100.0
    assert expected_gap_s(100.0, [400.0, 700.0]) == 400.0


def stopped(*ages_s: float, offer: Offer = FOUR, **more: Any) -> tuple[StoppedMachine, ...]:
    return tuple(
        StoppedMachine(name=f"s{n}", offer=offer, stopped_s=age, **more)
        for n, age in enumerate(ages_s)
    )


def planned(
    *gangs: Gang,
    idle: int = 0,
    asleep: tuple[StoppedMachine, ...] = (),
    offers: tuple[Offer, ...] = (EIGHT, FOUR),
    memory: CapacityMemory | None = None,
    fingerprints: dict[Any, str] | None = None,
    **more: Any,
) -> Plan:
    return plan(
        snapshot(
            *gangs,
            idle=idle,
            asleep=asleep,
            offers=offers,
            memory=memory,
            fingerprints=fingerprints,
            **more,
        )
    )


def snapshot(
    *gangs: Gang,
    idle: int = 0,
    asleep: tuple[StoppedMachine, ...] = (),
    offers: tuple[Offer, ...] = (EIGHT, FOUR),
    memory: CapacityMemory | None = None,
    fingerprints: dict[Any, str] | None = None,
    **more: Any,
) -> PlanInput:
    memory = memory or CapacityMemory()
    machines = [
        Machine(
            name=f"m{n}",
            offer=FOUR,
            phase=MachinePhase.UP,
            idle_s=900.0,
            age_s=9e3,
            fingerprint="v1",
        )
        for n in range(idle)
    ]
    nodes = tuple(
        Node(agent_id=m.name, pool="gpu", slots=4, free_slots=4, instance_id=m.name)
        for m in machines
    )
    pool = PoolInput(
        settings=PoolSettings(
            pool="gpu",
            **({"max_instances": 10, "stopped": RULES} | more),  # type: ignore[arg-type]
        ),
        offers=(*offers, *start_offers("gpu", asleep, (), memory)),
        demand=PoolDemand(pool="gpu", gangs=gangs, nodes=nodes),
        machines=tuple(machines),
        stopped=asleep,
        fingerprints=fingerprints or {},
    )
    return PlanInput(now=1e6, pools=(pool,), memory=memory)


def started(decision: Plan) -> list[str]:
    return [name for launch in decision.launches for name in launch.starts]


def test_an_idle_machine_is_stopped_up_to_the_most() -> None:
    decision = planned(idle=3)
    assert [end.stop for end in decision.terminations] == [True, True, False]
    assert [end.stop for end in planned(idle=2, asleep=stopped(5.0)).terminations] == [True, False]


@pytest.mark.parametrize(
    "more",
    [
        {"stopped": StoppedAgents()},
        {"max_instances": 0},
        {"fingerprints": {FOUR.key: "v2"}},
        {
            "stopped": StoppedAgents(
                max=2, expected_gap=timedelta(seconds=1e6), max_age=timedelta(seconds=1e7)
            )
        },
        {
            "stopped": StoppedAgents(
                max=2, expected_gap=timedelta(seconds=3600.0), max_age=timedelta(seconds=1800.0)
            )
        },
    ],
)
def test_it_is_ended_where_that_does_not_pay(more: dict[str, Any]) -> None:
    (end,) = planned(idle=1, **more).terminations
    assert not end.stop


def test_a_gang_starts_a_stopped_machine_before_one_is_bought() -> None:
    decision = planned(a_gang("g1"), a_gang("g2"), a_gang("g3"), asleep=stopped(50.0, 10.0))
    assert started(decision) == ["s1", "s0"]
    assert bought(decision) == 1
    assert decision.reasons["g1"].kind is ReasonKind.LAUNCHING
    assert "starts stopped machine" in decision.reasons["g1"].text
    assert {c for launch in decision.launches for each in launch.claims for c in each} == {
        "g1",
        "g2",
        "g3",
    }


def test_a_gang_over_several_machines_starts_them_all() -> None:
    decision = planned(a_gang("g", 8), asleep=stopped(50.0, 10.0), offers=(FOUR,))
    assert sorted(started(decision)) == ["s0", "s1"]
    assert not bought(decision)


def test_what_is_missing_of_a_gang_is_bought_beside_them() -> None:
    decision = planned(a_gang("g", 12), asleep=stopped(50.0, 10.0), offers=(FOUR,))
    assert sorted(started(decision)) == ["s0", "s1"]
    assert bought(decision) == 1


def test_a_small_gang_does_not_start_what_is_dearer_than_a_purchase() -> None:
    small = an_offer(1, 1.0, boot_s=180.0)
    decision = planned(a_gang("g", 1), asleep=stopped(10.0), offers=(FOUR, small))
    assert not started(decision)
    assert bought(decision) == 1


def test_a_start_counts_against_the_maximum_and_the_budget() -> None:
    assert not started(planned(a_gang("g"), asleep=stopped(1.0), max_instances=0))
    poor = Budget(usd_per_hour=3.0)
    assert not started(planned(a_gang("g"), asleep=stopped(1.0), budget=poor))


def test_disks_count_in_the_budget() -> None:
    dear = stopped(1.0, offer=an_offer(4, 4.0, name="x", can_stop=True, disk_usd_per_hour=3.0))
    budget = Budget(usd_per_hour=6.0)
    assert bought(planned(a_gang("g"), offers=(FOUR,), budget=budget)) == 1
    assert not bought(planned(a_gang("g"), asleep=dear, offers=(FOUR,), budget=budget))


def test_a_refused_start_leads_to_a_purchase() -> None:
    memory = CapacityMemory()
    scope = Scope.of(start_of(FOUR, memory).key)
    memory = memory.refused(scope, BlockKind.CAPACITY, "none", now=1e6)
    decision = planned(a_gang("g"), asleep=stopped(1.0), memory=memory)
    assert not started(decision)
    assert bought(decision) == 1


def test_where_nothing_can_be_bought_nothing_is_started() -> None:
    memory = CapacityMemory().refused(Scope.of(FOUR.key), BlockKind.CAPACITY, "none", now=1e6)
    assert not started(planned(a_gang("g"), asleep=stopped(1.0), memory=memory, offers=(FOUR,)))


@pytest.mark.parametrize(
    ("asleep", "more", "why"),
    [
        (stopped(40_000.0), {}, "stopped for 11.1 h"),
        (stopped(3.0, 2.0, 1.0), {}, "stopped_agents.max"),
        (stopped(1.0, fingerprint="v1"), {"fingerprints": {FOUR.key: "v2"}}, "settings"),
        (stopped(1.0), {"stopped": StoppedAgents()}, "stopped_agents.max"),
    ],
)
def test_stopped_machines_of_no_use_are_ended(
    asleep: tuple[StoppedMachine, ...], more: dict[str, Any], why: str
) -> None:
    (end,) = planned(asleep=asleep, **more).terminations
    assert (end.instance_id, end.stop) == ("s0", False)
    assert why in end.why


def test_one_that_is_started_is_not_ended() -> None:
    decision = planned(a_gang("g"), asleep=stopped(40_000.0))
    assert started(decision) == ["s0"]
    assert not decision.terminations


def test_warm_machines_are_started_before_they_are_bought() -> None:
    decision = planned(asleep=stopped(1.0), warm_agents=2)
    assert started(decision) == ["s0"]
    assert bought(decision) == 1


def test_a_plan_beforehand_names_the_start() -> None:
    found = preview(snapshot(asleep=stopped(1.0)), [a_gang("g")])
    (launch,) = found.launches
    assert launch.offer.key.stopped
    assert "starts stopped machine s0" in found.reasons["g"].text


@given(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4), st.integers(0, 6))
def test_never_more_than_there_are_and_none_twice(
    idle: int, asleep: int, most: int, gangs: int
) -> None:
    rules = StoppedAgents(max=most, expected_gap=timedelta(seconds=60.0))
    decision = planned(
        *(a_gang(f"g{n}") for n in range(gangs)),
        idle=idle,
        asleep=stopped(*range(asleep)),
        stopped=rules,
    )
    names = started(decision)
    assert len(set(names)) == len(names) <= asleep
    ends = [x.instance_id for x in decision.terminations if x.instance_id.startswith("s")]
    assert not set(ends) & set(names)
    left = asleep - len(names) - len(ends)
    assert left + sum(x.stop for x in decision.terminations) <= max(most, 0)


def test_simulated_work_starts_stopped_machines() -> None:
    def played(most: int) -> Summary:
        settings = PoolSettings(
            pool="gpu",
            max_instances=10,
            max_idle_s=300.0,
            stopped=StoppedAgents(max=most, expected_gap=timedelta(seconds=3600.0)),
        )
        pool = PoolPlan(settings=settings, scheduler=SchedulerSettings(), offers=(FOUR,))
        jobs = [
            TraceJob(job_id=str(n), arrival_s=1000.0 + 4000.0 * n, slots=4, duration_s=1000.0)
            for n in range(5)
        ]
        return summary(asyncio.run(play(ClusterPlan(pools=[pool], default_pool="gpu"), jobs)))

    cold, warm = played(0), played(1)
    assert (cold.machines, warm.machines) == (5, 1)
    assert (cold.starts, warm.starts) == (0, 4)
    assert warm.waits.longest_s == cold.waits.longest_s == 180.0, "the first is launched"
    assert warm.waits.mean_s == pytest.approx((180.0 + 4 * 126.0) / 5)
    assert warm.boot_usd == pytest.approx(4.0 * (180.0 + 4 * 126.0) / 3600.0)
    assert warm.most_machines == 1
    assert 0 < warm.stopped_usd < 0.01
    assert warm.usd < cold.usd
