"""Which offers a gang may buy, and in which order: what is reserved, spot, on-demand; what jobs ask; one zone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.money.budgets import Budget
from provisioner.money.expected_cost import DEFAULT_RUN_S, run_bucket_s, usd_per_hour
from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.types import (
    Gang,
    Market,
    Node,
    Offer,
    PoolDemand,
    PoolSettings,
    Requirements,
)
from tests.examples import examples
from tests.fakes.fleet_world import a_gang, an_offer

NOW = 10_000.0
SPOT_A = an_offer(4, 2.0, zone="a", market=Market.SPOT)
SPOT_B = an_offer(4, 2.5, zone="b", market=Market.SPOT)
ON_DEMAND = an_offer(4, 6.0, zone="a")
RESERVED = replace(
    an_offer(4, 6.0, zone="c", market=Market.RESERVED),
    key=replace(an_offer(4, zone="c", market=Market.RESERVED).key, reservation="cr-1"),
)
BOTH = (SPOT_A, SPOT_B, ON_DEMAND)


def young(name: str = "g", slots: int = 4, **more: Any) -> Gang:
    return a_gang(name, slots, since=NOW - 10.0, **more)


def pool_of(
    waiting: tuple[Gang, ...],
    offers: tuple[Offer, ...] = BOTH,
    *,
    machines: tuple[Machine, ...] = (),
    nodes: tuple[Node, ...] = (),
    usd_per_hour_limit: float | None = None,
    **keys: Any,
) -> PoolInput:
    keys |= {"budget": Budget(usd_per_hour=usd_per_hour_limit)}
    return PoolInput(
        settings=PoolSettings(pool="gpu", **({"max_instances": 100} | keys)),
        offers=offers,
        demand=PoolDemand(pool="gpu", gangs=waiting, nodes=nodes),
        machines=machines,
    )


def plan_of(pool: PoolInput, memory: CapacityMemory | None = None, now: float = NOW) -> Plan:
    return plan(PlanInput(now=now, pools=(pool,), memory=memory or CapacityMemory()))


def refused(
    *offers: Offer, kind: BlockKind = BlockKind.CAPACITY, at: float = NOW, **more: Any
) -> CapacityMemory:
    memory = CapacityMemory()
    for offer in offers:
        memory = memory.refused(scope_of(kind, offer), kind, "none left", now=at, **more)
    return memory


def bought(decision: Plan) -> list[tuple[Offer, int]]:
    return [(launch.offer, launch.count) for launch in decision.launches]


@pytest.mark.parametrize(
    ("offers", "shut", "expected"),
    [
        ((*BOTH, RESERVED), (), RESERVED),
        ((*BOTH, RESERVED), (RESERVED,), SPOT_A),
        (BOTH, (SPOT_A,), SPOT_B),
        (BOTH, (SPOT_A, SPOT_B), ON_DEMAND),
        (BOTH, (SPOT_A, SPOT_B, ON_DEMAND), None),
        ((ON_DEMAND,), (), ON_DEMAND),
    ],
)
def test_reserved_first_then_every_spot_offer_then_on_demand(
    offers: tuple[Offer, ...], shut: tuple[Offer, ...], expected: Offer | None
) -> None:
    decision = plan_of(pool_of((young(),), offers), refused(*shut))
    assert [offer for offer, _ in bought(decision)] == ([] if expected is None else [expected])


def test_spot_that_is_dearer_than_on_demand_with_all_it_brings_is_passed_over() -> None:
    often = replace(SPOT_A, usd_per_hour=5.0, interruptions_per_hour=2.0)
    assert bought(plan_of(pool_of((young(),), (often, ON_DEMAND)))) == [(ON_DEMAND, 1)]
    rarely = replace(often, interruptions_per_hour=0.01)
    assert bought(plan_of(pool_of((young(),), (rarely, ON_DEMAND)))) == [(rarely, 1)]


def test_while_spot_is_being_tried_on_demand_waits_and_says_until_when() -> None:
    memory = refused(SPOT_A, SPOT_B, at=NOW - 500.0)
    waiting = tuple(a_gang(f"g{i}", 4, since=NOW - 100.0) for i in range(40))
    decision = plan_of(pool_of(waiting), memory)
    assert {offer.key.zone for offer, _ in bought(decision)} == {"a", "b"}
    assert {offer.key.market for offer, _ in bought(decision)} == {Market.SPOT}
    reason = decision.reasons["g39"]
    assert reason.kind is ReasonKind.NO_CAPACITY
    assert reason.text.startswith(
        "waiting for spot capacity until 02:50:00 UTC, then on-demand is bought; gpu-4 in a (spot): none left"
    )


def test_who_has_waited_long_enough_gets_on_demand_others_do_not() -> None:
    asking = Machine(
        name="i/0", offer=SPOT_A, phase=MachinePhase.COMING, group="i", asking=True, claims=("z",)
    )
    waiting = (a_gang("old", 4, since=NOW - 301.0), young("young"), a_gang("z", 4, since=NOW))
    memory = refused(SPOT_A, at=NOW - 500.0)
    offers = (SPOT_A, ON_DEMAND)
    decision = plan_of(pool_of(waiting, offers, machines=(asking,)), memory)
    assert [launch.claims for launch in decision.launches] == [(("old",),)]
    assert decision.launches[0].offer == ON_DEMAND
    at_once = plan_of(pool_of(waiting, offers, machines=(asking,), on_demand_after_s=0.0), memory)
    assert {x for launch in at_once.launches for c in launch.claims for x in c} == {"old", "young"}


BIG = replace(an_offer(8, 30.0, name="big"), gpu_model="H100", gpu_memory_mib=81_920)
SMALL = replace(an_offer(4, 4.0, name="small"), gpu_model="T4", gpu_memory_mib=15_360)


@pytest.mark.parametrize(
    ("wishes", "slots", "expected"),
    [
        ({}, 4, [(SMALL, 1)]),
        ({"gpu_models": frozenset({"H100"})}, 4, [(BIG, 1)]),
        ({"min_gpu_memory_mib": 40_960}, 8, [(BIG, 1)]),
        ({"max_usd_per_hour": 10.0}, 8, [(SMALL, 2)]),
        ({"max_usd_per_hour": 7.0}, 8, []),
        ({"markets": frozenset({Market.SPOT})}, 4, []),
        ({"placement_group": True}, 16, []),
        ({"placement_group": True}, 8, [(BIG, 1)]),
    ],
)
def test_what_a_job_asks_of_its_machines_is_bought_or_nothing_is(
    wishes: dict[str, Any], slots: int, expected: list[tuple[Offer, int]]
) -> None:
    gang = young(slots=slots, requires=Requirements(**wishes))
    decision = plan_of(pool_of((gang,), (SMALL, BIG)))
    assert bought(decision) == expected
    if not expected:
        assert decision.reasons["g"].kind is ReasonKind.NO_SUCH_AGENT
        assert decision.reasons["g"].text.startswith("Requested ")


def test_a_placement_group_is_bought_as_one() -> None:
    close = replace(SMALL, usd_per_hour=5.0, key=replace(SMALL.key, placement="pg-1"))
    gang = young(slots=8, requires=Requirements(placement_group=True))
    assert bought(plan_of(pool_of((gang,), (SMALL, close)))) == [(close, 2)]


def test_free_machines_serve_only_who_wants_what_they_are() -> None:
    node = Node(agent_id="m", pool="gpu", slots=4, free_slots=4)
    up = Machine(name="m", offer=SMALL, phase=MachinePhase.UP)
    wants = Requirements(gpu_models=frozenset({"H100"}))
    waiting = (young("picky", requires=wants), young("any"))
    decision = plan_of(pool_of(waiting, (SMALL, BIG), machines=(up,), nodes=(node,)))
    assert [launch.claims for launch in decision.launches] == [(("picky",),)]
    assert decision.reasons["any"].text == "fits the free slots of m; it starts next"


def test_a_gang_tops_up_in_the_zone_where_its_other_machines_are() -> None:
    here, there = an_offer(4, 4.0, zone="a"), an_offer(4, 5.0, zone="b")
    node = Node(agent_id="m", pool="gpu", slots=4, free_slots=4)
    up = Machine(name="m", offer=there, phase=MachinePhase.UP)
    decision = plan_of(pool_of((young(slots=8),), (here, there), machines=(up,), nodes=(node,)))
    assert bought(decision) == [(there, 1)]


def test_part_filled_machines_whose_gangs_fit_elsewhere_are_left_out() -> None:
    """Each of two wishes buys a machine of its own; one is enough for both."""
    wants = Requirements(gpu_models=frozenset({"T4"}))
    waiting = (young("a", 2, requires=wants), young("b", 2))
    decision = plan_of(pool_of(waiting, (SMALL,)))
    assert [launch.claims for launch in decision.launches] == [(("a", "b"),)]


@pytest.mark.parametrize(
    ("run_s", "expected"), [(300.0, "quick"), (None, "cheap"), (36_000.0, "cheap")]
)
def test_short_work_takes_what_boots_fast_long_work_what_is_cheap(
    run_s: float | None, expected: str
) -> None:
    quick = an_offer(4, 5.0, name="quick", boot_s=30.0)
    cheap = an_offer(4, 4.0, name="cheap", boot_s=600.0)
    decision = plan_of(pool_of((young(run_time_s=run_s),), (quick, cheap)))
    assert [offer.key.instance_type for offer, _ in bought(decision)] == [expected]


def test_the_expected_cost_counts_boots_waiting_and_lost_work() -> None:
    keys: dict[str, Any] = {"run_s": 3600.0, "slot_usd": 1.5, "now": NOW}
    assert usd_per_hour(ON_DEMAND, boot_s=0.0, **keys) == 6.0
    booting = usd_per_hour(ON_DEMAND, boot_s=360.0, **keys)
    assert booting == pytest.approx(6.0 + 0.6 + 0.1 * 1.5 * 4 * 0.1)
    late = replace(ON_DEMAND, starts_at=NOW + 3600.0)
    assert usd_per_hour(late, boot_s=0.0, **keys) == pytest.approx(6.0 + 0.1 * 1.5 * 4)
    lost = replace(ON_DEMAND, interruptions_per_hour=0.5)
    assert usd_per_hour(lost, boot_s=0.0, **keys) == pytest.approx(6.0 + 6.0 * 0.5 * 960 / 3600)
    assert run_bucket_s(None) == DEFAULT_RUN_S
    assert [run_bucket_s(s) for s in (1.0, 60.0, 130.0, 3600.0)] == [60.0, 60.0, 120.0, 1920.0]


def test_what_is_reserved_is_told_to_the_scheduler_and_serves_the_minimum() -> None:
    decision = plan_of(pool_of((), (RESERVED,), min_instances=2, max_instances=5))
    assert bought(decision) == [(RESERVED, 2)]
    (told,) = decision.availabilities
    assert sum(node.count for node in told.launchable) == 5
    mixed = plan_of(pool_of((), (*BOTH, RESERVED), min_instances=1))
    assert bought(mixed) == [(RESERVED, 1)]


def test_a_recovering_offer_is_probed_with_one_machine_if_somebody_needs_but_one() -> None:
    memory = refused(ON_DEMAND, at=NOW - 500.0)
    gang, one = young("gang", 8), young("one", 4)
    probe = plan_of(pool_of((gang, one), (ON_DEMAND,)), memory)
    assert [launch.claims for launch in probe.launches] == [(("one",),)]
    alone = plan_of(pool_of((gang,), (ON_DEMAND,)), memory)
    assert [launch.count for launch in alone.launches] == [2]


def test_one_probe_for_all_even_if_they_want_different_things() -> None:
    memory = refused(SMALL, at=NOW - 500.0)
    wants = Requirements(gpu_models=frozenset({"T4"}))
    waiting = (young("a", 4, requires=wants), young("b", 4), young("c", 8))
    decision = plan_of(pool_of(waiting, (SMALL,)), memory)
    assert [launch.count for launch in decision.launches] == [1]


@pytest.mark.parametrize(
    ("kind", "more", "text", "reason"),
    [
        (
            BlockKind.QUOTA,
            {"quota": "G and VT instances", "number": 64.0},
            "gpu-4 in a: quota G and VT instances (limit 64) is used up: none left; retrying at 02:56:40 UTC",
            ReasonKind.QUOTA,
        ),
        (
            BlockKind.AUTH,
            {},
            "cloud does not accept the cluster's credentials: none left; retrying at 02:47:40 UTC",
            ReasonKind.CREDENTIALS,
        ),
        (
            BlockKind.CONFIG,
            {},
            "cloud refuses the pool's configuration: none left; tried again when the configuration has changed",
            ReasonKind.MISCONFIGURED,
        ),
        (
            BlockKind.THROTTLED,
            {},
            "cloud is throttling calls: none left; retrying at 02:46:41 UTC",
            ReasonKind.THROTTLED,
        ),
        (
            BlockKind.TRANSIENT,
            {},
            "cloud cannot be reached or has failed: none left; retrying at 02:46:41 UTC",
            ReasonKind.UNREACHABLE,
        ),
    ],
)
def test_a_refusal_is_one_sentence_for_the_user(
    kind: BlockKind, more: dict[str, Any], text: str, reason: ReasonKind
) -> None:
    got = plan_of(pool_of((young(),), (ON_DEMAND,)), refused(ON_DEMAND, kind=kind, **more))
    assert (got.reasons["g"].text, got.reasons["g"].kind) == (text, reason)


def test_the_budget_is_named_with_what_it_would_take() -> None:
    decision = plan_of(pool_of((young(),), (ON_DEMAND,), usd_per_hour_limit=5.0))
    assert decision.reasons["g"].text == (
        "over budget: pool gpu may cost 5.00 USD per hour, this needs 6.00"
    )


OFFERS = st.lists(
    st.builds(
        lambda slots, usd, zone, market, model, boot_s, lost: replace(
            an_offer(slots, usd, zone=zone, market=market, boot_s=boot_s),
            gpu_model=model,
            interruptions_per_hour=lost if market is Market.SPOT else 0.0,
        ),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from([0.0, 1.0, 3.0, 9.0]),
        st.sampled_from("ab"),
        st.sampled_from([Market.SPOT, Market.ON_DEMAND, Market.RESERVED]),
        st.sampled_from(["", "T4", "H100"]),
        st.sampled_from([30.0, 300.0]),
        st.sampled_from([0.0, 1.0]),
    ),
    max_size=8,
    unique_by=lambda offer: offer.key,
)
WISHES = st.sampled_from(
    [
        Requirements(),
        Requirements(gpu_models=frozenset({"H100"})),
        Requirements(markets=frozenset({Market.SPOT})),
        Requirements(max_usd_per_hour=6.0),
        Requirements(placement_group=True, may_fall_back=False),
    ]
)
GANGS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 3, 4, 8, 16]),
        st.booleans(),
        st.sampled_from([0.0, NOW - 10.0]),
        WISHES,
        st.sampled_from([None, 120.0, 7200.0]),
    ),
    max_size=25,
)
REFUSALS = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(list(BlockKind)), st.sampled_from([0.0, NOW])),
    max_size=5,
)


@pytest.mark.slow
@settings(max_examples=examples(250), deadline=None)
@given(
    shapes=GANGS,
    offers=OFFERS,
    refusals=REFUSALS,
    most=st.integers(0, 12),
    budget=st.sampled_from([None, 12.0]),
)
def test_under_any_faults_plans_are_lawful_explained_repeatable_and_move_on(
    shapes: list[tuple[int, bool, float, Requirements, float | None]],
    offers: list[Offer],
    refusals: list[tuple[int, BlockKind, float]],
    most: int,
    budget: float | None,
) -> None:
    waiting = tuple(
        a_gang(f"g{i}", s, single_agent=one, since=since, requires=wants, run_time_s=run_s)
        for i, (s, one, since, wants, run_s) in enumerate(shapes)
    )
    memory = CapacityMemory()
    for number, kind, at in refusals:
        if offers:
            offer = offers[number % len(offers)]
            memory = memory.refused(scope_of(kind, offer), kind, "no", now=at)
    given_pool = pool_of(waiting, tuple(offers), max_instances=most, usd_per_hour_limit=budget)
    decision = plan_of(given_pool, memory)
    assert plan_of(given_pool, memory) == decision

    assert set(decision.reasons) == {gang.request_id for gang in waiting}
    assert all(reason.text for reason in decision.reasons.values())
    launched = [launch.offer for launch in decision.launches for _ in range(launch.count)]
    assert len(launched) <= most
    assert budget is None or sum(o.usd_per_hour for o in launched) <= budget + 1e-6
    by_id = {gang.request_id: gang for gang in waiting}
    for launch in decision.launches:
        # Where machines are taken back others are bought for whom nothing else serves.
        shut = [block for block in memory.covering(launch.offer) if block.is_shut(NOW)]
        assert all(block.kind is BlockKind.TAKEN_BACK for block in shut)
        for claims in launch.claims:
            for request_id in claims:
                gang = by_id[request_id]
                machines = max(1, -(-gang.slots // max(1, launch.offer.slots)))
                assert gang.requires.are_met_by(launch.offer.facts, machines)
    probes = [
        {block.scope for block in memory.covering(launch.offer)} for launch in decision.launches
    ]
    assert not any(one & other for i, one in enumerate(probes) for other in probes[:i])

    coming = tuple(
        Machine(
            name=f"i{i}/{j}",
            offer=x.offer,
            phase=MachinePhase.COMING,
            group=f"i{i}",
            asking=True,
            claims=claims,
        )
        for i, x in enumerate(decision.launches)
        for j, claims in enumerate(x.claims)
    )
    again = plan_of(replace(given_pool, machines=coming), memory)
    assert not again.launches
    assert set(again.reasons) == set(decision.reasons)

    # Progress: who waits although an offer that suits is open and affordable waits for the answer of a probe or spot.
    if not decision.launches and most and budget is None:
        for gang in waiting:
            able = [
                o for o in offers if 0 < gang.slots <= o.slots and gang.requires.are_met_by(o.facts)
            ]
            assert all(memory.is_shut(offer, NOW) for offer in able)
