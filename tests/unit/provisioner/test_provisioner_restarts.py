"""What the provisioner keeps over restarts, shutdowns and commits that fail."""

from __future__ import annotations

import asyncio

from provisioner.capacity.rows import from_rows
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.played_fleet import in_world


def test_a_commit_that_fails_leaves_no_node_cordoned() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        world.host.finish("a")
        await world.until(lambda: world.provisioner.instances()[0].idle_since is not None)
        world.store.fails = True
        await asyncio.sleep(300)
        assert not world.host.cordoned
        assert "terminate" not in world.cloud.calls
        world.store.fails = False
        await world.until(lambda: not world.living())

    in_world(story)


def test_a_machine_being_ended_stays_cordoned_over_a_restart() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.terminate_failures = 1
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        (machine,) = world.living()
        world.host.finish("a")
        await world.until(lambda: "terminating" in world.states())
        await world.crash()
        assert not world.host.cordoned
        await world.start()
        assert world.host.cordoned == {machine}
        await world.until(lambda: not world.living())

    in_world(story)


def test_a_machine_that_boots_while_no_master_is_there_is_not_a_failed_boot() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: world.living())
        (machine,) = world.living()
        await world.crash()
        await asyncio.sleep(3600)
        world.go_silent(machine)
        await world.start()
        await asyncio.sleep(30)
        world.come_back(machine)
        await world.until(lambda: "a" in world.host.placed)
        assert world.living() == [machine]
        assert "terminate" not in world.cloud.calls
        learned = from_rows((await world.store.load()).lessons)
        (offer,) = world.cloud.offers("gpu") or ()
        assert learned.boot_p50_s(offer) == offer.boot_s

    in_world(story)


def test_money_and_memory_survive_a_restart() -> None:
    bad, good = an_offer(4, 1.0, zone="bad"), an_offer(4, 2.0, zone="good")

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.stock_out = {bad.key}
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        world.host.finish("a")
        await world.until(lambda: not world.provisioner.instances())
        before = world.provisioner.cost()
        await world.crash()
        await world.start()
        after = world.provisioner.cost()
        assert after.spent_usd == before.spent_usd > 0
        assert (after.peak_instances, after.first_launch_at) == (1, before.first_launch_at)
        await world.want(a_gang("b"))
        await world.until(lambda: "b" in world.host.reasons)
        assert (
            world.cloud.calls.count("launch") == 3
        )  # two for a, one for b: the stock-out is remembered

    in_world(story, offers=[bad, good], max_idle_s=30.0)


def test_shutdown_without_ending_waits_for_calls_and_starts_none() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        await world.provisioner.shutdown(terminate=False)
        await world.want(a_gang("b"))
        await asyncio.sleep(60)
        assert len(world.cloud.instances) == 1

    in_world(story)
