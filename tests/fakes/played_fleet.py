"""One story in a fleet on virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provisioner.types import Offer, PoolSettings
from tests.fakes.fleet_world import FleetWorld, an_offer
from tests.fakes.virtual_time import LoopClock, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable


def in_world(
    story: Callable[[FleetWorld], Awaitable[None]],
    *,
    offers: Iterable[Offer] = (an_offer(),),
    **settings: Any,
) -> None:
    """Run `story` in a started world, and stop it afterwards."""

    async def main() -> None:
        keys = {"max_instances": 10, "max_idle_s": 120.0} | settings
        world = FleetWorld(LoopClock(), offers, settings=PoolSettings(pool="gpu", **keys))
        await world.start()
        try:
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=100_000)
