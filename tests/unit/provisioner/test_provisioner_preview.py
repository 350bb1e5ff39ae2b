"""What would be launched now, and why nothing else: told before anything is."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.money.budgets import Budget
from provisioner.planning.plan_types import PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.planning.preview import Considered, Preview, preview
from provisioner.types import Gang, Market, Offer, PoolDemand, PoolSettings
from tests.examples import examples
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run

NOW = 1_000_000.0
SMALL, BIG = an_offer(1, 1.0), an_offer(8, 6.0)


def of(
    offers: tuple[Offer, ...],
    *more: Gang,
    memory: CapacityMemory | None = None,
    waiting: tuple[Gang, ...] = (),
    **limits: Any,
) -> Preview:
    pool = PoolInput(
        settings=PoolSettings(pool="gpu", **{"max_instances": 10, **limits}),
        offers=offers,
        demand=PoolDemand(pool="gpu", gangs=waiting),
    )
    return preview(PlanInput(now=NOW, pools=(pool,), memory=memory or CapacityMemory()), more)


def verdicts(considered: Considered) -> dict[str, str]:
    return {each.offer.key.instance_type: each.why_not for each in considered.offers}


def test_nothing_waits_and_nothing_is_launched() -> None:
    told = of((SMALL, BIG))
    assert (told.launches, told.considered, told.usd_per_hour) == ((), (), 0.0)


def test_added_gangs_are_planned_beside_those_that_wait() -> None:
    told = of((SMALL, BIG), a_gang("mine", 8, since=NOW), waiting=(a_gang("other", 1),))
    assert [(x.offer, x.count, x.request_ids) for x in told.launches] == [
        (BIG, 1, ("mine",)),
        (SMALL, 1, ("other",)),
    ]
    assert told.usd_per_hour == 7.0
    assert told.launches[0].ready_in_s == 60.0


def test_the_dearer_offer_is_told_with_its_cost() -> None:
    (told,) = of((SMALL, BIG), *(a_gang(f"g{i}", 1, since=NOW) for i in range(8))).considered
    chosen, other = told.offers
    assert (chosen.offer, chosen.launched, chosen.machines, chosen.why_not) == (BIG, 1, 1, "")
    assert (other.offer, other.launched, other.machines) == (SMALL, 0, 8)
    assert other.why_not == "dearer for what is to be launched"
    assert other.usd_per_work_hour is not None
    assert chosen.usd_per_work_hour is not None
    assert other.usd_per_work_hour > chosen.usd_per_work_hour > 6.0


def test_an_offer_that_was_refused_says_why_and_until_when() -> None:
    cheap = an_offer(8, 1.0, name="cheap")
    scope = scope_of(BlockKind.CAPACITY, cheap)
    memory = CapacityMemory().refused(scope, BlockKind.CAPACITY, "sold out", now=NOW)
    (told,) = of((cheap, BIG), a_gang("g", 8, since=NOW), memory=memory).considered
    assert verdicts(told)["cheap"].startswith("cheap in a: sold out; retrying at ")


def test_what_is_too_small_or_not_asked_for_is_told() -> None:
    (told,) = of((SMALL, BIG), a_gang("g", 4, since=NOW, single_agent=True)).considered
    assert verdicts(told)["gpu-1"] == "too few slots for one agent"
    (odd,) = of((an_offer(3, 1.0), BIG), a_gang("g", 4, since=NOW)).considered
    assert verdicts(odd)["gpu-3"] == "its slots do not divide those of the gang"


def test_spot_is_tried_before_on_demand_and_says_until_when() -> None:
    spot = an_offer(8, 3.0, name="spot", market=Market.SPOT)
    (told,) = of((spot, BIG), a_gang("g", 8, since=NOW)).considered
    assert verdicts(told)["gpu-8"].startswith("spot is tried first; bought after ")


def test_who_gets_nothing_learns_the_limit_of_each_offer() -> None:
    waiting = (a_gang("a", 8), a_gang("b", 8))
    told = of((BIG,), waiting=waiting, max_instances=1)
    served, unserved = told.considered
    assert served.request_ids == ("a",)
    assert unserved.request_ids == ("b",)
    assert verdicts(unserved)["gpu-8"] == "the pool is at max_instances (1)"
    poor = of((BIG, SMALL), a_gang("g", 8, single_agent=True), budget=Budget(usd_per_hour=2.0))
    (considered,) = poor.considered
    assert verdicts(considered)["gpu-8"].startswith("over budget: pool gpu may cost 2.00 USD")
    assert poor.reasons["g"].text.startswith("over budget")


@given(
    waiting=st.lists(st.sampled_from([0, 1, 2, 4, 8, 16]), max_size=6),
    most=st.integers(0, 4),
)
@settings(max_examples=examples(60), deadline=None)
def test_it_says_what_the_planner_decides_and_never_keeps_silent(
    waiting: list[int], most: int
) -> None:
    gangs = tuple(a_gang(f"g{i}", slots, since=NOW) for i, slots in enumerate(waiting))
    pool = PoolInput(
        settings=PoolSettings(pool="gpu", max_instances=most),
        offers=(SMALL, BIG),
        demand=PoolDemand(pool="gpu", gangs=gangs),
    )
    state = PlanInput(now=NOW, pools=(pool,))
    told, planned = preview(state), plan(state)
    assert [(x.offer, x.count) for x in told.launches] == [
        (x.offer, x.count) for x in planned.launches
    ]
    assert set(told.reasons) == {gang.request_id for gang in gangs}
    assert {id_ for each in told.considered for id_ in each.request_ids} == set(told.reasons)
    for each in told.considered:
        assert all(offer.launched or offer.why_not for offer in each.offers)


def test_a_live_provisioner_tells_without_doing() -> None:
    async def story() -> None:
        world = FleetWorld(LoopClock(), (BIG,))
        await world.start()
        try:
            await world.until(lambda: world.provisioner.offers()[0].state == "open")
            commits = world.store.commits
            told = await world.provisioner.preview((a_gang("mine", 8),))
            assert [(x.offer, x.count) for x in told.launches] == [(BIG, 1)]
            assert (world.cloud.calls.count("launch"), world.store.commits) == (0, commits)
            assert not (await world.provisioner.preview()).launches
        finally:
            await world.stop()

    run(story(), limit_s=100_000)
