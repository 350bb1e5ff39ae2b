"""Images of machines: made by one machine that works for nobody, or nothing of them is left. On virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from master.core.actor import Actor
from provisioner.images.records import BakeRecord, BakeState
from provisioner.money.budgets import Budget
from provisioner.types import Market, Offer, PoolSettings
from tests.fakes.baking_cloud import BakingCloud
from tests.fakes.deadly_steps import DeadlySteps
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.simulated_provider import SimulatedProvider
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import Conflict, InvalidArgument, WindlassError

ADMIN = Actor(user_id=1, name="admin")
SPOT = an_offer(4, 2.0, name="g5", market=Market.SPOT)
OTHER = an_offer(8, 9.0, name="p4")


async def started(
    *offers: Offer, settings: PoolSettings | None = None
) -> tuple[FleetWorld, BakingCloud]:
    world = FleetWorld(LoopClock(), offers or (SPOT,), settings=settings)
    cloud = BakingCloud(world, offers or (SPOT,))
    world.cloud = cloud
    await world.start()
    await world.until(lambda: cloud.is_open and "list" in cloud.calls)
    await asyncio.sleep(5)
    return world, cloud


def the_bake(world: FleetWorld) -> BakeRecord:
    (found,) = world.provisioner.bakery.all()
    return found


async def over(world: FleetWorld) -> BakeRecord:
    await world.until(lambda: the_bake(world).is_over, limit_s=6 * 3600)
    return the_bake(world)


def nothing_left(world: FleetWorld, cloud: BakingCloud) -> bool:
    return not (cloud.living() or cloud.images.made or cloud.images.copies)


def test_a_bake_ends_with_an_image_and_without_a_machine() -> None:
    async def scene() -> None:
        world, cloud = await started()
        begun = await world.provisioner.bakery.begin("gpu", by=ADMIN)
        assert begun.state is BakeState.INSTALLING
        assert begun.offer.key.market is Market.ON_DEMAND, "it is stopped, and not taken back"
        await world.until(lambda: the_bake(world).note == "installing windlass")
        assert world.states() == ["baking"]
        assert world.provisioner.bakery.is_served(begun.id)
        await world.until(lambda: the_bake(world).state is BakeState.IMAGING)
        assert not world.provisioner.bakery.is_served(begun.id), "its token is spent"
        bake = await over(world)
        assert bake.state is BakeState.READY
        assert bake.image_id == f"ami-{bake.name}"
        assert bake.image_key == "image_id"
        assert bake.usd > 0
        assert not cloud.living()
        assert set(cloud.images.made) == {bake.name}
        assert len(cloud.instances) == 1
        assert world.host.last_outlook is not None
        assert not world.host.last_outlook.booting, "no capacity of the pool"
        await world.stop()

    run(scene())


def test_its_machine_costs_money_and_serves_nobody() -> None:
    async def scene() -> None:
        settings = PoolSettings(
            pool="gpu", max_instances=1, budget=Budget(usd_per_hour=4.0), max_idle_s=60
        )
        world, cloud = await started(settings=settings)
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: world.states() == ["baking"])
        await world.want(a_gang("one"))
        await world.until(lambda: "one" in world.host.placed)
        worker = next(iter(world.host.placed["one"]))
        assert not worker.startswith("bake-")
        assert len(cloud.living()) == 2, "max_instances is of machines that work"
        await world.want(a_gang("two"))
        await asyncio.sleep(10)
        assert "two" in world.host.waiting
        world.host.finish("one")
        world.host.finish("two")
        assert (await over(world)).state is BakeState.READY
        await world.until(lambda: not cloud.living())
        assert world.provisioner.cost().spent_usd >= cloud.usd() - 1e-6
        await world.stop()

    run(scene())


def test_over_budget_nothing_is_begun() -> None:
    async def scene() -> None:
        settings = PoolSettings(pool="gpu", budget=Budget(usd_per_hour=1.0))
        world, cloud = await started(settings=settings)
        with pytest.raises(
            Conflict, match=r"pool gpu may cost 1\.00 USD per hour, this needs 2\.00"
        ):
            await world.provisioner.bakery.begin("gpu", by=ADMIN)
        assert "launch" not in cloud.calls
        assert not world.provisioner.bakery.all()
        await world.stop()

    run(scene())


def test_which_machine_is_asked_where_there_are_several() -> None:
    async def scene() -> None:
        world, cloud = await started(SPOT, OTHER)
        bakery = world.provisioner.bakery
        with pytest.raises(InvalidArgument, match="buys g5 of cloud, p4 of cloud: say of which"):
            await bakery.begin("gpu", by=ADMIN)
        with pytest.raises(InvalidArgument, match="buys no g6: it buys g5 of cloud, p4 of cloud"):
            await bakery.begin("gpu", "g6", by=ADMIN)
        cloud.faults.stock_out = {OTHER.key}
        bake = await bakery.begin("gpu", "p4", by=ADMIN)
        assert bake.offer.key.instance_type == "p4"
        with pytest.raises(Conflict, match="pool gpu is being baked already"):
            await bakery.begin("gpu", "g5", by=ADMIN)
        assert (await over(world)).error == "no p4 left in a"
        with pytest.raises(Conflict, match="no p4 left in a"):
            await bakery.begin("gpu", "p4", by=ADMIN)
        await world.stop()

    run(scene())


def test_a_boot_that_fails_says_why_and_leaves_nothing() -> None:
    async def scene() -> None:
        world, cloud = await started()
        cloud.boot_fails = "the pool's startup_script ended with exit code 3"
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: cloud.instances)
        cloud.consoles = dict.fromkeys(cloud.instances, "E: no such package")
        bake = await over(world)
        assert bake.state is BakeState.FAILED
        assert bake.error == (
            "its boot failed: the pool's startup_script ended with exit code 3; "
            "its console ends with: E: no such package"
        )
        assert nothing_left(world, cloud)
        assert not world.provisioner.blocked_offers(), "the pool's own machines are tried on"
        await world.stop()

    run(scene())


@pytest.mark.parametrize("when", ["installing", "imaging"])
def test_a_cancelled_one_leaves_nothing(when: str) -> None:
    async def scene() -> None:
        world, cloud = await started()
        bakery = world.provisioner.bakery
        bake = await bakery.begin("gpu", by=ADMIN)
        if when == "imaging":
            await world.until(lambda: cloud.images.made)
        else:
            await world.until(lambda: the_bake(world).note == "installing windlass")
        await bakery.cancel(bake.id, by=ADMIN)
        bake = await over(world)
        assert bake.state is BakeState.FAILED
        assert bake.error.startswith("cancelled by ")
        assert nothing_left(world, cloud)
        again = await bakery.cancel(bake.id, by=ADMIN)
        assert again.error == bake.error
        await world.stop()

    run(scene())


@pytest.mark.slow
def test_a_machine_that_never_says_anything_is_ended_at_the_deadline() -> None:
    async def scene() -> None:
        world, cloud = await started()
        cloud.is_silent = True
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        bake = await over(world)
        assert bake.error == "not installed within 3600 s"
        assert nothing_left(world, cloud)
        await world.stop()

    run(scene())


def test_a_machine_that_stopped_while_no_master_listened_is_given_up() -> None:
    async def scene() -> None:
        world, cloud = await started()
        cloud.is_silent = True
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: cloud.instances)
        await world.crash()
        cloud.stopped |= set(cloud.instances)
        await world.start()
        began = asyncio.get_running_loop().time()
        bake = await over(world)
        assert bake.error.startswith("its machine stopped before everything was installed")
        assert asyncio.get_running_loop().time() - began < 600, "not at the deadline"
        assert nothing_left(world, cloud)
        await world.stop()

    run(scene())


def test_an_image_that_the_provider_refuses_leaves_nothing() -> None:
    async def scene() -> None:
        world, cloud = await started()
        cloud.images.refuses = "You are not authorized: ec2:CreateImage"
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        bake = await over(world)
        assert bake.error == (
            "the image could not be made: You are not authorized: ec2:CreateImage"
        )
        assert nothing_left(world, cloud)
        await world.stop()

    run(scene())


def test_lost_replies_make_one_image() -> None:
    async def scene() -> None:
        world, cloud = await started()
        cloud.faults.lost_replies = 1
        cloud.images.unanswered = 3
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        assert (await over(world)).state is BakeState.READY
        assert len(cloud.instances) == 1
        assert len(cloud.images.made) == 1
        await world.stop()

    run(scene())


def test_an_image_that_cannot_be_removed_at_once_is_removed_later() -> None:
    async def scene() -> None:
        world, cloud = await started()
        cloud.images.fails_to_remove = 4
        bake = await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: cloud.images.made)
        await world.provisioner.bakery.cancel(bake.id, by=ADMIN)
        await over(world)
        assert nothing_left(world, cloud)
        await world.stop()

    run(scene())


@pytest.mark.slow
def test_an_image_that_may_not_be_removed_is_tried_ever_more_rarely_and_says_why_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        world, cloud = await started()
        cloud.images.fails_to_remove = 1_000_000
        bake = await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: cloud.images.made)
        await world.provisioner.bakery.cancel(bake.id, by=ADMIN)
        await world.until(lambda: "remove_image" in cloud.calls)
        await asyncio.sleep(6 * 3600)
        assert cloud.calls.count("remove_image") <= 8 + 6 * 6
        assert the_bake(world).note == "its image cannot be removed: cannot be removed now"
        said = [x for x in caplog.records if "still paid for" in x.message]
        assert len(said) == 1
        cloud.images.fails_to_remove = 0
        await over(world)
        assert nothing_left(world, cloud)
        await world.stop()

    run(scene(), limit_s=24 * 3600)


def test_a_pool_that_is_not_configured_any_more_ends_it() -> None:
    async def scene() -> None:
        world, cloud = await started()
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: cloud.instances)
        await world.crash()
        world.settings = replace(world.settings, pool="cpu")
        world.host.pool = "cpu"
        await world.start()
        bake = await over(world)
        assert bake.error == "pool gpu is not configured any more"
        assert nothing_left(world, cloud)
        await world.stop()

    run(scene())


@pytest.mark.parametrize("installed", [False, True])
def test_its_machine_is_ended_when_its_provider_is_back(installed: bool) -> None:
    async def scene() -> None:
        world, cloud = await started()
        cloud.is_silent = not installed
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: cloud.images.made if installed else world.states() == ["baking"])
        await world.crash()
        world.cloud = SimulatedProvider(
            offers=(replace(SPOT, key=replace(SPOT.key, provider="elsewhere")),),
            clock=world.clock,
            cluster_id="test-cluster",
        )
        world.settings = replace(world.settings, pool="cpu")
        world.host.pool = "cpu"
        await world.start()
        bake = await over(world)
        assert bake.state is BakeState.FAILED
        assert ("may be left there" in bake.error) is installed
        await world.crash()
        world.cloud = cloud
        await world.start()
        await world.until(lambda: not cloud.living())
        await world.until(lambda: not world.provisioner.instances())
        await world.stop()

    run(scene())


@pytest.mark.slow
@pytest.mark.parametrize("when", ["installing", "imaging", "ending"])
def test_without_its_provider_it_is_over_and_the_pool_can_be_baked_again(when: str) -> None:
    """The pool stays: it buys elsewhere."""
    reached = {
        "installing": lambda world, cloud: world.states() == ["baking"],
        "imaging": lambda world, cloud: cloud.images.made,
        "ending": lambda world, cloud: the_bake(world).state is BakeState.ENDING,
    }[when]

    async def scene() -> None:
        world, cloud = await started()
        cloud.is_silent = when == "installing"
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: reached(world, cloud))
        await world.crash()
        elsewhere = replace(SPOT, key=replace(SPOT.key, provider="elsewhere"))
        world.cloud = BakingCloud(world, (elsewhere,))
        await world.start()
        began = asyncio.get_running_loop().time()
        bake = await over(world)
        assert asyncio.get_running_loop().time() - began < 60
        assert "provider cloud is not configured any more" in bake.error
        assert bake.state is (BakeState.READY if when == "ending" else BakeState.FAILED)
        await asyncio.sleep(10)
        again = await world.provisioner.bakery.begin("gpu", by=ADMIN)
        assert again.offer.key.provider == "elsewhere"
        await world.crash()
        world.cloud = cloud
        await world.start()
        await world.until(lambda: not cloud.living())
        await world.stop()

    run(scene())


def test_with_the_cluster_its_bakes_end() -> None:
    async def scene() -> None:
        world, cloud = await started()
        await world.provisioner.bakery.begin("gpu", by=ADMIN)
        await world.until(lambda: cloud.images.made)
        await world.provisioner.shutdown(terminate=True)
        assert nothing_left(world, cloud)
        await world.stop()

    run(scene())


STEPS = 25
"""More than a bake has commits and calls."""


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fate", ["ready", "cancelled", "fails"])
def test_kill_nine_at_every_step_leaves_an_image_or_nothing(fate: str, after: bool) -> None:
    async def scene(at: int) -> None:
        world, cloud = await started()
        deadly = DeadlySteps(at, after=after)
        deadly.watch(world.store, "save")
        deadly.watch(cloud, "launch", "terminate", "make_image", "remove_image")
        watcher = asyncio.create_task(killed(world, deadly))
        if fate == "fails":
            cloud.boot_fails = "startup_script ended with exit code 3"
        asked = asyncio.create_task(begin(world))
        cancelled = False
        while not cancelled and fate == "cancelled":
            await world.until(lambda: world.provisioner.bakery.all())
            if the_bake(world).state is not BakeState.INSTALLING:
                cancelled = await cancel(world)
            await asyncio.sleep(1)
        await asked
        bake = await over(world)
        await world.until(lambda: not cloud.living())
        watcher.cancel()
        assert len(cloud.instances) == 1, "never two machines for one bake"
        if fate == "ready":
            assert bake.state is BakeState.READY
            assert set(cloud.images.made) == {bake.name}
        else:
            assert bake.state is BakeState.FAILED
            assert nothing_left(world, cloud)
        await world.stop()

    async def begin(world: FleetWorld) -> None:
        """As a person does who gets no answer: again, if nothing was begun."""
        while not world.provisioner.bakery.all():
            try:
                async with asyncio.timeout(20):
                    await world.provisioner.bakery.begin("gpu", by=ADMIN)
            except (TimeoutError, WindlassError):
                await asyncio.sleep(1)

    async def cancel(world: FleetWorld) -> bool:
        try:
            async with asyncio.timeout(20):
                await world.provisioner.bakery.cancel(the_bake(world).id, by=ADMIN)
        except (TimeoutError, WindlassError):
            return False
        return True

    async def killed(world: FleetWorld, deadly: DeadlySteps) -> None:
        await deadly.killed.wait()
        await world.crash()
        await asyncio.sleep(1)
        await world.start()

    for at in range(1, STEPS):
        run(scene(at))
