"""Every provider under the real provisioner: what its answers come to, alone and beside others that fail."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from master.core.reasons import ReasonKind
from provisioner.capacity.offer_views import OfferState
from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import FoundState, LimitedCall
from provisioner.providers.errors import Refusal
from provisioner.types import PoolSettings
from tests.contract.providers.base import POOL, ProviderCase
from tests.fakes.fleet_world import CLUSTER, FleetWorld, a_gang, an_offer
from tests.fakes.simulated_provider import SimulatedProvider
from windlass.base.clock import SystemClock
from windlass.base.errors import ProviderAuthError

SOON_S = 60.0
"""Real seconds: a bound for machines that are busy with other tests, not what it takes."""


@asynccontextmanager
async def buying_from(
    case: ProviderCase, *others: SimulatedProvider, patience_s: float = 0.0
) -> AsyncIterator[FleetWorld]:
    """A pool that buys from the provider of the case, and from others; so long it waits for what is queued."""
    settings = PoolSettings(
        pool=POOL,
        max_instances=10,
        max_idle_s=0.5,
        on_demand_after_s=max(patience_s, case.patience_s),
    )
    world = FleetWorld(
        SystemClock(),
        [],
        settings=settings,
        seed=secrets.randbits(32),  # ids of launches are those of processes on this machine
        cloud_name="none",
        interval_s=0.2,
    )
    world.others += others
    await world.start(case.provider)
    try:
        yield world
    finally:
        await world.crash()
        for other in others:
            other.drop_timers()


async def until(what: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON_S):
        while not what():  # noqa: ASYNC110 - conditions are of many objects
            await asyncio.sleep(0.05)


async def joined(world: FleetWorld, case: ProviderCase) -> str:
    """The agent of the one machine of the case connects."""
    async with asyncio.timeout(SOON_S):
        while not (found := await case.living()):  # noqa: ASYNC110 - asks the provider
            await asyncio.sleep(0.1)
    (instance_id,) = found
    await until(lambda: instance_id in {view.id for view in world.provisioner.instances()})
    world.host.sizes[instance_id] = 2
    world.provisioner.note_agent(instance_id, True)
    return instance_id


def is_open(world: FleetWorld, case: ProviderCase) -> bool:
    """It was listed: its offers may be bought."""
    views = [v for v in world.provisioner.offers() if v.offer.key.provider == case.provider.name]
    return any(view.state is OfferState.OPEN for view in views)


async def gone(case: ProviderCase) -> None:
    async with asyncio.timeout(SOON_S):
        while await case.living():  # noqa: ASYNC110 - asks the provider
            await asyncio.sleep(0.1)


def other(name: str, slots: int = 2, usd_per_hour: float = 1.0) -> SimulatedProvider:
    return SimulatedProvider(
        offers=[an_offer(slots, usd_per_hour, provider=name, boot_s=0.1)],
        clock=SystemClock(),
        cluster_id=CLUSTER,
        list_every_s=0.1,
        list_grace_s=0.5,
    )


@pytest.mark.slow
async def test_a_machine_comes_takes_work_and_goes(case: ProviderCase) -> None:
    async with buying_from(case) as world:
        await world.want(a_gang("a", 2))
        instance_id = await joined(world, case)
        await until(lambda: "a" in world.host.placed)
        world.host.finish("a")
        await gone(case)
        world.go_silent(instance_id)
        await until(lambda: not world.provisioner.instances())


@pytest.mark.slow
async def test_one_that_hangs_one_that_lies_and_one_without_credentials_hinder_no_other(
    case: ProviderCase,
) -> None:
    hangs, lies, refuses, locked = (
        other("hangs"),
        other("lies", 4, 9.0),
        other("refuses"),
        other("locked"),
    )
    hangs.faults.hang = {"list", "launch", "terminate"}
    lies.faults.lies = True
    refuses.faults.refuse = {o.key: Refusal(BlockKind.AUTH, "x") for o in refuses.offers(POOL)}
    locked.faults.open_fails = ProviderAuthError("ExpiredToken")
    async with buying_from(case, hangs, lies, refuses, locked) as world:
        await until(lambda: is_open(world, case))
        await world.want(a_gang("a", 2))
        await joined(world, case)
        await until(lambda: "a" in world.host.placed)
        await world.want(a_gang("b", 4, single_agent=True))
        await until(lies.living)
        (made,) = lies.living()
        names = {"lies", case.provider.name}
        await until(lambda: made.id in {view.id for view in world.provisioner.instances()})
        assert {view.offer.provider for view in world.provisioner.instances()} == names
        assert not hangs.instances
        assert not refuses.instances
        assert not locked.instances
        world.host.finish("a")


SAID = {
    BlockKind.CAPACITY: ReasonKind.NO_CAPACITY,
    BlockKind.QUOTA: ReasonKind.QUOTA,
    BlockKind.AUTH: ReasonKind.CREDENTIALS,
    BlockKind.CONFIG: ReasonKind.MISCONFIGURED,
    BlockKind.THROTTLED: ReasonKind.THROTTLED,
    BlockKind.TRANSIENT: ReasonKind.UNREACHABLE,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAID)
async def test_who_waits_is_told_what_the_provider_said(
    case: ProviderCase, kind: BlockKind
) -> None:
    for offer in case.offers:
        case.refuse(offer, kind)
    async with buying_from(case) as world:
        await world.want(a_gang("a", 2))
        await until(lambda: (r := world.host.reasons.get("a")) and r.kind is SAID[kind])
        assert "\n" not in world.host.reasons["a"].text
        assert not await case.living()


async def test_a_provider_that_hangs_is_waited_for_by_nobody(case: ProviderCase) -> None:
    case.hang(LimitedCall.LIST)
    second = other("second", usd_per_hour=99.0)
    async with buying_from(case, second) as world:
        await world.want(a_gang("a", 2))
        await until(second.living)
        assert not second.faults.hang
    case.mend()
    await case.restart()
    assert not await case.living()


@pytest.mark.slow
async def test_a_launch_whose_reply_is_lost_is_one_machine(case: ProviderCase) -> None:
    case.lose_replies(1)
    async with buying_from(case) as world:
        await world.want(a_gang("a", 2))
        await joined(world, case)
        await until(lambda: "a" in world.host.placed)
        assert len(await case.living()) == 1


async def test_a_queued_launch_is_told_and_delivered(case: ProviderCase) -> None:
    for offer in case.offers:
        case.queue(offer)
    async with buying_from(case, patience_s=600.0) as world:
        await world.want(a_gang("a", 2))
        await until(
            lambda: (r := world.host.reasons.get("a")) and r.kind is ReasonKind.QUEUED_AT_PROVIDER
        )
        assert not await case.living()
        case.deliver()
        await joined(world, case)
        await until(lambda: "a" in world.host.placed)


async def test_a_queued_launch_that_nobody_wants_is_withdrawn(case: ProviderCase) -> None:
    for offer in case.offers:
        case.queue(offer)
    async with buying_from(case) as world:
        await world.want(a_gang("a", 2))
        await until(lambda: "accepted" in world.states())
        world.host.finish("a")
        await until(lambda: not world.states())
        assert not (await case.provider.list()).groups


async def test_a_machine_that_is_taken_back_is_left_in_time(case: ProviderCase) -> None:
    async with buying_from(case) as world:
        await world.want(a_gang("a", 2))
        instance_id = await joined(world, case)
        await until(lambda: "a" in world.host.placed)
        case.take_back(instance_id, 3600.0)
        await until(lambda: instance_id in world.host.leaving)


@pytest.mark.slow
async def test_a_termination_that_fails_is_repeated_until_the_machine_is_gone(
    case: ProviderCase,
) -> None:
    case.fail_terminates(1)
    async with buying_from(case) as world:
        await world.want(a_gang("a", 2))
        instance_id = await joined(world, case)
        world.host.finish("a")
        await until(lambda: "terminating" in world.states())
        found = (await case.living()).get(instance_id)
        assert found is not None
        assert found.state is FoundState.RUNNING
        assert world.states() == ["terminating"], "recorded until it is certainly gone"
