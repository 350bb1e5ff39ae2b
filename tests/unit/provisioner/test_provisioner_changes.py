"""What changes around a fleet: its configuration, the clock, its size; on virtual time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import fields
from threading import current_thread, main_thread
from typing import Any

import pytest

from provisioner.fleet import decide, reconciler
from provisioner.fleet.clock_jumps import shifted
from provisioner.fleet.instances import InstanceRecord, StoppedTime
from provisioner.fleet.intents import IntentRecord
from provisioner.fleet.state import FleetState
from provisioner.images.records import BakeRecord
from provisioner.journal.records import Decision
from provisioner.types import Market, PoolSettings
from tests.fakes.decisions import a_decision
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run

OFFER = an_offer()
OTHER = an_offer(4, 5.0, name="other")


def in_world(story: Callable[[FleetWorld, LoopClock], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        clock = LoopClock()
        keys = {"max_instances": 10, "max_idle_s": 120.0} | settings
        world = FleetWorld(clock, [OFFER], settings=PoolSettings(pool="gpu", **keys))
        await world.start()
        try:
            await story(world, clock)
        finally:
            await world.stop()

    run(main(), limit_s=200_000)


async def working(world: FleetWorld, request_id: str = "a") -> str:
    await world.want(a_gang(request_id))
    await world.until(lambda: request_id in world.host.placed)
    return next(iter(world.host.placed[request_id]))


def test_a_machine_of_a_type_that_is_not_bought_any_more_finishes_its_work_and_goes() -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        old = await working(world)
        world.cloud.sold = [OTHER]
        await world.until(lambda: old in world.host.cordoned)
        assert "a" in world.host.placed, "what runs may finish"
        (view,) = world.provisioner.instances()
        assert view.reason == (
            "pool gpu does not buy gpu-4 from cloud any more: it ends when its work has"
        )
        new = await working(world, "b")
        assert world.cloud.instances[new].intent.offer.key == OTHER.key
        world.host.finish("a")
        await world.until(lambda: old in world.host.gone)
        assert world.living() == [new]
        assert "does not buy gpu-4" in world.host.gone[old]

    in_world(story)


def test_machines_of_a_pool_that_is_gone_are_ended_and_booked_at_what_they_cost() -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        await working(world)
        await world.crash()
        world.host.placed.clear()
        world.settings = PoolSettings(pool="another")
        await world.start()
        await world.until(lambda: not world.provisioner.instances())
        assert not world.living()
        assert "pool gpu is not configured any more" in next(iter(world.host.gone.values()))
        spent = world.provisioner.cost().spent_usd
        assert spent == pytest.approx(world.cloud.usd(), rel=0.1)
        assert spent > 0

    in_world(story)


def test_a_provider_that_does_not_know_yet_what_it_sells_retires_nothing() -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        await working(world)
        world.cloud.offers = lambda pool: None  # type: ignore[method-assign]
        await asyncio.sleep(60)
        assert not world.host.cordoned

    in_world(story)


def test_what_is_queued_for_a_type_that_is_not_bought_any_more_is_cancelled() -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        world.cloud.faults.queue_s = {OFFER.key: 10_000.0}
        await world.want(a_gang("a"))
        await world.until(lambda: world.cloud.queue)
        world.cloud.sold = [OTHER]
        await world.until(lambda: not world.cloud.queue)
        await world.until(lambda: "a" in world.host.placed)

    in_world(story)


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_s22_a_clock_that_jumps_fails_no_boot_and_ends_no_idle_node(by_s: float) -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        await working(world)
        world.host.finish("a")
        await asyncio.sleep(30)
        await world.want(a_gang("b", 8))
        await world.until(lambda: len(world.living()) == 2)
        clock.jump(by_s)
        await asyncio.sleep(10)
        assert len(world.living()) == 2
        assert "terminate" not in world.cloud.calls
        await world.until(lambda: "b" in world.host.placed, limit_s=120)
        assert len(world.cloud.instances) == 2
        world.host.finish("b")
        await asyncio.sleep(100)
        assert len(world.living()) == 2, "idle for less than the limit"
        await world.until(lambda: not world.provisioner.instances(), limit_s=60)
        bill = 2 * 4.0 * (asyncio.get_running_loop().time()) / 3600
        assert 0 < world.provisioner.cost().spent_usd < bill

    in_world(story)


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_s22_a_clock_that_jumps_changes_no_block(by_s: float) -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        world.cloud.faults.stock_out = {OFFER.key}
        await world.want(a_gang("a"))
        await world.until(lambda: "launch" in world.cloud.calls)
        clock.jump(by_s)
        await asyncio.sleep(100)
        assert world.cloud.calls.count("launch") == 1
        await asyncio.sleep(40)
        assert world.cloud.calls.count("launch") == 2

    in_world(story)


def all_times_at(kind: type[Any], at: float, **more: Any) -> Any:
    """A record whose every time that is by our clock is that; deliveries and ends are by the provider's."""
    ours = {
        name
        for name in (field.name for field in fields(kind))
        if name.endswith(("_at", "since", "until")) and name not in ("starts_at", "ends_at")
    }
    return kind(**more, **dict.fromkeys(ours, at))


