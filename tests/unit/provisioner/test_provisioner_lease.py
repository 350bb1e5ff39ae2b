"""A master that stood still while another took over: it calls no provider any more; on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from provisioner.providers.base import LimitedCall
from provisioner.types import PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import LeaseLost, StoreUnavailable

OFFER = an_offer(4, 1.0)
LOST = LeaseLost("master two leads")


def ended_by(story: Callable[[FleetWorld], Awaitable[None]]) -> BaseException | None:
    """What ended the provisioner during the story."""

    async def main() -> BaseException | None:
        settings = PoolSettings(pool="gpu", max_instances=4, max_idle_s=60.0)
        world = FleetWorld(LoopClock(), (OFFER,), settings=settings)
        await world.start()
        try:
            await story(world)
        finally:
            ended = world.runner.exception() if world.runner.done() else None
            if not world.runner.done():
                await world.crash()
            world.cloud.drop_timers()
        return ended

    return run(main(), limit_s=100_000)


def is_lease_lost(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_lease_lost, error.exceptions))
    return isinstance(error, LeaseLost)


@pytest.mark.parametrize("call", ["launch", "launch again", "terminate", "cancel"])
def test_no_call_that_changes_anything_is_made_without_the_lease(call: str) -> None:
    async def story(world: FleetWorld) -> None:
        faults, calls = world.cloud.faults, world.cloud.calls
        if call == "launch again":
            faults.throttle = {LimitedCall.LAUNCH: 1000}
        if call == "cancel":
            faults.queue_s = {OFFER.key: 5000.0}
        if call != "launch":
            await world.want(a_gang("a"))
            await world.until(lambda: "launch" in calls)
        if call == "terminate":
            await world.until(lambda: "a" in world.host.placed)
        if call == "cancel":
            await world.until(lambda: bool(world.cloud.queue))
            world.host.waiting.clear()
        made = list(calls)
        world.store.lease = LOST
        if call == "launch":
            await world.want(a_gang("a"))
        if call == "terminate":
            world.host.finish("a")
        faults.throttle = {}
        await asyncio.wait({world.runner}, timeout=3600)
        assert world.runner.done(), "it has ended by itself"
        assert set(calls[len(made) :]) <= {"open", "list", "answer"}

    assert is_lease_lost(ended_by(story))


def test_calls_wait_for_a_database_that_does_not_answer() -> None:
    async def story(world: FleetWorld) -> None:
        world.store.lease = StoreUnavailable("no answer")
        await world.want(a_gang("a"))
        await asyncio.sleep(30)
        assert "launch" not in world.cloud.calls
        world.store.lease = None
        await world.until(lambda: "a" in world.host.placed)
        assert world.cloud.calls.count("launch") == 1

    assert ended_by(story) is None
