"""What may be bought now as screens show it, and what an administrator lets be tried again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from master.core.actor import Actor
from provisioner.capacity.offer_views import OfferState, OfferView, offer_id
from provisioner.capacity.refusals import BlockKind
from provisioner.providers.errors import Refusal
from provisioner.types import Market, OfferKey, Scope
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import StoreUnavailable

OFFER = an_offer(4, 1.0, name="h200", market=Market.SPOT)
ADMIN = Actor(user_id=1, name="admin")
OTHER = an_offer(2, 5.0, name="small")


def in_world(story: Callable[[FleetWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        world = FleetWorld(LoopClock(), (OFFER, OTHER))
        await world.start()
        try:
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=1_000_000)


def view(world: FleetWorld) -> OfferView:
    return world.provisioner.offers()[0]


async def refused(world: FleetWorld) -> None:
    """For a day, and somebody waits for it."""
    world.cloud.faults.refuse = {OFFER.key: Refusal(BlockKind.UNSUPPORTED, "not sold in zone a")}
    await world.want(a_gang("a", single_agent=True))
    await world.until(lambda: view(world).reason == "not sold in zone a")


def test_offers_say_what_refused_them_and_for_what() -> None:
    async def story(world: FleetWorld) -> None:
        await world.until(lambda: view(world).state is OfferState.OPEN)
        await refused(world)
        shown = view(world)
        assert (shown.state, shown.name, shown.pool) == (
            OfferState.REFUSED,
            "cloud/a/h200/spot",
            "gpu",
        )
        assert shown.scope is not None
        assert shown.scope.covers(OFFER)
        assert (shown.boot_s, shown.is_learned) == (60.0, False)

    in_world(story)


def test_a_provider_that_cannot_be_listed_refuses_with_its_reason() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.list_fails = True
        await world.until(lambda: "list failed" in view(world).reason)
        assert view(world).state is OfferState.REFUSED
        assert view(world).scope == Scope(provider="cloud")

    in_world(story)


def test_what_a_boot_took_is_learned() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("a"))
        await world.until(lambda: view(world).is_learned)

    in_world(story)


def test_a_retry_launches_at_once_what_was_refused() -> None:
    async def story(world: FleetWorld) -> None:
        await refused(world)
        before = world.cloud.calls.count("launch")
        await asyncio.sleep(20)
        assert world.cloud.calls.count("launch") == before, "a refused offer is spared"
        world.cloud.faults.refuse = {}
        await world.provisioner.retry(OFFER.key, by=ADMIN)
        await world.until(lambda: world.cloud.calls.count("launch") > before, limit_s=5)
        await world.until(lambda: "a" in world.host.placed)

    in_world(story)


def test_a_retry_is_said_once_it_is_written_down() -> None:
    async def story(world: FleetWorld) -> None:
        await refused(world)
        world.host.finish("a")
        await asyncio.sleep(5)
        world.store.fails = True
        asked = asyncio.create_task(world.provisioner.retry(OFFER.key, by=ADMIN))
        await asyncio.sleep(30)
        assert not asked.done()
        assert view(world).state is OfferState.REFUSED
        world.store.fails = False
        await asked
        assert view(world).state is OfferState.OPEN
        await world.crash()
        await world.start()
        await world.until(lambda: view(world).state is OfferState.OPEN, limit_s=60)

    in_world(story)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (OfferKey(provider="site"), "site/on_demand"),
        (
            OfferKey(
                provider="aws",
                region="r",
                zone="r-1",
                instance_type="p5",
                market=Market.RESERVED,
                reservation="cr-1",
                placement="pg",
            ),
            "aws/r/r-1/p5/reserved/cr-1/pg",
        ),
    ],
)
def test_an_offer_is_called_by_what_its_key_gives(key: OfferKey, name: str) -> None:
    assert offer_id(key) == name


def test_lessons_of_an_earlier_release_are_moved_in_one_commit() -> None:
    async def story(world: FleetWorld) -> None:
        await refused(world)
        await world.crash()
        store = world.store
        offers = [json.loads(text) for text in store.lessons.values()]
        store.memory = json.dumps({**json.loads(store.memory or "{}"), "offers": offers})
        store.lessons = {}
        store.fails = True
        with pytest.raises(StoreUnavailable):
            await world.start()
        assert store.lessons == {}
        store.fails = False
        await world.start()
        assert len(store.lessons) == len(offers) > 0
        assert "offers" not in json.loads(store.memory)
        await world.until(lambda: view(world).reason == "not sold in zone a")

    in_world(story)
