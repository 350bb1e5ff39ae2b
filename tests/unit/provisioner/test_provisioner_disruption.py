"""Work is moved by the whole provisioner: written down first, told again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from provisioner.planning.scale_down.disruption import Disruption
from provisioner.types import Market, Offer, PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run

HOUR_S = 3600.0
FOUR = an_offer(4, 4.0)
SPOT = an_offer(4, 2.0, market=Market.SPOT)

Story = Callable[[FleetWorld], Coroutine[Any, Any, None]]


def tell(story: Story, rules: Disruption, *offers: Offer, **more: Any) -> None:
    async def main() -> None:
        settings = PoolSettings(
            pool="gpu", max_instances=10, max_idle_s=120.0, disruption=rules, **more
        )
        world = FleetWorld(LoopClock(), offers or (FOUR,), settings=settings)
        world.host.ran_s = 2 * HOUR_S
        await world.start()
        try:
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=1e7)


async def two_half_empty(world: FleetWorld, *, fill: bool = False) -> None:
    """Two machines with one run each that would fit together; with `fill` not before that has ended."""
    await world.want(a_gang("big", 2), a_gang("fill", 2))
    await world.until(lambda: len(world.host.placed) == 2)
    await world.want(a_gang("small", 1))
    await world.until(lambda: len(world.host.placed) == 3)
    if not fill:
        world.host.finish("fill")
    (one,), (two,) = world.host.placed["big"], world.host.placed["small"]
    assert one != two


async def drained(world: FleetWorld) -> str:
    """The machine whose work is to leave, and the run that is on it."""
    await two_half_empty(world)
    await world.until(lambda: world.host.leaving, limit_s=HOUR_S)
    (name,) = world.host.leaving
    return name


def end_work_on(world: FleetWorld, name: str) -> None:
    for id_ in [id_ for id_, where in world.host.placed.items() if name in where]:
        world.host.finish(id_)


PACKING = Disruption(packing=True)


def test_its_work_goes_on_elsewhere_and_the_machine_ends() -> None:
    async def story(world: FleetWorld) -> None:
        world.host.lets_go = True
        await two_half_empty(world)
        await world.until(lambda: len(world.host.gone) == 1, limit_s=HOUR_S)
        (left,), (gone,) = world.living(), world.host.gone.values()
        assert world.host.placed == {"big": {left: 2}, "small": {left: 1}}
        assert "packing: its work fits on" in gone
        assert len(world.cloud.instances) == 2  # nothing was bought for what was moved

    tell(story, PACKING)


def test_a_machine_that_is_left_gets_no_new_work_and_says_why() -> None:
    async def story(world: FleetWorld) -> None:
        two = await drained(world)
        assert two in world.host.cordoned
        shown = next(v for v in world.provisioner.instances() if v.id == two)
        assert "draining since" in shown.reason
        assert "packing" in shown.reason
        by, why = world.host.leaving[two]
        await asyncio.sleep(60)
        assert world.host.leaving[two] == (by, why)  # however often it is told
        assert two in world.living()  # its work has not left yet
        end_work_on(world, two)
        await world.until(lambda: two not in world.living())

    tell(story, PACKING)


def test_it_is_told_again_after_a_crash() -> None:
    async def story(world: FleetWorld) -> None:
        two = await drained(world)
        before = dict(world.host.leaving)
        await world.crash()
        world.host.leaving.clear()
        await world.start()
        assert two in world.host.cordoned  # before anything is decided
        await world.until(lambda: world.host.leaving == before)
        assert len(world.living()) == 2

    tell(story, PACKING)


def test_nothing_is_told_that_is_not_written_down() -> None:
    async def story(world: FleetWorld) -> None:
        await two_half_empty(world, fill=True)
        world.store.fails = True
        world.host.finish("fill")
        await asyncio.sleep(60)
        assert not world.host.leaving
        assert not world.host.cordoned
        world.store.fails = False
        await world.until(lambda: world.host.leaving, limit_s=HOUR_S)

    tell(story, PACKING)


def test_work_that_came_meanwhile_keeps_the_machine() -> None:
    """Between the snapshot and the decision a notebook has started there."""

    async def story(world: FleetWorld) -> None:
        await two_half_empty(world, fill=True)
        machines = world.living()

        drain = world.host.drain
        tried: list[str] = []

        def too_late(agent_id: str) -> None:
            tried.append(agent_id)
            world.host.placed[f"notebook-{agent_id}"] = {agent_id: 1}
            world.host.started[f"notebook-{agent_id}"] = world.host.now()
            world.host.stubborn.add(f"notebook-{agent_id}")
            drain(agent_id)

        world.host.drain = too_late  # type: ignore[method-assign]
        world.host.finish("fill")
        await world.until(lambda: tried, limit_s=HOUR_S)
        await asyncio.sleep(600)
        assert sorted(world.living()) == sorted(machines)
        assert not world.host.leaving
        assert not world.host.cordoned

    tell(story, PACKING)


@pytest.mark.slow
def test_a_cheaper_machine_is_up_before_anything_moves() -> None:
    async def story(world: FleetWorld) -> None:
        world.host.lets_go = True
        world.cloud.faults.stock_out.add(SPOT.key)
        await world.want(a_gang("long", 4))
        await world.until(lambda: "long" in world.host.placed)
        (dear,) = world.living()
        world.cloud.faults.stock_out.clear()
        await world.until(lambda: len(world.living()) == 2, limit_s=3 * HOUR_S)
        assert dear not in world.host.leaving
        await world.until(lambda: world.living() != [dear] and len(world.living()) == 1)
        (cheap,) = world.living()
        assert world.cloud.instances[cheap].intent.offer == SPOT
        assert world.host.placed["long"] == {cheap: 4}
        await asyncio.sleep(900)
        assert world.living() == [cheap]  # and there it stays

    tell(story, Disruption(replacement=True), FOUR, SPOT)


@pytest.mark.slow
def test_changed_settings_replace_machines_one_after_the_other() -> None:
    async def story(world: FleetWorld) -> None:
        world.host.lets_go = True
        await world.want(a_gang("x", 4), a_gang("y", 4))
        await world.until(lambda: len(world.host.placed) == 2)
        old = set(world.living())
        await asyncio.sleep(60)
        assert set(world.living()) == old
        world.cloud.settings = "v2"
        for _ in range(3 * 3600):
            assert len(world.living()) <= 3, "more than one at once"
            assert len(set(world.host.leaving) & set(world.living())) <= 1
            if not old & set(world.living()):
                break
            await asyncio.sleep(1)
        assert not old & set(world.living())
        assert len(world.host.placed) == 2
        await asyncio.sleep(900)
        assert len(world.cloud.instances) == 4

    tell(story, Disruption(drift=True))


@pytest.mark.slow
@pytest.mark.parametrize("rules", [PACKING, Disruption(replacement=True), Disruption(drift=True)])
def test_work_that_cannot_be_preempted_is_never_asked_to_leave(rules: Disruption) -> None:
    async def story(world: FleetWorld) -> None:
        world.host.stubborn |= {"big", "small"}
        world.cloud.faults.stock_out.add(SPOT.key)
        await two_half_empty(world)
        world.cloud.faults.stock_out.clear()
        world.cloud.settings = "v2"
        await asyncio.sleep(900)
        assert not world.host.leaving

    tell(story, rules.model_copy(update={"share": 1.0}), FOUR, SPOT)
