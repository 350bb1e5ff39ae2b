"""kill -9 at every step of stopping and starting a machine; on virtual time.

A step is a commit, or a call to the provider that is carried out; the process dies right before or right after it.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from provisioner.fleet.stops import LATE_STOP_S
from provisioner.planning.scale_down.stopped_agents import StoppedAgents
from provisioner.types import PoolSettings
from tests.fakes.deadly_steps import DeadlySteps
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import CapacityError

OFFER = an_offer(4, 2.0, boot_s=30.0, can_stop=True, disk_usd_per_hour=0.001)
RULES = StoppedAgents(
    max=2, expected_gap=timedelta(seconds=200.0), max_age=timedelta(seconds=2 * LATE_STOP_S)
)
SETTINGS = PoolSettings(pool="gpu", max_instances=4, max_idle_s=30.0, stopped=RULES)
STEPS = 40
"""More than the story below has, crashes included."""


async def story(world: FleetWorld) -> None:
    """Launched, stopped, started, stopped, and ended because it was stopped for long.

    After a death a call to stop it may come late, and it is not started before: the next work comes after that.
    """
    for name in ("one", "two"):
        await world.want(a_gang(name))
        await world.until(lambda name=name: name in world.host.placed)
        world.host.finish(name)
        await world.until(lambda: "stopped" in world.states() or not world.living())
        await asyncio.sleep(LATE_STOP_S + 60)
    await world.until(lambda: not world.living() and not world.provisioner.instances())


async def restart_when_killed(world: FleetWorld, deadly: DeadlySteps) -> None:
    await deadly.killed.wait()
    await world.crash()
    await asyncio.sleep(1)
    await world.start()


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        *(pytest.param(*x, marks=pytest.mark.slow) for x in ((0, 0), (0, 1), (1, 0), (1, 1))),
    ],
)
def test_whatever_line_it_dies_at_the_work_gets_one_machine_and_it_ends(
    after: bool, lost: bool
) -> None:
    async def main(at: int) -> int:
        world = FleetWorld(LoopClock(), [OFFER], settings=SETTINGS, interval_s=5.0)
        if lost:
            world.cloud.faults.lost_starts = 1
            world.cloud.faults.stop_failures = 1
            world.cloud.faults.terminate_failures = 1
        deadly = DeadlySteps(at, after=after)
        deadly.watch(world.store, "save")
        deadly.watch(world.cloud, "launch", "stop", "start", "terminate")
        await world.start()
        killer = asyncio.create_task(restart_when_killed(world, deadly))
        try:
            async with asyncio.timeout(20_000):
                await story(world)
            assert len(world.cloud.instances) == 1, "one machine, stopped and started"
            (machine,) = world.cloud.instances.values()
            assert len(machine.stops) == 2
            assert world.provisioner.cost().spent_usd >= world.cloud.usd() - 1e-6
        finally:
            killer.cancel()
            await world.stop()
        return deadly.steps

    died = 0
    for at in range(1, STEPS):
        if run(main(at), limit_s=100_000) < at:
            break
        died += 1
    assert 12 < died < STEPS - 1, "every step was tried"


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < 1 else pytest.mark.slow) for n in range(16)]
)
def test_random_faults_and_deaths_leave_no_machine_unaccounted_for(seed: int) -> None:
    rng = random.Random(seed)

    async def main() -> None:
        clock = LoopClock()
        world = FleetWorld(clock, [OFFER], settings=SETTINGS)
        await world.start()
        started_by_others = 0
        for number in range(25):
            faults = world.cloud.faults
            faults.lost_replies = rng.randint(0, 1)
            faults.lost_starts = rng.randint(0, 1)
            faults.stop_failures = rng.randint(0, 1)
            faults.terminate_failures = rng.randint(0, 1)
            full = rng.random() < 0.3
            faults.no_start = {OFFER.key: CapacityError("none left")} if full else {}
            faults.hang = {rng.choice(["stop", "start", "list"])} if rng.random() < 0.2 else set()
            if rng.random() < 0.6:
                await world.want(a_gang(f"g{number}"))
            await asyncio.sleep(rng.choice([1.0, 30.0, 120.0, 700.0]) * rng.random())
            if rng.random() < 0.7:
                world.host.finish(f"g{rng.randint(0, number)}")
            if rng.random() < 0.2 and world.living():
                name = rng.choice(world.living())
                world.cloud.faults = type(faults)()
                started_by_others += 1
                await world.cloud.start(name, OFFER)
            if rng.random() < 0.3:
                clock.jump(rng.choice([-3600.0, 3600.0]))
            if rng.random() < 0.5:
                await world.crash()
                await asyncio.sleep(rng.uniform(0.0, 5.0))
                await world.start()
            assert len(world.living()) <= SETTINGS.max_instances + RULES.max
            running = [m for m in world.cloud.living() if not m.is_stopped]
            assert len(running) <= SETTINGS.max_instances + started_by_others
        world.cloud.faults = type(world.cloud.faults)()
        await asyncio.sleep(120)
        known = {view.id for view in world.provisioner.instances()}
        assert set(world.living()) <= known, "after two minutes each machine is in the books"
        await world.provisioner.shutdown(terminate=True)
        assert not world.living()
        await world.stop()

    run(main(), limit_s=100_000)
