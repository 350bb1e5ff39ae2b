"""R22: who waits in a provider's queue tries other offers after a while; the first that delivers ends the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from master.core.reasons import ReasonKind
from provisioner.providers.base import Inventory
from provisioner.types import Offer, PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run

PATIENCE_S = 300.0
SITE = an_offer(4, 1.0, name="site", boot_s=10.0, queue_deadline_s=None)
OTHER = an_offer(4, 5.0, name="other", boot_s=10.0)
THIRD = an_offer(4, 9.0, name="third", boot_s=10.0, queue_deadline_s=None)


def in_world(
    story: Callable[[FleetWorld], Awaitable[None]],
    *offers: Offer,
    max_instances: int = 10,
) -> None:
    async def main() -> None:
        settings = PoolSettings(
            pool="gpu",
            max_instances=max_instances,
            max_idle_s=60.0,
            on_demand_after_s=PATIENCE_S,
        )
        world = FleetWorld(LoopClock(), offers, settings=settings)
        world.cloud.faults.queue_s = {SITE.key: 100_000.0, THIRD.key: 100_000.0}
        await world.start()
        try:
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=200_000)


def sold(world: FleetWorld) -> list[str]:
    return [i.intent.offer.key.instance_type for i in world.cloud.instances.values()]


def test_after_its_patience_a_gang_goes_on_to_the_next_offer_and_leaves_the_queue() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: world.cloud.queue)
        await asyncio.sleep(PATIENCE_S - 20)
        assert not sold(world), "it has patience"
        world.cloud.faults.hang = {"launch"}
        await asyncio.sleep(35)
        assert world.cloud.calls.count("launch") == 2
        assert len(world.cloud.queue) == 1, "kept until the other has answered"
        world.cloud.faults.hang = set()
        await world.until(lambda: "a" in world.host.placed, limit_s=60)
        await world.until(lambda: not world.cloud.queue, limit_s=60)
        assert not [view for view in world.provisioner.instances() if view.state == "accepted"]
        assert sold(world) == ["other"]

    in_world(story, SITE, OTHER)


@pytest.mark.slow
def test_the_queue_is_kept_while_no_other_offer_delivers() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.stock_out = {OTHER.key}
        await world.want(a_gang("a"))
        await world.until(lambda: world.cloud.queue)
        await asyncio.sleep(PATIENCE_S + 2000)
        assert world.cloud.calls.count("launch") >= 3, "the other offer is tried again and again"
        assert len(world.cloud.queue) == 1
        assert world.host.reasons["a"].kind is ReasonKind.QUEUED_AT_PROVIDER
        ((handle, (intent, _)),) = world.cloud.queue.items()
        world.cloud.queue[handle] = (intent, 0.0)
        await world.until(lambda: "a" in world.host.placed, limit_s=120)
        assert sold(world) == ["site"]

    in_world(story, SITE, OTHER)


@pytest.mark.slow
def test_it_queues_at_each_offer_once() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await asyncio.sleep(20 * PATIENCE_S)
        names = sorted(intent.offer.key.instance_type for intent, _ in world.cloud.queue.values())
        assert names == ["site", "third"]
        assert world.cloud.calls.count("launch") == 2
        ((handle, (intent, _)), _) = world.cloud.queue.items()
        world.cloud.queue[handle] = (intent, 0.0)
        await world.until(lambda: "a" in world.host.placed, limit_s=120)
        await world.until(lambda: not world.cloud.queue, limit_s=60)
        assert sold(world) == ["site"]

    in_world(story, SITE, THIRD)


@pytest.mark.slow
def test_the_maximum_counts_what_is_queued() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await asyncio.sleep(PATIENCE_S + 600)
        assert not sold(world)
        assert world.host.reasons["a"].kind is ReasonKind.QUEUED_AT_PROVIDER

    in_world(story, SITE, OTHER, max_instances=1)


@pytest.mark.slow
def test_another_gang_may_queue_where_one_waits_already() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await asyncio.sleep(PATIENCE_S + 600)
        await world.want(a_gang("b", since=world.clock.now().timestamp()))
        await asyncio.sleep(30)
        assert len(world.cloud.queue) == 2

    in_world(story, SITE)


def test_a_gang_over_machines_moves_whole() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(replace(a_gang("a", 8)))
        await world.until(lambda: "a" in world.host.placed, limit_s=PATIENCE_S + 120)
        assert sold(world) == ["other", "other"]
        await world.until(lambda: not world.cloud.queue, limit_s=60)

    in_world(story, SITE, OTHER)


def test_a_crash_while_it_waits_twice_leaves_one_machine() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: world.cloud.queue)
        await asyncio.sleep(PATIENCE_S - 1)
        for _ in range(5):
            await asyncio.sleep(0.7)
            await world.crash()
            await world.start()
        await world.until(lambda: "a" in world.host.placed, limit_s=600)
        await world.until(lambda: not world.cloud.queue, limit_s=600)
        assert sold(world) == ["other"]

    in_world(story, SITE, OTHER)


def test_what_an_earlier_master_queued_is_kept_until_all_who_wait_are_known() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "accepted" in world.states())
        (handle,) = world.cloud.queue
        gang = world.host.waiting.pop("a")
        await world.crash()
        await world.start()
        await asyncio.sleep(15)
        assert handle in world.cloud.queue
        await world.want(gang)
        await asyncio.sleep(60)
        assert list(world.cloud.queue) == [handle]
        world.host.finish("a")
        await world.until(lambda: not world.cloud.queue, limit_s=60)

    in_world(story, SITE)


def test_a_machine_that_boots_shows_the_stage_that_its_provider_tells() -> None:
    """As its last list has it, and no more once its agent is connected."""

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.never_boot = {OTHER.key}
        listed, stage = world.cloud.list, "runs on n1"

        async def list_with_stages() -> Inventory:
            found = await listed()
            return replace(found, instances=tuple(replace(i, stage=stage) for i in found.instances))

        def reasons() -> list[str]:
            return [view.reason for view in world.provisioner.instances()]

        world.cloud.list = list_with_stages  # type: ignore[method-assign]
        await world.want(a_gang("a"))
        await world.until(lambda: reasons() == ["runs on n1"], limit_s=60)
        stage = "runs on n1; its node has reported"
        await world.until(lambda: reasons() == [stage], limit_s=60)
        (name,) = world.living()
        world.provisioner.note_agent(name, True)
        await world.until(lambda: reasons() == [""], limit_s=60)

    in_world(story, OTHER)


def test_a_launch_that_is_queued_shows_when_it_is_expected() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: world.cloud.queue)
        await world.until(
            lambda: any(
                "; expected to start at " in view.reason for view in world.provisioner.instances()
            ),
            limit_s=60,
        )

    in_world(story, SITE)
