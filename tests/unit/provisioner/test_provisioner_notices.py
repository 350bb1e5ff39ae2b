"""Machines that are taken back: whoever says so, the next is bought at once and elsewhere; on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind
from provisioner.fleet.instances import (
    InstanceRecord,
    InstanceState,
    instance_document,
    instance_from_document,
)
from provisioner.fleet.notices import noticed, spared
from provisioner.types import Market, Node, Notice, PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import ProviderError

SPOT = an_offer(4, 1.0, name="spot", market=Market.SPOT, boot_s=10.0)
ZONE_B = an_offer(4, 2.0, name="spot", zone="b", market=Market.SPOT, boot_s=10.0)
SURE = an_offer(4, 4.0, name="sure", boot_s=10.0)
NOTICE_S = 120.0


def in_world(
    story: Callable[[FleetWorld, LoopClock], Awaitable[None]], *offers: Any, **settings: Any
) -> None:
    async def main() -> None:
        clock = LoopClock()
        keys = {"max_instances": 10, "max_idle_s": 120.0} | settings
        world = FleetWorld(clock, offers, settings=PoolSettings(pool="gpu", **keys))
        await world.start()
        try:
            await story(world, clock)
        finally:
            await world.stop()

    run(main(), limit_s=200_000)


async def working(world: FleetWorld, request_id: str = "a") -> str:
    await world.want(a_gang(request_id))
    await world.until(lambda: request_id in world.host.placed)
    return next(iter(world.host.placed[request_id]))


def told_by_the_provider(world: FleetWorld, machine: str, at: float) -> None:
    world.cloud.instances[machine].leaves_at = at


def told_by_its_agent(world: FleetWorld, machine: str, at: float) -> None:
    world.host.notices[machine] = Notice(at=at, why="spot notice")
    world.provisioner.wake()


Tell = Callable[[FleetWorld, str, float], None]
both_ways = pytest.mark.parametrize("tell", [told_by_the_provider, told_by_its_agent])


@both_ways
def test_the_replacement_is_bought_with_the_notice_and_of_another_offer(tell: Tell) -> None:
    """R19. The work still runs: nobody waits yet."""

    async def story(world: FleetWorld, clock: LoopClock) -> None:
        first = await working(world)
        at = clock.now().timestamp() + NOTICE_S
        tell(world, first, at)
        await world.until(lambda: len(world.living()) == 2, limit_s=10)
        assert "a" in world.host.placed, "it runs where it ran"
        (second,) = set(world.living()) - {first}
        assert world.cloud.instances[second].intent.offer.key == ZONE_B.key
        (blocked,) = world.provisioner.blocked_offers()
        assert blocked.offer == SPOT.key
        assert blocked.until == at + 120
        assert world.host.leaving[first] == (at, "spot notice")
        views = {view.id: view for view in world.provisioner.instances()}
        assert views[first].notice == Notice(at=at, why="spot notice")
        assert views[second].notice is None

    in_world(story, SPOT, ZONE_B)


@both_ways
def test_it_is_ended_when_its_work_has_left_and_counts_for_no_minimum(tell: Tell) -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        first = await working(world)
        tell(world, first, clock.now().timestamp() + NOTICE_S)
        await world.until(lambda: len(world.living()) == 2, limit_s=10)
        world.host.finish("a")
        await world.until(lambda: first in world.host.gone, limit_s=90)
        assert world.host.gone[first].startswith("its provider takes it back: spot notice")
        assert len(world.living()) == 1

    in_world(story, SPOT, ZONE_B, min_instances=1)


@both_ways
def test_a_pool_with_one_offer_is_served_by_it_at_once(tell: Tell) -> None:
    """Spared means that others are bought first. Nothing was refused."""

    async def story(world: FleetWorld, clock: LoopClock) -> None:
        first = await working(world)
        tell(world, first, clock.now().timestamp() + NOTICE_S)
        await world.until(lambda: len(world.living()) == 2, limit_s=10)
        (second,) = set(world.living()) - {first}
        world.host.finish("a")
        assert await working(world, "b") == second

    in_world(story, SPOT)


def test_where_the_spared_offer_then_refuses_it_is_left_alone_as_any() -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        first = await working(world)
        world.cloud.faults.stock[SPOT.key] = 0
        told_by_its_agent(world, first, clock.now().timestamp() + NOTICE_S)
        await world.until(lambda: world.cloud.calls.count("launch") == 2, limit_s=10)
        await world.until(
            lambda: "available 0" in world.provisioner.blocked_offers()[0].reason, limit_s=10
        )
        await world.until(lambda: world.cloud.calls.count("launch") == 3, limit_s=600)
        assert clock.now().timestamp() >= world.host.leaving[first][0] + 120

    in_world(story, SPOT)


def test_before_a_spared_offer_on_demand_is_bought() -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        first = await working(world)
        told_by_its_agent(world, first, clock.now().timestamp() + NOTICE_S)
        await world.until(lambda: len(world.living()) == 2, limit_s=10)
        (second,) = set(world.living()) - {first}
        assert world.cloud.instances[second].intent.offer.key == SURE.key

    in_world(story, SPOT, SURE)


def test_a_new_master_tells_the_host_again() -> None:
    """The message that said so is read and gone; the machine lives on."""

    async def story(world: FleetWorld, clock: LoopClock) -> None:
        first = await working(world)
        at = clock.now().timestamp() + NOTICE_S
        told_by_the_provider(world, first, at)
        await world.until(lambda: first in world.host.leaving)
        await world.crash()
        world.host.leaving.clear()
        world.host.notices.clear()
        world.cloud.instances[first].leaves_at = None
        await world.start()
        await world.until(lambda: first in world.host.leaving, limit_s=30)
        assert world.host.leaving[first] == (at, "spot notice")

    in_world(story, SPOT, ZONE_B)


def test_an_end_that_its_provider_refuses_is_told_until_it_agrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        denied = ProviderError("UnauthorizedOperation: You are not authorized")
        end = world.cloud.terminate

        async def refuse(_: object) -> None:
            raise denied

        first = await working(world)
        monkeypatch.setattr(world.cloud, "terminate", refuse)
        world.host.finish("a")
        await world.until(lambda: "terminating" in world.states())
        await world.until(lambda: world.provisioner.instances()[0].reason.startswith("still"), 10)
        (view,) = world.provisioner.instances()
        assert view.reason == (
            "still billing: UnauthorizedOperation: You are not authorized; "
            "was to end: idle for 120 s (limit 120 s)"
        )
        monkeypatch.setattr(world.cloud, "terminate", end)
        await world.until(lambda: first not in world.living(), limit_s=120)

    in_world(story, SPOT)


RECORD = InstanceRecord(
    id="i-1", pool="gpu", offer=SPOT, intent_id="x", generation=1, created_at=0.0
)


def test_the_earliest_that_anybody_told_counts_and_is_kept() -> None:
    node = Node(agent_id="i-1", pool="gpu", slots=4, free_slots=0)
    late, early = Notice(at=200.0, why="late"), Notice(at=100.0, why="early")
    assert noticed(RECORD, None, node) is RECORD
    assert noticed(RECORD, late, replace(node, notice=early)).notice == early
    known = noticed(RECORD, early, None)
    assert noticed(known, late, node) is known
    assert instance_from_document(instance_document(known)) == known


def test_on_demand_machines_spare_nothing_and_a_refusal_says_more_than_a_notice() -> None:
    notice = Notice(at=100.0, why="maintenance")
    sure = replace(RECORD, offer=SURE, notice=notice, state=InstanceState.READY)
    assert not spared(CapacityMemory(), sure, 0.0).blocks
    known = spared(CapacityMemory(), replace(RECORD, notice=notice), 0.0)
    (block,) = known.blocks.values()
    assert (block.kind, block.until) == (BlockKind.TAKEN_BACK, 220.0)
    refused = CapacityMemory().refused(block.scope, BlockKind.CAPACITY, "none left", now=0.0)
    assert spared(refused, replace(RECORD, notice=notice), 0.0) is refused
