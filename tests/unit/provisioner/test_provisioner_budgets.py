"""Budgets: nothing is launched above one, of whatever it is, by the hour and by the month; and words that say so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from provisioner.money.budgets import (
    NO_BUDGETS,
    Budget,
    ClusterBudget,
    PoolBudget,
    Spending,
    UserSpending,
    WhenSpent,
)
from provisioner.planning.budget_views import budget_views
from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.types import Gang, Node, Offer, PoolDemand, PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, VirtualTimeLoop


def node(name: str, slots: int, free: int | None = None, **more: Any) -> Node:
    free = slots if free is None else free
    return Node(agent_id=name, pool="gpu", slots=slots, free_slots=free, busy=free < slots, **more)


def up(name: str, offer: Offer, idle_s: float | None = None, **more: Any) -> Machine:
    return Machine(name=name, offer=offer, phase=MachinePhase.UP, idle_s=idle_s, **more)


def coming(name: str, offer: Offer, *claims: str, **more: Any) -> Machine:
    return Machine(name=name, offer=offer, phase=MachinePhase.COMING, claims=claims, **more)


def pool(
    waiting: tuple[Gang, ...],
    offers: tuple[Offer, ...],
    *,
    nodes: tuple[Node, ...] = (),
    machines: tuple[Machine, ...] = (),
    name: str = "gpu",
    **limits: Any,
) -> PoolInput:
    return PoolInput(
        settings=PoolSettings(pool=name, max_instances=100, **limits),
        offers=offers,
        demand=PoolDemand(pool=name, gangs=waiting, nodes=nodes),
        machines=machines,
    )


def bought(decision: Plan) -> dict[int, int]:
    """Slots of a machine -> how many are bought."""
    counts: dict[int, int] = {}
    for launch in decision.launches:
        counts[launch.offer.slots] = counts.get(launch.offer.slots, 0) + launch.count
    return counts


HOUR = 3600.0
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC).timestamp()
LAST_HOUR = datetime(2026, 11, 30, 23, tzinfo=UTC).timestamp()
FOUR = an_offer(4, 4.0, boot_s=0.0)
DEAR = an_offer(4, 40.0, name="dear", boot_s=0.0)


def planned(
    *pools: PoolInput,
    now: float = NOON,
    budgets: ClusterBudget = NO_BUDGETS,
    spent: dict[str, float] | None = None,
    users: UserSpending | None = None,
) -> Plan:
    spending = Spending(pools=spent or {}, users=users or UserSpending(at=now))
    return plan(PlanInput(now=now, pools=pools, budget=budgets, spending=spending))


def gangs(count: int, *, slots: int = 4, **more: Any) -> tuple[Gang, ...]:
    return tuple(a_gang(f"g{i}", slots, since=float(i), **more) for i in range(count))


def of_month(usd: float) -> Budget:
    return Budget(usd_per_month=usd)


def test_a_month_commits_what_is_launched_for_as_long_as_it_will_live() -> None:
    keys: dict[str, Any] = {"budget": of_month(20.0), "max_idle_s": 0.0}
    assert bought(planned(pool(gangs(9), (FOUR,), **keys), spent={"gpu": 7.0})) == {4: 3}
    running = (up("a", FOUR, age_s=1800.0), coming("b", FOUR, age_s=0.0))
    nodes = (node("a", 4, 0),)
    more = pool(gangs(9), (FOUR,), nodes=nodes, machines=running, **keys)
    # 7 are spent, 2 and 4 committed: 7 are left for machines that will cost 4 each.
    decision = planned(more, spent={"gpu": 7.0})
    assert bought(decision) == {4: 1}


def test_only_what_is_left_of_the_month_counts_and_the_next_begins_anew() -> None:
    keys: dict[str, Any] = {"budget": of_month(20.0), "max_idle_s": 0.0}
    late = planned(pool(gangs(9), (FOUR,), **keys), now=LAST_HOUR + 1800, spent={"gpu": 14.0})
    assert bought(late) == {4: 3}
    spent = planned(pool(gangs(1), (FOUR,), **keys), now=LAST_HOUR, spent={"gpu": 20.0})
    reason = spent.reasons["g0"]
    assert reason.kind is ReasonKind.OVER_BUDGET
    assert reason.retry_at == LAST_HOUR + HOUR
    assert reason.text == (
        "over budget: pool gpu may cost 20.00 USD per month, 20.00 are spent and this needs 4.00; "
        "the next month begins on 1 December, 00:00 UTC"
    )


def test_a_reason_says_what_is_in_use_and_what_is_needed() -> None:
    machines = (up("a", FOUR),)
    full = pool(
        gangs(1),
        (FOUR,),
        nodes=(node("a", 4, 0),),
        machines=machines,
        budget=Budget(usd_per_hour=7),
    )
    reason = planned(full).reasons["g0"]
    assert reason.kind is ReasonKind.OVER_BUDGET
    assert "pool gpu may cost 7.00 USD per hour, 4.00 are in use and this needs 4.00" in reason.text


def test_pools_share_the_budget_of_the_cluster() -> None:
    one = pool(gangs(2), (FOUR,), name="one")
    two = pool(
        tuple(replace(g, pool="two", request_id=f"t{i}") for i, g in enumerate(gangs(2))),
        (FOUR,),
        name="two",
    )
    decision = planned(one, two, budgets=ClusterBudget(usd_per_hour=12.0))
    assert bought(decision) == {4: 3}
    (waiting,) = [r for r in decision.reasons.values() if r.kind is ReasonKind.OVER_BUDGET]
    assert "the cluster may cost 12.00 USD per hour" in waiting.text


def test_a_dear_offer_is_left_out_and_a_cheap_one_taken() -> None:
    tight = pool(gangs(1), (DEAR, FOUR), budget=Budget(usd_per_hour=10.0))
    assert [x.offer for x in planned(tight).launches] == [FOUR]


def test_users_pay_for_their_shares_and_others_go_on() -> None:
    budgets = ClusterBudget(each_user=Budget(usd_per_hour=5.0), users={"bob": Budget()})
    ann, bob = (
        gangs(3, user="ann"),
        tuple(replace(g, request_id=f"b{i}", user="bob") for i, g in enumerate(gangs(3))),
    )
    decision = planned(pool((*ann, *bob), (FOUR,)), budgets=budgets)
    assert bought(decision) == {4: 4}
    over = {id_ for id_, r in decision.reasons.items() if r.kind is ReasonKind.OVER_BUDGET}
    assert over == {"g1", "g2"}
    assert "the work of ann may cost 5.00 USD per hour" in decision.reasons["g2"].text
    (told,) = decision.availabilities
    assert told.reasons["g2"] == decision.reasons["g2"]


def test_half_of_a_machine_is_half_of_its_price() -> None:
    budgets = ClusterBudget(each_user=Budget(usd_per_hour=4.0))
    decision = planned(pool(gangs(3, slots=2, user="ann"), (FOUR,)), budgets=budgets)
    assert bought(decision) == {4: 1}
    assert decision.reasons["g2"].kind is ReasonKind.OVER_BUDGET


def test_what_a_user_holds_and_waits_for_counts() -> None:
    budgets = ClusterBudget(each_user=Budget(usd_per_hour=9.0))
    waiting = gangs(3, user="ann")
    machines = (up("a", FOUR), coming("b", FOUR, "g0"))
    nodes = (node("a", 4, 0, users={"ann": 4}),)
    decision = planned(pool(waiting, (FOUR,), nodes=nodes, machines=machines), budgets=budgets)
    assert bought(decision) == {}
    assert decision.reasons["g0"].kind is ReasonKind.LAUNCHING
    assert "9.00 USD per hour, 8.00 are in use" in decision.reasons["g1"].text


def test_the_month_of_a_user_is_extended_to_now_and_ends() -> None:
    users = UserSpending(at=NOON - HOUR, month_usd={"ann": 8.0})
    assert users.month_usd_of("ann", NOON, 2.0) == pytest.approx(10.0)
    assert users.month_usd_of("ann", LAST_HOUR + 2 * HOUR, 2.0) == pytest.approx(2.0)
    spent = planned(
        pool(gangs(1, user="ann"), (FOUR,)),
        budgets=ClusterBudget(each_user=of_month(11.0)),
        users=users,
    )
    assert (
        "the work of ann may cost 11.00 USD per month, 8.00 are spent" in spent.reasons["g0"].text
    )


@pytest.mark.parametrize("when", list(WhenSpent))
def test_running_work_is_kept_or_asked_to_leave_in_time(when: WhenSpent) -> None:
    machines = (up("busy", FOUR), up("idle", FOUR, 1.0))
    nodes = (node("busy", 4, 0), node("idle", 4))
    budget = PoolBudget(usd_per_month=100.0, when_spent=when)
    decision = planned(
        pool((), (FOUR,), nodes=nodes, machines=machines, budget=budget, min_instances=2),
        spent={"gpu": 99.0},
    )
    preempted = when is WhenSpent.PREEMPT
    assert set(decision.leaving) == ({"busy"} if preempted else set())
    assert {x.instance_id for x in decision.terminations} == ({"idle"} if preempted else set())
    if preempted:
        by, why = decision.leaving["busy"]
        assert by == NOON + 600
        assert why == "the budget of pool gpu is spent (100.00 USD per month)"
    early = planned(
        pool((), (FOUR,), nodes=nodes, machines=machines, budget=budget), spent={"gpu": 90.0}
    )
    assert not early.leaving


MONEY = st.none() | st.floats(0, 60)


@given(
    sizes=st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["ann", "bob"])), max_size=12),
    of_pool=st.tuples(MONEY, MONEY),
    of_cluster=st.tuples(MONEY, MONEY),
    of_users=st.tuples(MONEY, MONEY),
    spent=st.floats(0, 60),
    running=st.integers(0, 3),
    left_of_month_s=st.floats(1, 7 * 86400),
)
def test_no_plan_goes_above_a_budget(
    sizes: list[tuple[int, str]],
    of_pool: tuple[float | None, float | None],
    of_cluster: tuple[float | None, float | None],
    of_users: tuple[float | None, float | None],
    spent: float,
    running: int,
    left_of_month_s: float,
) -> None:
    def budget(pair: tuple[float | None, float | None]) -> Budget:
        return Budget(usd_per_hour=pair[0], usd_per_month=pair[1])

    now = LAST_HOUR + HOUR - left_of_month_s
    waiting = tuple(
        a_gang(f"g{i}", slots, since=float(i), user=user) for i, (slots, user) in enumerate(sizes)
    )
    machines = tuple(up(f"m{i}", FOUR) for i in range(running))
    nodes = tuple(node(f"m{i}", 4, 0) for i in range(running))
    offers = (FOUR, an_offer(1, 1.5, boot_s=0.0), an_offer(8, 6.0, boot_s=0.0))
    decision = planned(
        pool(
            waiting, offers, nodes=nodes, machines=machines, budget=budget(of_pool), max_idle_s=0.0
        ),
        now=now,
        budgets=ClusterBudget(
            usd_per_hour=of_cluster[0], usd_per_month=of_cluster[1], each_user=budget(of_users)
        ),
        spent={"gpu": spent},
    )
    assert set(decision.reasons) == {gang.request_id for gang in waiting}
    rate = sum(x.offer.usd_per_hour * x.count for x in decision.launches)
    hours = min(HOUR, left_of_month_s) / HOUR
    for limit, month in (of_pool, of_cluster):
        if rate and limit is not None:
            assert rate + 4.0 * running <= limit + 1e-6
        if rate and month is not None:
            assert spent + (rate + 4.0 * running) * hours <= month + 1e-6
    by_id = {gang.request_id: gang for gang in waiting}
    for user in ("ann", "bob"):
        shares = 0.0
        for launch in decision.launches:
            for claims in launch.claims:
                held = [by_id[id_] for id_ in claims]
                slots = sum(min(g.slots, launch.offer.slots) for g in held if g.user == user)
                shares += launch.offer.usd_per_hour * slots / launch.offer.slots
        limit, month = of_users
        if shares and limit is not None:
            assert shares <= limit + 1e-6
        if shares and month is not None:
            assert shares * hours <= month + 1e-6


def on_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work)


async def _work_until(world: FleetWorld, end: datetime) -> set[ReasonKind]:
    """Three gangs come every hour; each runs for 50 minutes at most. The reasons that were seen."""
    seen: set[ReasonKind] = set()
    began: dict[str, float] = {}
    number = 0
    while (now := world.clock.now()) < end:
        if now.minute < 10:
            await world.want(*(a_gang(f"{now:%d-%H}-{number + i}", 4) for i in range(3)))
            number += 3
        for request_id in [*world.host.placed]:
            if now.timestamp() - began.setdefault(request_id, now.timestamp()) >= 2400.0:
                world.host.waiting.clear()  # what waits would go on where this has ended: no launch
                world.host.finish(request_id)
        await asyncio.sleep(600)
        seen |= {reason.kind for reason in world.host.reasons.values()}
    return seen


@pytest.mark.slow
def test_a_month_ends_below_its_budget_and_the_next_one_begins() -> None:
    async def days() -> None:
        settings = PoolSettings(
            pool="gpu", max_instances=20, max_idle_s=120.0, budget=of_month(20.0)
        )
        world = FleetWorld(
            LoopClock(datetime(2026, 1, 31, 20, tzinfo=UTC)), [FOUR], settings=settings
        )
        await world.start()
        seen = await _work_until(world, datetime(2026, 1, 31, 23, 30, tzinfo=UTC))
        spent = world.provisioner.cost().spent_usd
        assert 15.0 < spent <= 20.0
        assert ReasonKind.OVER_BUDGET in seen
        await world.crash()
        await world.start()
        world.host.waiting.clear()
        await world.want(a_gang("next", 4))
        await world.until(lambda: "next" in world.host.placed, limit_s=2 * HOUR)
        assert world.clock.now().month == 2
        await world.stop()

    on_virtual_time(days())


def test_budgets_are_shown_with_what_counts_against_them() -> None:
    month, hour = PoolBudget(usd_per_month=100.0), Budget(usd_per_hour=5.0)
    machines = (up("m", an_offer(4, 8.0)), coming("n", an_offer(4, 2.0)))
    state = PlanInput(
        now=0.0,
        pools=(
            PoolInput(
                settings=PoolSettings(pool="gpu", budget=month),
                offers=(),
                demand=PoolDemand(pool="gpu"),
                machines=machines,
            ),
            PoolInput(
                settings=PoolSettings(pool="free"), offers=(), demand=PoolDemand(pool="free")
            ),
        ),
        budget=ClusterBudget(users={"ann": hour}),
        spending=Spending(
            pools={"gpu": 30.0},
            users=UserSpending(month_usd={"ann": 7.0, "bob": 1.0}, usd_per_hour={"ann": 4.0}),
        ),
    )
    shown = [(x.kind.value, x.name, x.spent_usd, x.usd_per_hour) for x in budget_views(state)]
    assert shown == [("pool", "gpu", 30.0, 10.0), ("user", "ann", 7.0, 4.0)]
