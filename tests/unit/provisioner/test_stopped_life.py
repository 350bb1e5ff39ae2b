"""Stopped machines in a fleet on virtual time: they are stopped, started again, and end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.capacity.offer_views import OfferState
from provisioner.capacity.refusals import BlockKind
from provisioner.fleet.views import cost_view
from provisioner.planning.scale_down.stop_value import start_of
from provisioner.providers.base import LimitedCall
from provisioner.providers.errors import Refusal
from provisioner.types import Offer, PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang
from tests.fakes.stopped_agents import EIGHT, FOUR, RULES, asleep
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import CapacityError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def a_world(*offers: Offer, **more: Any) -> FleetWorld:
    values = {"max_instances": 4, "max_idle_s": 60.0, "stopped": RULES} | more
    return FleetWorld(
        LoopClock(),
        offers or (FOUR,),
        settings=PoolSettings(pool="gpu", **values),  # type: ignore[arg-type]
    )


def in_world(story: Callable[[FleetWorld], Awaitable[None]], *offers: Offer, **more: Any) -> None:
    async def main() -> None:
        world = a_world(*offers, **more)
        await world.start()
        try:
            await asleep(world)
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=2_000_000)


@pytest.mark.slow
def test_a_machine_that_works_again_is_the_same_one_and_paid_for_its_disk_meanwhile() -> None:
    async def story(world: FleetWorld) -> None:
        (name,) = world.living()
        (view,) = world.provisioner.instances()
        assert (view.id, view.usd_per_hour) == (name, FOUR.disk_usd_per_hour)
        assert "idle for" in view.reason
        assert not world.host.gone
        await asyncio.sleep(7200)
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.living() == [name]
        assert world.cloud.calls.count("launch") == 1
        assert world.states() == ["ready"]
        spent, bill = world.provisioner.cost().spent_usd, world.cloud.usd()
        assert spent == pytest.approx(bill, abs=0.02)
        assert bill < 2.0, "two hours of its disk are not two hours of the machine"

    in_world(story)


def test_starts_take_the_time_that_was_learned() -> None:
    async def story(world: FleetWorld) -> None:
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        memory = world.provisioner._state.memory
        assert memory.boot_p50_s(start_of(FOUR, memory)) == pytest.approx(126.0, abs=5.0)
        assert memory.boot_p50_s(FOUR) == pytest.approx(180.0, abs=5.0)

    in_world(story)


def test_a_start_without_capacity_blocks_starts_alone_and_another_is_bought() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.no_start[FOUR.key] = CapacityError("InsufficientInstanceCapacity")
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.states() == ["ready", "stopped"]
        (block,) = world.provisioner._state.memory.blocks.values()
        assert block.scope.stopped
        assert not world.provisioner.blocked_offers()
        bought, start = world.provisioner.offers()
        assert (bought.state, start.state) == (OfferState.OPEN, OfferState.RECOVERING)
        assert start.name.endswith("/stopped")
        assert "InsufficientInstanceCapacity" in start.reason

    in_world(story)


def test_a_start_whose_answer_is_lost_is_asked_again() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.lost_starts = 1
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.cloud.calls.count("launch") == 1
        assert len(world.living()) == 1

    in_world(story)


@pytest.mark.slow
def test_a_start_that_nobody_answers_is_given_up() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.hang.add("start")
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.states() == ["ready", "stopped"]

    in_world(story)


@pytest.mark.slow
def test_one_started_by_somebody_else_is_adopted() -> None:
    async def story(world: FleetWorld) -> None:
        (name,) = world.living()
        await asyncio.sleep(100)
        await world.cloud.start(name, FOUR)
        await world.until(lambda: world.states() == ["ready"])
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        assert world.living() == [name]
        world.host.finish("second")
        await world.until(lambda: world.states() == ["stopped"])

    in_world(story)


@pytest.mark.slow
def test_a_started_machine_without_an_agent_is_ended() -> None:
    async def story(world: FleetWorld) -> None:
        (name,) = world.living()
        world.cloud.faults.never_boot.add(FOUR.key)
        await world.want(a_gang("second"))
        await world.until(lambda: name in world.host.gone)
        assert "no agent connected" in world.host.gone[name]

    in_world(story)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["unanswered", "under way", "of an earlier master", "of one that saw it stopped"]
)
def test_a_call_to_stop_that_arrives_late_stops_no_machine_with_work(how: str) -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        carry_out, late = world.cloud.stop, asyncio.Event()
        works: list[bool] = []

        async def stop(instance_id: str) -> None:
            """The first is carried out again, when the machine may have been started."""
            if "stop" not in world.cloud.calls:
                asyncio.get_running_loop().call_later(
                    28.0 if how == "under way" else 200.0, arrives, instance_id
                )
                await carry_out(instance_id)
                if how == "under way":
                    await late.wait()
                elif how == "unanswered":
                    raise TimeoutError("no reply")
                else:
                    await asyncio.Event().wait()

        def arrives(instance_id: str) -> None:
            works.append(any(instance_id in placed for placed in world.host.placed.values()))
            late.set()

        world.cloud.stop = stop  # type: ignore[method-assign]
        await world.want(a_gang("first"))
        await world.until(lambda: "first" in world.host.placed)
        (name,) = world.living()
        world.host.finish("first")
        await world.until(lambda: "stop" in world.cloud.calls)
        if how == "of an earlier master":
            await world.crash()
            await world.start()
        await world.until(lambda: world.states() == ["stopped"])
        if how == "of one that saw it stopped":
            await world.crash()
            await world.start()
        await world.want(a_gang("second"))
        await world.until(lambda: "second" in world.host.placed)
        await late.wait()
        assert works == [False]
        assert world.cloud.calls.count("launch") == 2, "another is bought"
        world.host.finish("second")
        await asyncio.sleep(600)
        await world.want(a_gang("third", slots=8))
        await world.until(lambda: "third" in world.host.placed)
        assert name in world.host.placed["third"], "it is started once no call may come"
        await world.stop()

    run(main(), limit_s=50_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [ProviderError("UnsupportedOperation"), Refusal(BlockKind.CONFIG, "not allowed")]
)
def test_what_cannot_be_stopped_is_ended(error: Exception) -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        world.cloud.faults.no_stop = error
        await world.want(a_gang("first"))
        await world.until(lambda: "first" in world.host.placed)
        world.host.finish("first")
        await world.until(lambda: world.host.gone)
        (why,) = world.host.gone.values()
        assert str(error) in why
        await world.stop()

    run(main(), limit_s=50_000)


@pytest.mark.slow
@pytest.mark.parametrize("throttled", [False, True])
def test_a_stop_that_fails_for_now_is_asked_again(throttled: bool) -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        world.cloud.faults.stop_failures = 0 if throttled else 2
        if throttled:
            world.cloud.faults.throttle = {LimitedCall.TERMINATE: 2}
        await asleep(world)
        assert not world.host.gone
        await world.stop()

    run(main(), limit_s=50_000)


@pytest.mark.slow
def test_one_that_is_being_stopped_gets_no_work_while_commits_fail() -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        world.cloud.faults.hang.add("stop")
        await world.want(a_gang("first"))
        await world.until(lambda: "first" in world.host.placed)
        world.host.finish("first")
        await world.until(lambda: world.states() == ["stopping"])
        (name,) = world.living()
        world.store.fails = True
        await asyncio.sleep(1000)  # it should have stopped long ago, and cannot be ended
        await world.want(a_gang("second"))
        await asyncio.sleep(10)
        assert "second" in world.host.waiting
        world.store.fails = False
        await world.until(lambda: name in world.host.gone)
        await world.until(lambda: "second" in world.host.placed)
        await world.stop()

    run(main(), limit_s=50_000)


def test_one_that_stops_by_itself_is_no_stopped_machine_of_ours() -> None:
    async def main() -> None:
        world = a_world()
        await world.start()
        await world.want(a_gang("first"))
        await world.until(lambda: "first" in world.host.placed)
        await asyncio.sleep(120)
        (name,) = world.living()
        await world.cloud.stop(name)
        world.host.finish("first")
        await world.until(lambda: name in world.host.gone)
        assert "it was stopped, by itself or by somebody" in world.host.gone[name]
        await world.stop()

    run(main(), limit_s=50_000)


@pytest.mark.slow
def test_they_end_when_they_are_old_when_the_key_goes_and_with_the_cluster() -> None:
    async def story(world: FleetWorld) -> None:
        await asyncio.sleep(RULES.max_age.total_seconds())
        await world.until(lambda: not world.living())

    in_world(story)

    async def without_key(world: FleetWorld) -> None:
        await world.crash()
        world.settings = PoolSettings(pool="gpu", max_instances=4)
        await world.start()
        await world.until(lambda: not world.living())

    in_world(without_key)

    async def closing(world: FleetWorld) -> None:
        await world.provisioner.shutdown(terminate=True)
        assert not world.living()
        assert not world.provisioner.instances()

    in_world(closing)


def test_one_that_is_no_longer_sold_is_ended() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.sold = (EIGHT,)
        await world.until(lambda: not world.living())

    in_world(story)


def test_its_disk_is_all_that_it_costs() -> None:
    async def story(world: FleetWorld) -> None:
        view = cost_view(world.provisioner._state, world.clock.now().timestamp())
        assert view.usd_per_hour == FOUR.disk_usd_per_hour

    in_world(story)
