"""Machines without work that are stopped instead of ended, and started again before others are bought."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from master.core.scheduler.types import SchedulerSettings
from provisioner.budgets import Budget
from provisioner.capacity import CapacityMemory
from provisioner.offer_views import OfferState
from provisioner.plan_types import Machine, Phase, Plan, PlanInput, PoolInput, StoppedMachine
from provisioner.planner import plan
from provisioner.preview import preview
from provisioner.providers.base import Api
from provisioner.providers.errors import Refusal
from provisioner.refusals import BlockKind
from provisioner.simulator.replay import ClusterPlan, PoolPlan, play
from provisioner.simulator.report import Summary, summary
from provisioner.simulator.trace import TraceJob
from provisioner.snapshot import cost_view
from provisioner.stop_worth import expected_gap_s, pays, start_of, start_offers
from provisioner.stopped_agents import StoppedAgents
from provisioner.types import Gang, Node, Offer, PoolDemand, PoolSettings, Scope
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import CapacityError, ProviderError

FOUR = an_offer(4, 4.0, boot_s=180.0, can_stop=True, disk_usd_per_hour=0.001)
EIGHT = an_offer(8, 8.0, boot_s=180.0)
DEAR_DISK = an_offer(4, 4.0, boot_s=180.0, can_stop=True, disk_usd_per_hour=1.0)
RULES = StoppedAgents(max=2, expected_gap_s=3600.0, max_age_s=14_400.0)


# Whether it pays


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


# What a plan does


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
        Machine(name=f"m{n}", offer=FOUR, phase=Phase.UP, idle_s=900.0, age_s=9e3, fingerprint="v1")
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


def bought(decision: Plan) -> int:
    return sum(launch.count for launch in decision.launches if not launch.starts)


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
        {"stopped": StoppedAgents(max=2, expected_gap_s=1e6, max_age_s=1e7)},
        {"stopped": StoppedAgents(max=2, expected_gap_s=3600.0, max_age_s=1800.0)},
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
    rules = StoppedAgents(max=most, expected_gap_s=60.0)
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


# A whole provisioner


def a_world(*offers: Offer, **more: Any) -> FleetWorld:
    values = {"max_instances": 4, "max_idle_s": 60.0, "stopped": RULES} | more
    return FleetWorld(
        LoopClock(),
        offers or (FOUR,),
        settings=PoolSettings(pool="gpu", **values),  # type: ignore[arg-type]
    )


def in_world(story: Callable[[FleetWorld], Awaitable[None]], *offers: Offer, **more: Any) -> None:
    async def main() -> None:
        world = a_world(*offers, **more)
        await world.start()
        try:
            await asleep(world)
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=2_000_000)


async def asleep(world: FleetWorld) -> None:
    """One machine has worked, and is stopped."""
    await world.want(a_gang("first"))
    await world.until(lambda: "first" in world.host.placed)
    world.host.finish("first")
    await world.until(lambda: world.states() == ["stopped"])


def test_a_machine_that_works_again_is_the_same_one_and_paid_for_its_disk_meanwhile() -> None:
    async def story(world: FleetWorld) -> None:
        (name,) = world.living()
        (view,) = world.provisioner.instances()
        assert (view.id, view.usd_per_hour) == (name, FOUR.disk_usd_per_hour)
        assert "idle for" in view.reason
        assert not world.host.gone
        await asyncio.sleep(7200)
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.living() == [name]
        assert world.cloud.calls.count("launch") == 1
        assert world.states() == ["ready"]
        spent, bill = world.provisioner.cost().spent_usd, world.cloud.usd()
        assert spent == pytest.approx(bill, abs=0.02)
        assert bill < 2.0, "two hours of its disk are not two hours of the machine"

    in_world(story)


def test_starts_take_the_time_that_was_learned() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        memory = world.provisioner._state.memory
        assert memory.boot_p50_s(start_of(FOUR, memory)) == pytest.approx(126.0, abs=5.0)
        assert memory.boot_p50_s(FOUR) == pytest.approx(180.0, abs=5.0)

    in_world(story)


def test_a_start_without_capacity_blocks_starts_alone_and_another_is_bought() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.no_start[FOUR.key] = CapacityError("InsufficientInstanceCapacity")
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.states() == ["ready", "stopped"]
        (block,) = world.provisioner._state.memory.blocks.values()
        assert block.scope.stopped
        assert not world.provisioner.blocked_offers()
        bought, start = world.provisioner.offers()
        assert (bought.state, start.state) == (OfferState.OPEN, OfferState.RECOVERING)
        assert start.name.endswith("/stopped")
        assert "InsufficientInstanceCapacity" in start.reason

    in_world(story)


def test_a_start_whose_answer_is_lost_is_asked_again() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.lost_starts = 1
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.cloud.calls.count("launch") == 1
        assert len(world.living()) == 1

    in_world(story)


def test_a_start_that_nobody_answers_is_given_up() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.hang.add("start")
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.states() == ["ready", "stopped"]

    in_world(story)


def test_one_started_by_somebody_else_is_adopted() -> None:
    async def story(world: FleetWorld) -> None:
        (name,) = world.living()
        await asyncio.sleep(100)
        await world.cloud.start(name, FOUR)
        await world.until(lambda: world.states() == ["ready"])
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.living() == [name]
        world.host.finish("second")
        await world.until(lambda: world.states() == ["stopped"])

    in_world(story)


def test_a_started_machine_without_an_agent_is_ended() -> None:
    async def story(world: FleetWorld) -> None:
        (name,) = world.living()
        world.cloud.faults.never_boot.add(FOUR.key)
        await world.want(a_gang("second"))
        await world.until(lambda: name in world.host.gone)
        assert "no agent connected" in world.host.gone[name]

    in_world(story)


@pytest.mark.parametrize("how", ["unanswered", "under way", "of an earlier master"])
def test_a_call_to_stop_that_arrives_late_stops_no_machine_with_work(how: str) -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        carry_out, late = world.cloud.stop, asyncio.Event()
        works: list[bool] = []

        async def stop(instance_id: str) -> None:
            """The first is carried out again, when the machine may have been started."""
            if "stop" not in world.cloud.calls:
                asyncio.get_running_loop().call_later(
                    28.0 if how == "under way" else 200.0, arrives, instance_id
                )
                await carry_out(instance_id)
                if how == "under way":
                    await late.wait()
                elif how == "unanswered":
                    raise TimeoutError("no reply")
                else:
                    await asyncio.Event().wait()

        def arrives(instance_id: str) -> None:
            works.append(any(instance_id in placed for placed in world.host.placed.values()))
            late.set()

        world.cloud.stop = stop  # type: ignore[method-assign]
        await world.want(a_gang("first"))
        await world.until(lambda: "first" in world.host.placed)
        (name,) = world.living()
        world.host.finish("first")
        await world.until(lambda: "stop" in world.cloud.calls)
        if how == "of an earlier master":
            await world.crash()
            await world.start()
        await world.until(lambda: world.states() == ["stopped"])
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        await late.wait()
        assert works == [False]
        assert world.cloud.calls.count("launch") == 2, "another is bought"
        world.host.finish("second")
        await asyncio.sleep(600)
        await world.want(a_gang("third", slots=8))
        await world.until(lambda: "third" in world.host.placed)
        assert name in world.host.placed["third"], "it is started once no call may come"
        await world.stop()

    run(main(), limit_s=50_000)


@pytest.mark.parametrize(
    "error", [ProviderError("UnsupportedOperation"), Refusal(BlockKind.CONFIG, "not allowed")]
)
def test_what_cannot_be_stopped_is_ended(error: Exception) -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        world.cloud.faults.no_stop = error
        await world.want(a_gang("first"))
        await world.until(lambda: "first" in world.host.placed)
        world.host.finish("first")
        await world.until(lambda: world.host.gone)
        (why,) = world.host.gone.values()
        assert str(error) in why
        await world.stop()

    run(main(), limit_s=50_000)


@pytest.mark.parametrize("throttled", [False, True])
def test_a_stop_that_fails_for_now_is_asked_again(throttled: bool) -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        world.cloud.faults.stop_failures = 0 if throttled else 2
        if throttled:
            world.cloud.faults.throttle = {Api.TERMINATE: 2}
        await asleep(world)
        assert not world.host.gone
        await world.stop()

    run(main(), limit_s=50_000)


def test_one_that_is_being_stopped_gets_no_work_while_commits_fail() -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        world.cloud.faults.hang.add("stop")
        await world.want(a_gang("first"))
        await world.until(lambda: "first" in world.host.placed)
        world.host.finish("first")
        await world.until(lambda: world.states() == ["stopping"])
        (name,) = world.living()
        world.store.fails = True
        await asyncio.sleep(1000)  # it should have stopped long ago, and cannot be ended
        await world.want(a_gang("second"))
        await asyncio.sleep(10)
        assert "second" in world.host.waiting
        world.store.fails = False
        await world.until(lambda: name in world.host.gone)
        await world.until(lambda: "second" in world.host.placed)
        await world.stop()

    run(main(), limit_s=50_000)


def test_one_that_stops_by_itself_is_no_stopped_machine_of_ours() -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        await world.want(a_gang("first"))
        await world.until(lambda: "first" in world.host.placed)
        await asyncio.sleep(120)
        (name,) = world.living()
        await world.cloud.stop(name)
        world.host.finish("first")
        await world.until(lambda: name in world.host.gone)
        assert "it was stopped, by itself or by somebody" in world.host.gone[name]
        await world.stop()

    run(main(), limit_s=50_000)


def test_they_end_when_they_are_old_when_the_key_goes_and_with_the_cluster() -> None:
    async def story(world: FleetWorld) -> None:
        await asyncio.sleep(RULES.max_age_s)
        await world.until(lambda: not world.living())

    in_world(story)

    async def without_key(world: FleetWorld) -> None:
        await world.crash()
        world.settings = PoolSettings(pool="gpu", max_instances=4)
        await world.start()
        await world.until(lambda: not world.living())

    in_world(without_key)

    async def closing(world: FleetWorld) -> None:
        await world.provisioner.shutdown(terminate=True)
        assert not world.living()
        assert not world.provisioner.instances()

    in_world(closing)


def test_one_that_is_no_longer_sold_is_ended() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.sold = (EIGHT,)
        await world.until(lambda: not world.living())

    in_world(story)


def test_its_disk_is_all_that_it_costs() -> None:
    async def story(world: FleetWorld) -> None:
        view = cost_view(world.provisioner._state, world.clock.now().timestamp())
        assert view.usd_per_hour == FOUR.disk_usd_per_hour

    in_world(story)


def test_simulated_work_starts_stopped_machines() -> None:
    def played(most: int) -> Summary:
        settings = PoolSettings(
            pool="gpu",
            max_instances=10,
            max_idle_s=300.0,
            stopped=StoppedAgents(max=most, expected_gap_s=3600.0),
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
