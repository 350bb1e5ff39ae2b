"""Offers whose machines end together, as the nodes of a batch job do: bought, used and ended as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.types import Gang, Node, Offer, PoolDemand, PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run

NOW = 10_000.0
JOB = an_offer(4, 0.0, queue_deadline_s=None, boot_s=5.0, ends_together=True)


def plan_of(
    *waiting: Gang,
    machines: tuple[Machine, ...] = (),
    offer: Offer = JOB,
    **limits: Any,
) -> Plan:
    nodes = tuple(
        Node(agent_id=m.name, pool="gpu", slots=4, free_slots=0 if m.idle_s is None else 4)
        for m in machines
        if m.phase is MachinePhase.UP
    )
    pool = PoolInput(
        settings=PoolSettings(pool="gpu", **({"max_instances": 100} | limits)),
        offers=(offer,),
        demand=PoolDemand(pool="gpu", gangs=waiting, nodes=nodes),
        machines=machines,
    )
    return plan(PlanInput(now=NOW, pools=(pool,)))


def up(name: str, group: str, idle_s: float | None) -> Machine:
    return Machine(name=name, offer=JOB, phase=MachinePhase.UP, group=group, idle_s=idle_s)


def queued(group: str, number: int = 0, *claims: str) -> Machine:
    return Machine(
        name=f"{group}/{number}",
        offer=JOB,
        phase=MachinePhase.COMING,
        group=group,
        queued=True,
        claims=claims,
    )


def counts(decision: Plan) -> list[int]:
    return sorted(launch.count for launch in decision.launches)


def ended(decision: Plan) -> list[str]:
    return sorted(one.instance_id for one in decision.terminations)


def test_a_gang_over_nodes_is_one_job_and_others_are_jobs_of_one_node() -> None:
    assert counts(plan_of(a_gang("a", 12))) == [3]
    assert counts(plan_of(*(a_gang(f"g{n}", 4) for n in range(3)))) == [1, 1, 1]


def test_a_gang_is_never_made_of_a_node_that_is_there_and_one_that_queues() -> None:
    assert counts(plan_of(a_gang("a", 8), machines=(up("m", "x", 1.0),))) == [2]


def test_a_gang_is_never_made_of_jobs_that_queue_apart() -> None:
    waiting = (queued("x"), queued("y"))
    decision = plan_of(a_gang("a", 8), machines=waiting)
    assert counts(decision) == [2]
    assert {one.intent_id for one in decision.cancellations} == {"x", "y"}, "nobody wants them"
    own = (queued("z", 0, "a"), queued("z", 1, "a"))
    assert counts(plan_of(a_gang("a", 8), machines=own)) == []


def test_an_agent_that_came_before_the_list_that_shows_its_machine_keeps_its_launch() -> None:
    """What waited for it runs there already, so nobody waits any more."""
    pool = PoolInput(
        settings=PoolSettings(pool="gpu", max_instances=9),
        offers=(JOB,),
        demand=PoolDemand(
            pool="gpu",
            nodes=(
                Node(
                    agent_id="x-0", pool="gpu", slots=4, free_slots=0, instance_id="x-0", busy=True
                ),
            ),
        ),
        machines=(queued("x", 0, "a"),),
    )
    assert not plan(PlanInput(now=NOW, pools=(pool,))).cancellations
    without = replace(pool, demand=PoolDemand(pool="gpu"))
    assert [c.intent_id for c in plan(PlanInput(now=NOW, pools=(without,))).cancellations] == ["x"]


def test_a_gang_larger_than_one_job_may_be_is_not_asked_for() -> None:
    offer = replace(JOB, most_together=2)
    assert counts(plan_of(a_gang("a", 8), offer=offer)) == [2]
    assert counts(plan_of(a_gang("a", 12), offer=offer)) == []


@pytest.mark.parametrize(
    ("machines", "limits", "expected"),
    [
        ((up("a", "x", 400.0), up("b", "x", None)), {}, []),
        ((up("a", "x", 400.0), up("b", "x", 20.0)), {}, []),
        ((up("a", "x", 400.0), up("b", "x", 400.0)), {}, ["a", "b"]),
        ((up("a", "x", 400.0), up("b", "x", 400.0)), {"min_instances": 1}, []),
        ((up("a", "x", 400.0), up("b", "y", 400.0)), {"min_instances": 1}, ["a"]),
        ((up("a", "x", 400.0), up("b", "x", 400.0)), {"max_instances": 1}, ["a", "b"]),
    ],
)
def test_idle_nodes_go_with_their_job_or_stay(
    machines: tuple[Machine, ...], limits: dict[str, int], expected: list[str]
) -> None:
    """The time that counts is that for which all of them have been idle."""
    assert ended(plan_of(machines=machines, **limits)) == expected


def in_world(story: Callable[[FleetWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = PoolSettings(pool="gpu", max_instances=10, max_idle_s=60.0)
        world = FleetWorld(LoopClock(), [JOB], settings=settings)
        await world.start()
        try:
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=100_000)


def test_a_job_with_an_idle_and_a_busy_node_runs_on_and_then_ends_once() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a", 8))
        await world.until(lambda: "a" in world.host.placed)
        first, second = sorted(world.host.sizes)
        world.host.finish("a")
        world.host.placed["b"] = {second: 4}
        await asyncio.sleep(600)
        assert len(world.cloud.living()) == 2
        assert first not in world.host.cordoned
        world.host.finish("b")
        await world.until(lambda: not world.cloud.living(), limit_s=300)
        await world.until(lambda: not world.provisioner.instances(), limit_s=300)

    in_world(story)


def test_a_lost_node_takes_its_job_with_it() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a", 8))
        await world.until(lambda: "a" in world.host.placed)
        first, second = sorted(world.host.sizes)
        world.cloud.kill(first)
        await world.until(lambda: {first, second} <= world.host.gone.keys(), limit_s=300)
        await world.until(lambda: len(world.cloud.living()) == 2, limit_s=600)

    in_world(story)
