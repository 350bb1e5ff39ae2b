"""One pool that buys spot from one cloud and on demand from the other: the real providers of both, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.capacity.offer_views import OfferState
from provisioner.capacity.refusals import BlockKind
from provisioner.types import Market, Offer, PoolSettings
from tests.contract.providers.aws import AwsCase, aws
from tests.contract.providers.base import POOL, ProviderCase
from tests.contract.providers.gcp import GcpCase, gcp_case
from tests.fakes.fleet_world import FleetWorld, a_gang
from tests.fakes.virtual_time import LoopClock, run

SECONDS = 15.0
"""From the refusal of one cloud to a machine of the other: an answer, a pass and a call."""


def only(case: ProviderCase, market: Market, usd_per_hour: float) -> Sequence[Offer]:
    """The case sells nothing else from now on."""
    sold = [
        replace(offer, usd_per_hour=usd_per_hour)
        for offer in case.offers
        if offer.key.market is market
    ]
    assert sold
    case.provider.offers = lambda pool: sold  # type: ignore[method-assign]
    return sold


@pytest.mark.slow
@pytest.mark.parametrize("dry", ["spot", "on demand"])
def test_what_one_cloud_has_not_the_other_sells_within_seconds(dry: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with aws(tmp_path) as ec2, gcp_case(tmp_path) as gce:
            spot = only(ec2, Market.SPOT, 1.0 if dry == "spot" else 2.0)
            on_demand = only(gce, Market.ON_DEMAND, 2.0 if dry == "spot" else 1.0)
            case, offers = (ec2, spot) if dry == "spot" else (gce, on_demand)
            for offer in offers:
                case.refuse(offer, BlockKind.CAPACITY)
            await bought(ec2, gce, from_=gce if dry == "spot" else ec2)

    run(main(), limit_s=3600)


def open_offers(world: FleetWorld) -> set[str]:
    views = world.provisioner.offers()
    return {view.offer.key.provider for view in views if view.state is OfferState.OPEN}


async def bought(ec2: AwsCase, gce: GcpCase, *, from_: ProviderCase) -> None:
    settings = PoolSettings(pool=POOL, max_instances=4)
    world = FleetWorld(LoopClock(), [], settings=settings, cloud_name="none")
    await world.start(ec2.provider, gce.provider)
    try:
        await world.until(lambda: len(open_offers(world)) == 2, 60)
        await world.want(a_gang("a", 2))
        async with asyncio.timeout(SECONDS):
            while not await from_.living():  # noqa: ASYNC110 - asks the provider
                await asyncio.sleep(0.5)
        (name,) = await from_.living()
        await world.until(lambda: name in {view.id for view in world.provisioner.instances()}, 60)
        other = ec2 if from_ is gce else gce
        assert not await other.living()
        blocked = {each.offer.provider for each in world.provisioner.blocked_offers()}
        assert blocked == {other.provider.name}, "it was asked first"
    finally:
        await world.crash()
