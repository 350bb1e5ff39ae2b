"""Gangs over several machines: what the network between these costs, and what is bought because of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.money.expected_cost import NETWORK_GBPS_PER_SLOT, slowdown
from provisioner.money.price_book import BUNDLED, PriceBook, read_table
from provisioner.planning.plan_types import Plan, PlanInput
from provisioner.planning.preview import preview
from provisioner.types import Offer
from tests.fakes.fleet_world import an_offer
from tests.fakes.planner_inputs import NOW, gangs, node, plan_of, pool

BOOK = PriceBook(table=read_table(BUNDLED))


def sold(name: str) -> Offer:
    """As the price book has it."""
    known = BOOK.machine("aws", name)
    assert known is not None
    return replace(
        an_offer(known.gpus, known.usd_per_hour["us-east-1"], name=name, boot_s=180.0),
        gpu_model=known.gpu_model,
        network_gbps=known.network_gbps,
    )


G5 = tuple(sold(f"g5.{size}") for size in ("xlarge", "12xlarge", "48xlarge"))
EIGHTS = (G5[2], sold("p4d.24xlarge"))


def bought(
    slots: int, offers: tuple[Offer, ...], need: float = NETWORK_GBPS_PER_SLOT
) -> list[tuple[str, int]]:
    decision = plan_of(pool(gangs(slots), offers, network_gbps_per_slot=need))
    return [(launch.offer.key.instance_type, launch.count) for launch in decision.launches]


def test_a_gang_of_8_slots_is_bought_one_machine_and_not_8_with_2_5_gbit_each() -> None:
    assert bought(8, G5) == [("g5.48xlarge", 1)]
    assert bought(4, G5) == [("g5.12xlarge", 1)]
    assert bought(1, G5) == [("g5.xlarge", 1)]


def test_a_pool_may_say_that_its_work_needs_no_network() -> None:
    assert bought(8, G5, need=0.0) == [("g5.xlarge", 8)]
    assert bought(8, G5, need=0.5) == [("g5.xlarge", 8)]


def test_of_what_must_be_spread_the_network_decides_too() -> None:
    """Two of g5.48xlarge are cheaper by price, and slower than two of p4d.24xlarge: 12.5 and 50 Gbit/s for a GPU."""
    assert bought(16, EIGHTS, need=10.0) == [("g5.48xlarge", 2)]
    assert bought(16, EIGHTS, need=20.0) == [("p4d.24xlarge", 2)]
    assert bought(8, EIGHTS, need=20.0) == [("g5.48xlarge", 1)]
    assert bought(2, (G5[0], sold("g5.8xlarge")), need=20.0) == [("g5.8xlarge", 2)]


def test_where_nothing_else_holds_it_or_nobody_knows_the_network_it_is_spread() -> None:
    assert bought(8, G5[:1]) == [("g5.xlarge", 8)]
    unknown = tuple(replace(offer, network_gbps=None) for offer in G5)
    assert bought(8, unknown) == [("g5.xlarge", 8)]


def test_whoever_waits_for_a_spread_gang_is_told_what_the_network_costs() -> None:
    decision = plan_of(pool(gangs(16), EIGHTS, network_gbps_per_slot=10.0))
    assert decision.reasons["g0"].text == (
        "launching 2 x g5.48xlarge in a for one run: "
        "by their network about 1.4 times as long as on one machine"
    )
    small = plan_of(pool(gangs(1, 1), G5, network_gbps_per_slot=10.0))
    assert small.reasons["g0"].text == "launching 2 x g5.xlarge in a"
    unknown = tuple(replace(offer, network_gbps=None) for offer in G5)
    for pools in (pool(gangs(8), unknown), pool(gangs(8), G5, network_gbps_per_slot=0.0)):
        assert plan_of(pools).reasons["g0"].text == "launching 8 x g5.xlarge in a for one run"


def test_free_whole_machines_are_counted_in_at_what_the_whole_gang_costs() -> None:
    """7 of 8 are there: one more is cheaper than a big machine, however slow it all is."""
    there = tuple(node(f"n{i}", 1, facts=G5[0].facts) for i in range(7))
    decision: Plan = plan_of(pool(gangs(8), G5, nodes=there, network_gbps_per_slot=10.0))
    assert [(x.offer.slots, x.count) for x in decision.launches] == [(1, 1)]


def test_small_gangs_still_share_machines_with_those_that_could_be_spread() -> None:
    decision = plan_of(pool(gangs(4, 2, 2), (G5[2], G5[0]), network_gbps_per_slot=10.0))
    assert plan_of(pool(gangs(4, 2, 2), (G5[2],))).launches == decision.launches


def test_a_preview_shows_how_much_longer_each_offer_would_take() -> None:
    asked = pool(gangs(8), G5, network_gbps_per_slot=10.0)
    (considered,) = preview(PlanInput(now=NOW, pools=(asked,))).considered
    shown = {x.offer.key.instance_type: x for x in considered.offers}
    slower = {name: round(x.slowdown, 2) for name, x in shown.items()}
    assert slower == {"g5.48xlarge": 1.0, "g5.12xlarge": 1.5, "g5.xlarge": 4.5}
    usd = shown["g5.xlarge"].usd_per_work_hour
    assert usd == pytest.approx(8 * 1.006 * (4.5 + 0.05) + 8 * 0.1 * 1.006 * 0.05)
    assert shown["g5.xlarge"].why_not == "dearer for what is to be launched"


@given(st.integers(1, 16), st.integers(1, 64), st.floats(0.1, 4000), st.floats(0, 1000))
def test_more_machines_are_never_faster_and_more_network_never_slower(
    slots: int, machines: int, gbps: float, need: float
) -> None:
    offer = replace(an_offer(slots, 1.0), gpu_model="A100", network_gbps=gbps)
    now = slowdown(offer, machines, need)
    assert 1.0 <= now <= slowdown(offer, machines + 1, need)
    assert slowdown(replace(offer, network_gbps=gbps * 2), machines, need) <= now
    assert slowdown(offer, 1, need) == 1.0
