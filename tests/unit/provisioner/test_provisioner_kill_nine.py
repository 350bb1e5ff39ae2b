"""kill -9 at every step of a launch, a late answer, a cancellation and a termination; on virtual time.

A step is a commit, or a call to the provider that is carried out; the process dies right before or right after it.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from provisioner.types import PoolSettings
from tests.fakes.deadly_steps import DeadlySteps
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run

AT_ONCE = an_offer(4, 2.0, name="at-once")
LATER = an_offer(8, 8.0, name="later", queue_deadline_s=None)
STEPS = 40
"""More than the story below has, crashes included."""


def deadly_steps(world: FleetWorld, at: int, *, after: bool) -> DeadlySteps:
    deadly = DeadlySteps(at, after=after)
    deadly.watch(world.store, "save")
    deadly.watch(world.cloud, "launch", "answer", "cancel", "terminate")
    return deadly


async def story(world: FleetWorld, deadly: DeadlySteps) -> None:
    """Two launches, one of them delivered late, one cancelled; then everything ends."""
    world.cloud.faults.queue_s = {LATER.key: 200.0}
    await world.want(a_gang("now"), a_gang("late", 8, single_agent=True))
    await world.until(lambda: {"now", "late"} <= set(world.host.placed))
    await world.want(a_gang("dropped", 8, single_agent=True))
    await world.until(lambda: world.cloud.queue)
    await asyncio.sleep(30)
    world.host.finish("dropped")
    await world.until(lambda: not world.cloud.queue)
    world.host.finish("now")
    world.host.finish("late")
    await world.until(lambda: not world.living() and not world.provisioner.instances())


async def restart_when_killed(world: FleetWorld, deadly: DeadlySteps) -> None:
    await deadly.killed.wait()
    await world.crash()
    await asyncio.sleep(1)
    await world.start()


def check_books(world: FleetWorld) -> None:
    claims: dict[str, int] = {}
    for instance in world.cloud.instances.values():
        assert world.store.knows_intent(instance.intent.intent_id)
        claims[instance.intent.offer.key.instance_type] = (
            claims.get(instance.intent.offer.key.instance_type, 0) + 1
        )
    assert claims == {"at-once": 1, "later": 1}, "never two machines for one gang"
    assert world.provisioner.cost().spent_usd >= world.cloud.usd() - 1e-6


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("after", "lost"),
    [
        (True, True),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in ((0, 0), (0, 1), (1, 0))),
    ],
)
def test_whatever_line_it_dies_at_each_gang_gets_one_machine_and_all_end(
    after: bool, lost: bool
) -> None:
    async def main(at: int) -> int:
        world = FleetWorld(
            LoopClock(),
            [AT_ONCE, LATER],
            settings=PoolSettings(pool="gpu", max_instances=10, max_idle_s=60.0),
            interval_s=5.0,
        )
        if lost:
            world.cloud.faults.lost_replies = 1
            world.cloud.faults.terminate_failures = 1
            world.cloud.faults.cancel_failures = 1
        deadly = deadly_steps(world, at, after=after)
        await world.start()
        killer = asyncio.create_task(restart_when_killed(world, deadly))
        try:
            async with asyncio.timeout(20_000):
                await story(world, deadly)
            await asyncio.sleep(120)
            assert not world.living()
            assert not world.provisioner.instances()
            check_books(world)
        finally:
            killer.cancel()
            await world.stop()
        return deadly.steps

    died = 0
    for at in range(1, STEPS):
        if run(main(at), limit_s=100_000) < at:
            break
        died += 1
    assert 10 < died < STEPS - 1, "every step was tried"


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < 3 else pytest.mark.slow) for n in range(20)]
)
def test_random_faults_and_deaths_leave_no_machine_unaccounted_for(seed: int) -> None:
    rng = random.Random(seed)

    async def main() -> None:
        clock = LoopClock()
        world = FleetWorld(
            clock, [AT_ONCE, LATER], settings=PoolSettings(pool="gpu", max_instances=6)
        )
        await world.start()
        for number in range(12):
            faults = world.cloud.faults
            faults.queue_s = {LATER.key: rng.choice([30.0, 300.0])} if rng.random() < 0.7 else {}
            faults.lost_replies = rng.randint(0, 1)
            faults.terminate_failures = rng.randint(0, 1)
            faults.cancel_failures = rng.randint(0, 1)
            faults.spent_tokens = rng.randint(0, 1)
            await world.want(a_gang(f"g{number}", rng.choice([4, 8]), single_agent=True))
            await asyncio.sleep(rng.uniform(0.0, 60.0))
            if rng.random() < 0.5:
                world.host.finish(f"g{rng.randint(0, number)}")
            if rng.random() < 0.3:
                clock.jump(rng.choice([-3600.0, 3600.0]))
            if rng.random() < 0.6:
                await world.crash()
                await asyncio.sleep(rng.uniform(0.0, 5.0))
                await world.start()
        world.cloud.faults = type(world.cloud.faults)()
        await asyncio.sleep(120)
        known = {view.id for view in world.provisioner.instances()}
        assert set(world.living()) <= known, "after two minutes each machine is in the books"
        await world.provisioner.shutdown(terminate=True)
        assert not world.living()
        assert not world.cloud.queue
        await world.stop()

    run(main(), limit_s=20_000)