def test_a_jump_moves_every_time_of_every_record() -> None:
    def at(seconds: float) -> tuple[IntentRecord, InstanceRecord, BakeRecord, Decision]:
        known: dict[str, Any] = {"id": "i", "pool": "gpu", "offer": OFFER}
        return (
            all_times_at(IntentRecord, seconds, **known, token="t", generation=1, claims=((),)),
            all_times_at(
                InstanceRecord,
                seconds,
                **known,
                intent_id="i",
                generation=1,
                stops=(all_times_at(StoppedTime, seconds),),
            ),
            all_times_at(BakeRecord, seconds, **known, name="n", image_key="k", by="b"),
            a_decision("i", at=seconds),
        )

    def state(
        intent: IntentRecord, instance: InstanceRecord, bake: BakeRecord, decision: Decision
    ) -> FleetState:
        return FleetState(
            cluster_id="c",
            generation=1,
            intents={"i": intent},
            instances={"i": instance},
            bakes={"i": bake},
            decisions={"i": decision},
        )

    moved = shifted(state(*at(10_000.0)), -3600.0)
    found = (moved.intents["i"], moved.instances["i"], moved.bakes["i"], moved.decisions["i"])
    assert found == at(6_400.0)


def test_a_clock_that_does_not_jump_changes_nothing() -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        state = world.provisioner._state
        assert shifted(state, 0.0) is state

    in_world(story)


def test_max_starting_is_the_deadline_of_a_boot() -> None:
    async def story(world: FleetWorld, clock: LoopClock) -> None:
        world.cloud.faults.never_boot = {OFFER.key}
        await world.want(a_gang("a"))
        await world.until(lambda: world.living())
        (first,) = world.living()
        await asyncio.sleep(80)
        assert world.living() == [first]
        await world.until(lambda: first in world.host.gone, limit_s=20)
        assert "no agent connected within" in world.host.gone[first]

    in_world(story, max_starting_s=90.0)


def test_s19_a_large_fleet_is_decided_and_written_off_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nobody collects garbage meanwhile: a decision makes many objects in no cycle."""
    monkeypatch.setattr(decide, "THREAD_FROM", 4)
    where: list[tuple[str, bool]] = []
    collects: list[bool] = []
    for module, name in ((decide, "plan"), (reconciler, "unsaved")):
        real = getattr(module, name)

        def noted(*args: Any, name: str = name, real: Callable[..., Any] = real) -> Any:
            where.append((name, current_thread() is main_thread()))
            if name == "plan":
                collects.append(gc.isenabled())
            return real(*args)

        monkeypatch.setattr(module, name, noted)

    async def story(world: FleetWorld, clock: LoopClock) -> None:
        await world.want(a_gang("a"))
        await asyncio.sleep(1)
        assert set(where) == {("plan", True), ("unsaved", True)}, (
            "few machines are not worth a thread"
        )
        await world.want(a_gang("b"), a_gang("c"))
        await world.until(lambda: len(world.host.placed) == 3)
        assert {("plan", False), ("unsaved", False)} <= set(where)
        assert collects
        assert not any(collects)

    in_world(story)


@pytest.mark.parametrize("queued", [False, True])
def test_a_launch_whose_provider_is_not_configured_any_more_is_given_up(
    queued: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can ask what became of it; what it made is found by its tags when the provider is configured again."""
    new = an_offer(4, 1.0, provider="new")

    async def story(world: FleetWorld, clock: LoopClock) -> None:
        old = world.cloud
        await asyncio.sleep(3)  # it was listed
        if queued:
            old.faults.queue_s = {OFFER.key: 500.0}
        else:
            old.faults.lost_replies = 1
            old.faults.hang = {"list"}
        await world.want(a_gang("a"))
        await world.until(lambda: "launch" in old.calls)
        await world.crash()
        other = world.add_provider(new)
        world.others.remove(other)
        world.cloud = other
        await world.start()
        await world.until(lambda: "a" in world.host.placed, limit_s=200)
        assert "provider cloud is not configured any more" in caplog.text
        assert [view.offer.provider for view in world.provisioner.instances()] == ["new"]
        await world.crash()
        old.faults = type(old.faults)()
        world.others.append(old)
        await world.start()
        world.others = [old]
        await world.until(lambda: len(world.living()) == 1 and not old.queue, limit_s=2000)
        assert "a" in world.host.placed, "the one that works is kept, the other ended"
        other.drop_timers()
        old.drop_timers()

    in_world(story)


def test_the_offer_of_a_spot_machine_that_is_taken_back_is_spared_until_after_it_went() -> None:
    """R19: the next one there would be taken back, too."""
    spot = an_offer(4, 1.0, name="spot", market=Market.SPOT, boot_s=10.0)
    zone_b = an_offer(4, 2.0, name="spot", zone="b", market=Market.SPOT, boot_s=10.0)

    async def story(world: FleetWorld, clock: LoopClock) -> None:
        world.cloud.sold = [spot, zone_b]
        first = await working(world)
        assert world.cloud.instances[first].intent.offer.key == spot.key
        world.cloud.instances[first].leaves_at = clock.now().timestamp() + 120
        await world.until(lambda: world.provisioner.blocked_offers(), limit_s=10)
        (blocked,) = world.provisioner.blocked_offers()
        assert blocked.offer == spot.key
        assert "taken back: spot notice" in blocked.reason
        second = await working(world, "b")
        assert world.cloud.instances[second].intent.offer.key == zone_b.key
        await asyncio.sleep(90)
        assert world.provisioner.blocked_offers(), (
            "not extended by further looks, and not forgotten"
        )
        await world.until(lambda: not world.provisioner.blocked_offers(), limit_s=200)
        third = await working(world, "c")
        assert world.cloud.instances[third].intent.offer.key == spot.key

    in_world(story, max_instances=3)
