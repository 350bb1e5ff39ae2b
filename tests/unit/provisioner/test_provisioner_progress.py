"""While one acceptable offer is up, work gets a machine, whatever all the others do; on virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provisioner.providers.base import LimitedCall
from provisioner.types import Offer, PoolSettings
from tests.examples import examples
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.simulated_provider import SimulatedProvider
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import ProviderAuthError, QuotaError

HERE = (an_offer(4, 1.0, zone="a"), an_offer(4, 2.0, zone="b"), an_offer(8, 3.0, zone="a"))
THERE = tuple(an_offer(4, 1.5 + n, zone="c", name=f"n{n}", provider="there") for n in range(2))
WITHIN_S = 3600.0
"""Three boots that fail, one after the other, and the waits in between."""
OF_OFFERS = ("no stock", "quota", "never boots", "dies at boot", "queues for ever", "works")
OF_CLOUDS = ("hangs", "answers are lost", "refuses credentials", "throttles", "lists fail", "works")


@dataclass(frozen=True)
class Trouble:
    offers: tuple[str, ...]
    """Of each offer but the good one."""
    cloud: str
    """Of the provider that does not sell the good one."""
    good: int
    slots: int
    crash_at_s: float | None


troubles = st.builds(
    Trouble,
    offers=st.tuples(*[st.sampled_from(OF_OFFERS)] * 4),
    cloud=st.sampled_from(OF_CLOUDS),
    good=st.integers(0, 4),
    slots=st.sampled_from([1, 3, 4]),
    crash_at_s=st.none() | st.floats(0.0, 400.0),
)


def strike_offer(cloud: SimulatedProvider, offer: Offer, what: str) -> None:
    faults, key = cloud.faults, offer.key
    match what:
        case "no stock":
            faults.stock_out.add(key)
        case "quota":
            faults.stock_out.add(key)
            faults.refuse[key] = QuotaError("limit 0")
        case "never boots":
            faults.never_boot.add(key)
        case "dies at boot":
            faults.dies_at_boot.add(key)
        case "queues for ever":
            faults.queue_s[key] = 1e9


def strike_cloud(cloud: SimulatedProvider, what: str) -> None:
    faults = cloud.faults
    match what:
        case "hangs":
            faults.hang = {"launch", "list", "terminate"}
        case "answers are lost":
            faults.unanswered = 1000
        case "refuses credentials":
            denied = ProviderAuthError("denied")
            faults.refuse = {offer.key: denied for offer in (*HERE, *THERE)}
        case "throttles":
            faults.throttle = {LimitedCall.LAUNCH: 1000}
        case "lists fail":
            faults.list_fails = True


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(trouble=troubles)
def test_work_starts_while_one_offer_is_up(trouble: Trouble) -> None:
    async def main() -> None:
        pool = PoolSettings(pool="gpu", max_instances=3, max_idle_s=60.0, on_demand_after_s=120.0)
        world = FleetWorld(LoopClock(), HERE, settings=pool)
        clouds = {"cloud": world.cloud, "there": world.add_provider(*THERE)}
        offers = [*HERE, *THERE]
        good = offers.pop(trouble.good)
        (other,) = (cloud for name, cloud in clouds.items() if name != good.key.provider)
        await world.start()
        await asyncio.sleep(10)  # both are open, and seen to be empty
        for offer, what in zip(offers, trouble.offers, strict=True):
            if what != "quota" or offer.key.provider != good.key.provider:  # it closes its region
                strike_offer(clouds[offer.key.provider], offer, what)
        strike_cloud(other, trouble.cloud)
        try:
            await world.want(a_gang("g", trouble.slots))
            if trouble.crash_at_s is not None:
                await asyncio.sleep(trouble.crash_at_s)
                await world.crash()
                await world.start()
            await world.until(lambda: "g" in world.host.placed, limit_s=WITHIN_S)
            assert len(world.living()) <= pool.max_instances
        finally:
            await world.stop()

    run(main(), limit_s=20_000)
