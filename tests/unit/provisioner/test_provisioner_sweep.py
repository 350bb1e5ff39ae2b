"""A gang goes down the list of offers in seconds, whether they refuse, are slow or do not answer; on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from provisioner.types import Offer, PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.simulated_provider import SimulatedProvider
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import QuotaError

REGIONS = ("east", "west", "north")
CALL_S = 1.0
"""How long each call to a provider takes."""
STEP_S = 0.5
"""From an answer to the next call: one pass."""
MOST = 6


def of_region(number: int, region: str) -> list[Offer]:
    """Four: two types in two zones."""
    return [
        an_offer(
            4,
            1.0 + number + 0.1 * n,
            name=f"type-{n % 2}",
            zone=f"{region}-{n // 2}",
            provider=region,
        )
        for n in range(4)
    ]


class Sweep:
    def __init__(self, world: FleetWorld) -> None:
        self.world = world
        self.regions: dict[str, SimulatedProvider] = dict(
            zip(REGIONS, [world.cloud, *world.others], strict=True)
        )

    def offers(self) -> list[Offer]:
        return [offer for n, region in enumerate(REGIONS) for offer in of_region(n, region)]

    def without_stock(self, *but: Offer) -> None:
        keys = {offer.key for offer in self.offers()} - {offer.key for offer in but}
        for cloud in self.regions.values():
            cloud.faults.stock_out = set(keys)

    def launches(self) -> int:
        return sum(cloud.calls.count("launch") for cloud in self.regions.values())

    async def seconds_to_a_machine(self) -> float:
        """Until the provider has one, or another than there were."""
        before = len(self.world.living())
        began = asyncio.get_running_loop().time()
        await self.world.until(lambda: len(self.world.living()) > before, limit_s=600)
        return asyncio.get_running_loop().time() - began


def sweep(story: Callable[[Sweep], Awaitable[None]], *, most: int = MOST) -> None:
    async def main() -> None:
        settings = PoolSettings(pool="gpu", max_instances=most, max_idle_s=60.0)
        world = FleetWorld(LoopClock(), of_region(0, "east"), settings=settings)
        for number, region in enumerate(REGIONS[1:], start=1):
            world.add_provider(*of_region(number, region))
        told = Sweep(world)
        for cloud in told.regions.values():
            cloud.faults.slow_s = CALL_S
        await world.start()
        watching = asyncio.create_task(never_above(world, most))
        try:
            await asyncio.sleep(10)  # all are open and listed
            await story(told)
        finally:
            watching.cancel()
            await world.stop()
        if watching.done() and not watching.cancelled():
            watching.result()

    run(main(), limit_s=50_000)


async def never_above(world: FleetWorld, most: int) -> None:
    while True:
        assert len(world.living()) <= most
        await asyncio.sleep(1)


def test_twelve_offers_in_three_regions_are_swept_in_their_answers() -> None:
    async def story(told: Sweep) -> None:
        last = told.offers()[-1]
        told.without_stock(last)
        await told.world.want(a_gang("a"))
        assert await told.seconds_to_a_machine() <= 12 * (CALL_S + STEP_S)
        (machine,) = told.world.living()
        assert told.launches() == 12
        assert told.regions["north"].instances[machine].intent.offer.key == last.key
        await told.world.want(a_gang("b"))
        assert await told.seconds_to_a_machine() <= CALL_S + STEP_S
        assert told.launches() == 13, "what has refused is spared"

    sweep(story)


def test_a_quota_closes_its_region_at_the_first_refusal() -> None:
    async def story(told: Sweep) -> None:
        for region in ("east", "west"):
            told.regions[region].faults.refuse = {
                offer.key: QuotaError("limit 0") for offer in told.offers()
            }
        await told.world.want(a_gang("a"))
        await told.seconds_to_a_machine()
        types = {offer.key.instance_type for offer in told.offers()}
        assert told.launches() <= 2 * len(types) + 1

    sweep(story)


@pytest.mark.slow
@pytest.mark.parametrize("hang", [{"launch"}, {"launch", "list"}])
def test_a_region_that_does_not_answer_is_left_in_seconds(hang: set[str]) -> None:
    async def story(told: Sweep) -> None:
        told.regions["east"].faults.hang = set(hang)
        await told.world.want(a_gang("a"))
        assert await told.seconds_to_a_machine() <= 10 + 2 + CALL_S + STEP_S
        assert [i.intent.offer.key.provider for i in told.regions["west"].living()] == ["west"]
        await told.world.until(lambda: "a" in told.world.host.placed, limit_s=120)
        await asyncio.sleep(300)
        told.regions["east"].faults.hang = set()
        await asyncio.sleep(600)
        assert not told.regions["east"].instances, "nobody asked again for what nobody waits for"
        assert told.world.states() == ["ready"]

    sweep(story)


def test_a_machine_whose_answer_never_comes_is_found_and_ended_as_idle() -> None:
    async def story(told: Sweep) -> None:
        told.regions["east"].faults.hang = {"launch reply"}
        await told.world.want(a_gang("a"))
        await told.world.until(lambda: told.world.living(), limit_s=60)
        await told.world.until(lambda: "a" in told.world.host.placed, limit_s=200)
        await told.world.until(lambda: len(told.world.living()) == 1, limit_s=600)
        known = {view.id for view in told.world.provisioner.instances()}
        assert known == set(told.world.living())

    sweep(story)


def test_what_is_not_answered_counts_against_the_maximum() -> None:
    """Nobody knows whether it exists."""

    async def story(told: Sweep) -> None:
        told.regions["east"].faults.hang = {"launch", "list"}
        await told.world.want(a_gang("a"))
        await asyncio.sleep(400)
        assert told.launches() > 1, "it is asked again"
        assert not told.regions["west"].calls.count("launch")
        assert "east cannot be reached" in told.world.host.reasons["a"].text
        told.regions["east"].faults.hang = set()
        await told.world.until(lambda: "a" in told.world.host.placed, limit_s=300)
        assert len(told.regions["east"].instances) == 1

    sweep(story, most=1)
