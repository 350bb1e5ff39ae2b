"""What `plan` decides, case by case, and what holds for every plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.money.budgets import Budget
from provisioner.planning.gang_classes import nodes_needed
from provisioner.planning.plan_types import Machine, MachinePhase
from provisioner.planning.unschedulable import nearest_fit
from tests.examples import examples
from tests.fakes.fleet_world import a_gang, an_offer
from tests.fakes.planner_inputs import (
    EIGHT,
    FOUR,
    NOW,
    ONE,
    bought,
    coming,
    gangs,
    node,
    plan_of,
    pool,
)

if TYPE_CHECKING:
    from provisioner.types import Gang, Node, Offer


def up(name: str, offer: Offer, idle_s: float | None = None, **more: Any) -> Machine:
    return Machine(name=name, offer=offer, phase=MachinePhase.UP, idle_s=idle_s, **more)


CHEAP_BIG = an_offer(8, 6.0)
DEAR_BIG = an_offer(8, 20.0)


@pytest.mark.parametrize(
    ("slots", "offers", "expected"),
    [
        ((3, 3, 3, 3), (FOUR,), {4: 4}),  # a sum of slots would say three
        ((4,), (ONE, FOUR, EIGHT), {4: 1}),
        ((1,), (ONE, EIGHT), {1: 1}),  # no big machine for a small gang
        ((1, 1), (ONE, DEAR_BIG), {1: 2}),
        ((1,) * 8, (ONE, CHEAP_BIG), {8: 1}),  # big where it is cheaper
        ((8, 8), (EIGHT,), {8: 2}),
        ((16,), (EIGHT,), {8: 2}),
        ((16,), (FOUR, CHEAP_BIG), {8: 2}),
        ((16,), (FOUR, DEAR_BIG), {4: 4}),
        ((8,), (FOUR, DEAR_BIG), {4: 2}),  # over two nodes where that is cheaper
        ((8,), (FOUR, EIGHT), {8: 1}),  # but one node at the same price
        ((5, 3), (EIGHT,), {8: 1}),
        ((6,), (FOUR,), {}),  # 6 is no multiple of 4
        ((0,), (ONE, FOUR), {1: 1}),  # a zero-slot task takes the cheapest
        ((0, 0, 4), (ONE, FOUR), {4: 1}),  # or rides along
        ((), (FOUR,), {}),
        ((4,), (), {}),
    ],
)
def test_what_is_bought(
    slots: tuple[int, ...], offers: tuple[Offer, ...], expected: dict[int, int]
) -> None:
    assert bought(plan_of(pool(gangs(*slots), offers))) == expected


def test_a_gang_over_nodes_is_one_launch_on_one_offer() -> None:
    zones = tuple(an_offer(4, 4.0, zone=zone) for zone in "abc")
    (launch,) = plan_of(pool(gangs(16), zones)).launches
    assert launch.count == 4
    assert launch.claims == (("g0",),) * 4


def test_a_single_agent_gang_is_not_split() -> None:
    waiting = (a_gang("g", 8, single_agent=True),)
    assert bought(plan_of(pool(waiting, (FOUR, DEAR_BIG)))) == {8: 1}
    assert bought(plan_of(pool(waiting, (FOUR,)))) == {}


@pytest.mark.parametrize(
    ("slots", "nodes", "machines", "expected"),
    [
        ((4,), (node("n", 4),), (), {}),
        ((4,), (node("n", 4, 3),), (), {4: 1}),
        ((2, 2), (node("n", 4),), (), {}),
        ((4, 4), (), (coming("m", FOUR),), {4: 1}),
        ((8,), (node("n", 4), node("o", 4)), (), {}),
        ((8,), (node("n", 4, facts=FOUR.facts), node("o", 4, 3)), (), {4: 1}),  # topped up
        ((8,), (node("n", 4), node("o", 4, 3)), (), {4: 2}),  # n is somewhere else
        ((8,), (node("n", 4, facts=FOUR.facts),), (coming("m", FOUR),), {}),
        ((8,), (node("n", 4),), (coming("m", FOUR),), {4: 1}),
        ((4,), (node("n", 4, schedulable=False),), (), {4: 1}),
        ((4,), (node("m", 4),), (Machine(name="m", offer=FOUR, phase=MachinePhase.OUT),), {4: 1}),
        ((0,), (node("n", 4, 0),), (), {}),
        ((0,), (node("n", 4, 0, free_aux=0),), (), {4: 1}),
        ((0,), (), (coming("m", FOUR),), {}),
    ],
)
def test_existing_and_coming_capacity_comes_first(
    slots: tuple[int, ...],
    nodes: tuple[Node, ...],
    machines: tuple[Machine, ...],
    expected: dict[int, int],
) -> None:
    assert bought(plan_of(pool(gangs(*slots), nodes=nodes, machines=machines))) == expected


def test_a_node_the_gang_must_avoid_is_no_capacity_for_it() -> None:
    waiting = (replace(a_gang("g", 4), blocked_agents=frozenset({"n"})),)
    assert bought(plan_of(pool(waiting, nodes=(node("n", 4),)))) == {4: 1}
    assert bought(plan_of(pool(waiting, nodes=(node("o", 4),)))) == {}


def test_claims_keep_a_repacking_from_buying_again() -> None:
    """Best fit alone would put the 4 into the 6 and then miss a place for one 3."""
    six, seven = an_offer(6, 6.0), an_offer(7, 7.0)
    waiting = gangs(4, 3, 3, 3)
    owned = (coming("seven", seven, "g0", "g1"), coming("six", six, "g2", "g3"))
    assert not plan_of(pool(waiting, (six, seven), machines=owned)).launches
    unclaimed = tuple(machine._replace(claims=()) for machine in owned)
    assert plan_of(pool(waiting, (six, seven), machines=unclaimed)).launches


def test_a_booting_machine_whose_gang_went_away_serves_another_and_says_so() -> None:
    decision = plan_of(pool(gangs(4), machines=(coming("m", FOUR, "left"),)))
    assert not decision.launches
    assert decision.claims == {"m": ("g0",)}


def test_independent_machines_are_asked_for_in_small_groups() -> None:
    decision = plan_of(pool(gangs(*[4] * 20)))
    assert [launch.count for launch in decision.launches] == [8, 8, 4]


def test_oldest_gangs_of_a_shape_are_served_first() -> None:
    waiting = (a_gang("young", 4, since=50.0), a_gang("old", 4, since=5.0))
    decision = plan_of(pool(waiting, max_instances=1))
    assert decision.launches[0].claims == (("old",),)
    assert decision.reasons["young"].kind is ReasonKind.AT_LIMIT


@pytest.mark.parametrize(
    ("limits", "machines", "expected", "kind"),
    [
        ({"max_instances": 2}, (), {4: 2}, ReasonKind.AT_LIMIT),
        ({"max_instances": 2}, (up("a", FOUR), up("b", FOUR)), {}, ReasonKind.AT_LIMIT),
        (
            {"max_instances": 1},
            (Machine(name="a", offer=FOUR, phase=MachinePhase.OUT),),
            {},
            ReasonKind.AT_LIMIT,
        ),
        ({"budget": Budget(usd_per_hour=8.0)}, (), {4: 2}, ReasonKind.OVER_BUDGET),
        ({"budget": Budget(usd_per_hour=11.0)}, (up("a", FOUR),), {4: 1}, ReasonKind.OVER_BUDGET),
    ],
)
def test_limits_cut_and_are_named(
    limits: dict[str, Any],
    machines: tuple[Machine, ...],
    expected: dict[int, int],
    kind: ReasonKind,
) -> None:
    decision = plan_of(pool(gangs(*[4] * 5), machines=machines, **limits))
    assert bought(decision) == expected
    waiting = [reason for reason in decision.reasons.values() if reason.kind is kind]
    assert len(waiting) == 5 - sum(expected.values())


def test_a_gang_is_bought_whole_or_not_at_all() -> None:
    decision = plan_of(pool(gangs(16), max_instances=3))
    assert not decision.launches
    assert "max_instances" in decision.reasons["g0"].text


def block(*offers: Offer, kind: BlockKind = BlockKind.CAPACITY, at: float = NOW) -> CapacityMemory:
    memory = CapacityMemory()
    for offer in offers:
        memory = memory.refused(scope_of(kind, offer), kind, f"nothing in {offer.key.zone}", now=at)
    return memory


def test_blocked_offers_are_passed_over_for_the_next_best() -> None:
    cheap, dear = an_offer(4, 1.0, zone="a"), an_offer(4, 9.0, zone="b")
    (launch,) = plan_of(pool(gangs(4), (cheap, dear)), memory=block(cheap)).launches
    assert launch.offer == dear


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (BlockKind.CAPACITY, ReasonKind.NO_CAPACITY),
        (BlockKind.QUOTA, ReasonKind.QUOTA),
        (BlockKind.BOOT, ReasonKind.NO_CAPACITY),
    ],
)
def test_blocked_everywhere_names_offers_and_the_next_try(
    kind: BlockKind, reason: ReasonKind
) -> None:
    memory = block(FOUR, kind=kind)
    got = plan_of(pool(gangs(4)), memory=memory).reasons["g0"]
    assert got.kind is reason
    assert "nothing in a" in got.text
    (shut,) = memory.covering(FOUR)
    assert got.retry_at == shut.until


def test_after_a_block_one_probe_for_all_pools_and_only_one() -> None:
    """R9: five hundred gangs, one recovering offer, one call."""
    memory = block(FOUR, at=NOW - 10_000)
    pools = [pool(gangs(*[8] * 100), name=name, max_instances=500) for name in ("p", "q")]
    decision = plan_of(*pools, memory=memory)
    assert len(decision.launches) == 1
    asking = coming("i/0", FOUR, group="i", asking=True)
    again = plan_of(pool(gangs(*[4] * 100), machines=(asking,)), memory=memory)
    assert not again.launches


def test_impossible_gangs_hear_the_nearest_size() -> None:
    reason = plan_of(pool(gangs(6), (FOUR,))).reasons["g0"]
    assert reason.kind is ReasonKind.NO_SUCH_AGENT
    assert "nearest size that fits is 4" in reason.text


@pytest.mark.parametrize(
    ("slots", "single", "sizes", "fit"),
    [
        (6, False, [4], 4),
        (7, False, [4], 8),
        (9, True, [4, 8], 8),
        (9, False, [2, 8], 8),
        (3, True, [0], 0),
    ],
)
def test_nearest_fit(slots: int, single: bool, sizes: list[int], fit: int) -> None:
    assert nearest_fit(slots, single, sizes) == fit


def test_a_held_pool_buys_nothing_and_says_why() -> None:
    decision = plan_of(pool(gangs(4), hold="cannot see", min_instances=2))
    assert not decision.launches
    assert decision.reasons["g0"].text == "cannot see"
    assert not decision.availabilities[0].launchable


def test_the_minimum_is_kept_with_the_cheapest_slots() -> None:
    assert bought(plan_of(pool((), (FOUR, CHEAP_BIG), min_instances=3))) == {8: 3}
    assert bought(plan_of(pool((), machines=(up("a", FOUR),), min_instances=3))) == {4: 2}


@pytest.mark.parametrize(
    ("idle", "limits", "waiting", "expected"),
    [
        ((400.0, 299.0, None), {}, (), ["m0"]),
        ((400.0, 300.0, 400.0), {}, (), ["m0", "m1", "m2"]),
        ((400.0, 300.0, 500.0), {"min_instances": 2}, (), ["m2"]),
        ((400.0, 400.0, 400.0), {"min_instances": 3}, (), []),
        ((400.0, 400.0, 400.0), {}, gangs(4), ["m1", "m2"]),
        ((400.0, 400.0, 400.0), {}, gangs(12), []),
        ((1.0, None, None), {"max_instances": 2}, (), ["m0"]),
    ],
)
def test_idle_machines_go(
    idle: tuple[float | None, ...],
    limits: dict[str, Any],
    waiting: tuple[Gang, ...],
    expected: list[str],
) -> None:
    machines = tuple(up(f"m{i}", FOUR, idle_s) for i, idle_s in enumerate(idle))
    nodes = tuple(node(f"m{i}", 4, 4 if idle_s is not None else 0) for i, idle_s in enumerate(idle))
    decision = plan_of(pool(waiting, nodes=nodes, machines=machines, **limits))
    ended = sorted(termination.instance_id for termination in decision.terminations)
    assert len(ended) == len(expected)
    if not waiting:  # else which of the equal nodes is kept for the gang is the planner's choice
        assert ended == expected


def test_the_dearest_idle_machine_goes_first() -> None:
    dear = an_offer(4, 40.0, zone="b")
    machines = (up("cheap", FOUR, 900.0), up("dear", dear, 400.0))
    nodes = (node("cheap", 4), node("dear", 4))
    decision = plan_of(pool(nodes=nodes, machines=machines, min_instances=1))
    assert [x.instance_id for x in decision.terminations] == ["dear"]


def test_the_outlook_counts_what_comes_and_what_could() -> None:
    decision = plan_of(pool(gangs(4, 4), machines=(coming("m", FOUR, "g0"),), max_instances=5))
    (availability,) = decision.availabilities
    assert [(b.instance_id, b.slots) for b in availability.booting] == [("m", 4)]
    assert (
        sum(x.count for x in availability.launchable) == 4
    )  # one bought now, three still possible
    assert set(availability.reasons) == {"g0", "g1"}
    closed = plan_of(pool(gangs(4), max_instances=5), memory=block(FOUR))
    assert not closed.availabilities[0].launchable


def test_reasons_name_the_machine_and_its_age() -> None:
    machines = (coming("m-1", FOUR, "g0", age_s=12.0), coming("i/0", FOUR, "g1", asking=True))
    reasons = plan_of(pool(gangs(4, 4), machines=machines)).reasons
    assert "m-1 booting for 12 s, ready in about 30 s" in reasons["g0"].text
    assert "launching 1 x gpu-4" in reasons["g1"].text


offer_lists = st.lists(
    st.builds(
        lambda slots, price, zone: an_offer(slots, price, zone=zone),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from([0.5, 1.0, 3.0, 8.0]),
        st.sampled_from(["a", "b"]),
    ),
    max_size=6,
    unique_by=lambda offer: offer.key,
)
gang_lists = st.lists(
    st.builds(
        lambda slots, single: (slots, single),
        st.sampled_from([0, 1, 2, 3, 4, 8, 16]),
        st.booleans(),
    ),
    max_size=40,
)
machine_lists = st.lists(
    st.tuples(
        st.sampled_from([MachinePhase.COMING, MachinePhase.UP, MachinePhase.OUT]),
        st.integers(0, 4),
        st.sampled_from([None, 10.0, 500.0]),
    ),
    max_size=8,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    shapes=gang_lists,
    offers=offer_lists,
    machines=machine_lists,
    most=st.integers(0, 12),
    least=st.integers(0, 3),
    budget=st.sampled_from([None, 0.0, 10.0]),
)
def test_every_plan_keeps_its_promises(
    shapes: list[tuple[int, bool]],
    offers: list[Offer],
    machines: list[tuple[MachinePhase, int, float | None]],
    most: int,
    least: int,
    budget: float | None,
) -> None:
    waiting = tuple(
        a_gang(f"g{i}", slots, single_agent=single) for i, (slots, single) in enumerate(shapes)
    )
    nodes, owned = [], []
    for i, (phase, used, idle_s) in enumerate(machines):
        idle = idle_s if phase is MachinePhase.UP and used == 0 else None
        owned.append(Machine(name=f"m{i}", offer=FOUR, phase=phase, idle_s=idle))
        if phase is MachinePhase.UP:
            nodes.append(node(f"m{i}", 4, 4 - used))
    given_pool = pool(
        waiting,
        tuple(offers),
        nodes=tuple(nodes),
        machines=tuple(owned),
        max_instances=most,
        min_instances=min(least, most),
        budget=Budget(usd_per_hour=budget),
    )
    decision = plan_of(given_pool)

    assert set(decision.reasons) == {gang.request_id for gang in waiting}
    new = sum(launch.count for launch in decision.launches)
    assert new == 0 or new + len(owned) <= most
    if budget is not None and decision.launches:
        owed = sum(m.offer.usd_per_hour for m in owned)
        assert (
            owed + sum(x.offer.usd_per_hour * x.count for x in decision.launches) <= budget + 1e-6
        )
    by_id = {gang.request_id: gang for gang in waiting}
    holders: Counter[str] = Counter()
    for launch in decision.launches:
        for claims in launch.claims:
            holders.update(claims)
            held = [by_id[id_].slots for id_ in claims if by_id[id_].slots]
            assert sum(held) <= launch.offer.slots or len(held) == 1
    for request_id, count in holders.items():
        gang = by_id[request_id]
        (launch,) = [x for x in decision.launches if any(request_id in c for c in x.claims)]
        assert count <= (nodes_needed(gang.slots, gang.single_agent, launch.offer.slots) or 0)
        assert decision.reasons[request_id].kind is ReasonKind.LAUNCHING
    ended = {termination.instance_id for termination in decision.terminations}
    assert all(machine.idle_s is not None for machine in owned if machine.name in ended)
    alive = sum(machine.phase is not MachinePhase.OUT for machine in owned)
    assert not ended or alive - len(ended) >= min(least, most)

    # The same demand on what was just bought buys nothing more (R13).
    bought_machines = tuple(
        Machine(
            name=f"i{i}/{j}", offer=x.offer, phase=MachinePhase.COMING, group=f"i{i}", claims=claims
        )
        for i, x in enumerate(decision.launches)
        for j, claims in enumerate(x.claims)
    )
    kept = tuple(
        machine._replace(claims=decision.claims.get(machine.name, machine.claims))
        for machine in owned
    )
    again = plan_of(replace(given_pool, machines=(*kept, *bought_machines)))
    assert not again.launches
    assert set(again.reasons) == set(decision.reasons)
