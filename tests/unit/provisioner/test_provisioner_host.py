"""What the provisioner tells the host of its pools, and what it hears of foreign machines."""

from __future__ import annotations

import asyncio

from provisioner.providers.base import FoundInstance
from tests.fakes.fleet_world import FleetWorld, a_gang, an_intent, an_offer
from tests.fakes.played_fleet import in_world


def test_capacity_tells_sizes_and_limit() -> None:
    async def story(world: FleetWorld) -> None:
        capacity = world.provisioner.capacity("gpu")
        assert capacity.node_slots == (2, 8)
        assert capacity.max_instances == 10

    in_world(story, offers=[an_offer(8), an_offer(2), an_offer(8, zone="b")])


def test_the_host_is_told_again_until_it_listens() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        (machine,) = world.living()
        told = world.host.instance_gone
        failures = [RuntimeError("busy"), RuntimeError("busy")]

        async def deaf(agent_id: str, reason: str) -> None:
            if failures:
                raise failures.pop()
            await told(agent_id, reason)

        world.host.instance_gone = deaf  # type: ignore[method-assign]
        world.cloud.kill(machine)
        await world.until(lambda: machine in world.host.gone)
        assert not failures

    in_world(story)


def test_a_provider_that_lists_other_clusters_confuses_nobody() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.add_stray(an_intent(an_offer(), 1, cluster_id="theirs"))
        await asyncio.sleep(300)
        assert len(world.living()) == 1
        assert not world.provisioner.instances()

    in_world(story)


def test_found_instances_are_plain_values() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.add_stray(an_intent(an_offer(), 1))
        (found,) = world.cloud.list_now()
        assert isinstance(found, FoundInstance)
        assert (found.cluster_id, found.pool, found.generation) == ("test-cluster", "gpu", 1)

    in_world(story)


def test_what_the_provider_takes_back_is_told_to_the_host() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a", 4))
        await world.until(lambda: "a" in world.host.placed)
        (machine,) = world.cloud.living()
        machine.leaves_at = machine.created_at + 1000.0
        await world.until(lambda: machine.id in world.host.leaving)
        assert world.host.leaving[machine.id] == (machine.leaves_at, "spot notice")

    in_world(story)
