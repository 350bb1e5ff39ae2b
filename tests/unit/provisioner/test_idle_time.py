"""How long machines without work are kept: as the pool says, or while that is cheaper than a new boot."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.capacity.memory import CapacityMemory
from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.planning.scale_down.idle_time import LEAST_IDLE_S, MOST_IDLE_S, break_even_s
from provisioner.types import Market, Node, Offer, PoolDemand, PoolSettings
from tests.fakes.fleet_world import an_offer

NOW = 10_000.0
BOOT_S = 200.0
FOUR = an_offer(4, 4.0, boot_s=BOOT_S)


def planned(
    *machines: Machine, offers: tuple[Offer, ...] = (FOUR,), auto: bool = True, **more: Any
) -> Plan:
    settings = PoolSettings(pool="gpu", max_instances=10, idle_auto=auto, **more)
    nodes = tuple(
        Node(agent_id=m.name, pool="gpu", slots=m.offer.slots, free_slots=m.offer.slots)
        for m in machines
    )
    pool = PoolInput(
        settings=settings,
        offers=offers,
        demand=PoolDemand(pool="gpu", nodes=nodes),
        machines=machines,
    )
    return plan(PlanInput(now=NOW, pools=(pool,)))


def idle(name: str, idle_s: float, offer: Offer = FOUR, age_s: float = 5000.0) -> Machine:
    return Machine(name=name, offer=offer, phase=MachinePhase.UP, idle_s=idle_s, age_s=age_s)


def ended(decision: Plan) -> set[str]:
    return {x.instance_id for x in decision.terminations}


def test_it_is_kept_for_a_boot_and_the_wait_for_it() -> None:
    # a slot costs 1 an hour; whoever waits for four of them costs a tenth of the machine
    decision = planned(idle("soon", 0.0), idle("late", 1.1 * BOOT_S + 1), idle("near", 219.0))
    assert ended(decision) == {"late"}
    assert decision.kept["near"].until == pytest.approx(NOW + 1.0)
    assert decision.kept["soon"].why == "cheaper until then than another boot of 200 s"


def test_what_boots_was_measured_counts_and_not_what_the_offer_says() -> None:
    memory = CapacityMemory()
    for _ in range(20):
        memory = memory.booted(FOUR, 1000.0)
    learned = memory.boot_p50_s(FOUR)
    assert learned > 2 * BOOT_S
    state = PlanInput(
        now=NOW,
        pools=(
            PoolInput(
                settings=PoolSettings(pool="gpu", idle_auto=True),
                offers=(FOUR,),
                demand=PoolDemand(pool="gpu"),
                machines=(idle("m", 300.0),),
            ),
        ),
        memory=memory,
    )
    assert not plan(state).terminations


def test_spot_is_kept_longer_than_its_boot_costs_for_somebody_waits() -> None:
    spot = an_offer(4, 1.0, market=Market.SPOT, boot_s=BOOT_S)
    assert break_even_s(spot, boot_s=BOOT_S, slot_usd=1.0) == pytest.approx(1.4 * BOOT_S)


def test_what_is_paid_for_anyway_is_kept_longest() -> None:
    block = an_offer(4, 9.0, market=Market.RESERVED)
    decision = planned(idle("paid", MOST_IDLE_S - 1, block), offers=(FOUR, block))
    assert not ended(decision)
    assert decision.kept["paid"].why == "it costs nothing more: kept for 1800 s"


def test_it_is_not_ended_before_its_least_bill_is_used_up() -> None:
    hourly = an_offer(4, 4.0, boot_s=30.0, least_billed_s=3600.0)
    young = idle("young", 500.0, hourly, age_s=3000.0)
    old = idle("old", 500.0, hourly, age_s=3600.0)
    decision = planned(young, old, offers=(hourly,))
    assert ended(decision) == {"old"}
    assert decision.kept["young"].until == pytest.approx(NOW + 600.0)
    assert "3600 s are paid for" in decision.kept["young"].why


def test_a_fixed_time_says_so() -> None:
    decision = planned(idle("m", 100.0), idle("n", 301.0), auto=False)
    assert ended(decision) == {"n"}
    kept = decision.kept["m"]
    assert kept.until == NOW + 200.0
    assert kept.why == "work may come: kept for 300 s (max_idle_agent_period)"


def test_the_minimum_says_so() -> None:
    decision = planned(idle("m", 9000.0), auto=False, min_instances=1)
    assert not decision.terminations
    assert decision.kept["m"] == ("min_instances is 1", None)


@given(
    usd=st.floats(0.0, 100.0),
    slot_usd=st.floats(0.0, 50.0),
    boot_s=st.floats(0.0, 1e5),
    slots=st.integers(0, 16),
    market=st.sampled_from(Market),
)
def test_it_is_within_its_bounds_and_grows_with_the_boot(
    usd: float, slot_usd: float, boot_s: float, slots: int, market: Market
) -> None:
    offer = an_offer(slots, usd, market=market)
    kept_s = break_even_s(offer, boot_s=boot_s, slot_usd=slot_usd)
    assert LEAST_IDLE_S <= kept_s <= MOST_IDLE_S
    assert not math.isnan(kept_s)
    assert break_even_s(offer, boot_s=boot_s + 10, slot_usd=slot_usd) >= kept_s
