"""Several providers of one pool, and one provider of several pools: what each does concerns only itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from master.core.reasons import ReasonKind
from provisioner.fleet.reconciler import Provisioner
from provisioner.types import PoolSettings
from tests.fakes.fleet_world import CLUSTER, FakeHost, FleetWorld, a_gang, an_intent, an_offer
from tests.fakes.simulated_provider import SimulatedProvider
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import ProviderAuthError
from windlass.base.ids import Ids

CHEAP = an_offer(4, 1.0, provider="cheap", zone="a")
DEAR = an_offer(4, 2.0, provider="cloud", zone="b")


def in_world(story: Callable[[FleetWorld, SimulatedProvider], Awaitable[None]]) -> None:
    """A pool that buys from two providers; `story` gets the cheaper one beside the world, before it starts."""

    async def main() -> None:
        world = FleetWorld(LoopClock(), [DEAR], settings=PoolSettings(pool="gpu", max_instances=10))
        cheap = world.add_provider(CHEAP)
        try:
            await story(world, cheap)
        finally:
            await world.stop()
            cheap.drop_timers()

    run(main(), limit_s=100_000)


def test_a_pool_buys_from_the_cheapest_of_its_providers() -> None:
    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        await world.start()
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        assert (len(cheap.instances), len(world.cloud.instances)) == (1, 0)
        world.host.finish("a")
        await world.until(lambda: not world.living())

    in_world(story)


@pytest.mark.parametrize("fault", ["hangs", "cannot be listed", "cannot be opened"])
def test_a_provider_that_fails_holds_up_only_itself(fault: str) -> None:
    """Nothing is bought where nobody knows what exists; the other provider of the pool sells at once."""

    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        if fault == "hangs":
            cheap.faults.hang = {"list", "launch", "terminate"}
        cheap.faults.list_fails = fault == "cannot be listed"
        if fault == "cannot be opened":
            cheap.faults.open_fails = ProviderAuthError("the key expired")
        await world.start()
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed, limit_s=70)
        assert not cheap.instances
        assert [i.intent.offer.key.provider for i in world.cloud.instances.values()] == ["cloud"]
        cheap.faults = type(cheap.faults)()
        await asyncio.sleep(90)
        await world.want(a_gang("b"))
        await world.until(lambda: cheap.instances)

    in_world(story)


def test_a_gang_that_only_a_failing_provider_could_serve_is_told_so() -> None:
    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        big = an_offer(8, 1.0, provider="cheap")
        cheap.sold = [big]
        cheap.faults.open_fails = ProviderAuthError("the key expired")
        await world.start()
        await world.want(replace(a_gang("a", 8), single_agent=True))
        await asyncio.sleep(5)
        reason = world.host.reasons["a"]
        assert reason.kind is ReasonKind.CREDENTIALS
        assert "cheap" in reason.text
        assert "the key expired" in reason.text

    in_world(story)


def test_each_provider_is_listed_at_its_own_pace() -> None:
    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        slow = world.add_provider(an_offer(provider="slow"), list_every_s=30.0)
        await world.start()
        await asyncio.sleep(299)
        assert slow.calls.count("list") == 10
        assert cheap.calls.count("list") == world.cloud.calls.count("list") > 100
        slow.drop_timers()

    in_world(story)


def test_a_provider_is_opened_before_it_is_called_and_closed_at_the_end() -> None:
    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        cheap.faults.open_fails = OSError("no route")
        await world.start()
        await asyncio.sleep(10)
        assert set(cheap.calls) == {"open"}
        assert not cheap.is_open
        cheap.faults.open_fails = None
        await world.until(lambda: cheap.is_open)
        await world.until(lambda: "list" in cheap.calls)
        await world.crash()
        assert not cheap.is_open

    in_world(story)


def test_offers_may_change_while_the_master_runs() -> None:
    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        await world.start()
        cheap.sold = [replace(CHEAP, usd_per_hour=9.0)]
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        assert not cheap.instances
        cheap.sold = [an_offer(8, 1.0, provider="cheap")]
        assert world.provisioner.capacity("gpu").node_slots == (4, 8)
        await world.want(a_gang("b", 8))
        await world.until(lambda: "b" in world.host.placed)
        (machine,) = cheap.instances.values()
        assert machine.intent.offer.slots == 8

    in_world(story)


def test_a_zone_that_is_not_in_a_list_is_unknown_and_not_empty() -> None:
    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        other = an_offer(4, 1.5, provider="cheap", zone="c")
        cheap.sold = [CHEAP, other]
        await world.start()
        await world.want(a_gang("a"))
        await world.until(lambda: "a" in world.host.placed)
        (machine,) = cheap.instances
        cheap.faults.zones_unseen = {"a"}
        await asyncio.sleep(300)
        assert not world.host.gone
        assert world.living() == [machine]
        await world.want(a_gang("b"))
        await world.until(lambda: "b" in world.host.placed)
        zones = [i.intent.offer.key.zone for i in cheap.instances.values()]
        assert zones == ["a", "c"], "nothing is launched where nobody sees"

    in_world(story)


def test_a_provider_that_answers_too_few_machines_or_lists_strangers_is_not_believed() -> None:
    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        cheap.faults.lies = True
        await world.start()
        await world.want(a_gang("a", 8))
        await world.until(lambda: "a" in world.host.placed)
        assert all(view.offer.provider == "cheap" for view in world.provisioner.instances())
        assert len(cheap.instances) == 2, "the list showed what the answer left out"

    in_world(story)


def test_one_provider_serves_several_pools_with_one_list() -> None:
    async def main() -> None:
        clock = LoopClock()
        shared = SimulatedProvider(
            offers={"gpu": [DEAR], "other": [DEAR]}, clock=clock, cluster_id=CLUSTER
        )
        world = FleetWorld(clock, [DEAR])
        provisioner = Provisioner(
            pools=[PoolSettings(pool="gpu"), PoolSettings(pool="other", min_instances=1)],
            providers=[shared],
            host=FakeHost(),
            store=world.store,
            clock=clock,
            ids=Ids.seeded(1),
            cluster_id=CLUSTER,
            generation=1,
        )
        runner = asyncio.create_task(provisioner.run())
        await asyncio.sleep(19)
        assert shared.calls.count("list") == 10
        assert [view.pool for view in provisioner.instances()] == ["other"]
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        shared.drop_timers()

    run(main(), limit_s=10_000)


def test_a_machine_of_a_type_that_is_sold_no_more_is_booked_at_what_its_tags_say() -> None:
    async def story(world: FleetWorld, cheap: SimulatedProvider) -> None:
        removed = an_offer(4, 7.5, provider="cheap", name="removed")
        cheap.add_stray(an_intent(removed, 1, generation=99))
        await world.start()
        await world.until(world.provisioner.instances)
        (view,) = world.provisioner.instances()
        assert (view.slots, view.usd_per_hour) == (4, 7.5)

    in_world(story)
