"""kill -9 at every step of a launch, an operation and a termination, on both clouds: on virtual time, with the real
provisioner and providers, boto3 and Google's client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Set
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from provisioner.providers.base import LimitedCall
from provisioner.types import PoolSettings
from tests.contract.providers import CASES
from tests.contract.providers.aws import AwsCase
from tests.contract.providers.base import POOL, ProviderCase
from tests.contract.providers.gcp import GcpCase
from tests.fakes.deadly_steps import DeadlySteps
from tests.fakes.fleet_world import FleetWorld, a_gang
from tests.fakes.virtual_time import LoopClock, run

ACCOUNTED_WITHIN_S = 120.0
MAX_STEPS = 40
MOST_FAULTS = 2


class Outside:
    """A cloud, asked past the provider."""

    def __init__(self, case: ProviderCase) -> None:
        self._case = case
        self._ec2 = case.server.client() if isinstance(case, AwsCase) else None

    def machines(self) -> tuple[Set[str], Set[str]]:
        """Those that run, and all that ever were."""
        if self._ec2 is not None:
            replies = self._ec2.describe_instances()["Reservations"]
            found = [machine for reply in replies for machine in reply["Instances"]]
            states = {machine["InstanceId"]: machine["State"]["Name"] for machine in found}
            return {id_ for id_, state in states.items() if state == "running"}, states.keys()
        assert isinstance(self._case, GcpCase)
        cloud = self._case.fake.cloud
        with cloud.lock:
            living = {m.name for m in cloud.machines.values() if m.status == "RUNNING"}
            return living, {m.name for m in (*cloud.machines.values(), *cloud.gone)}


class Story:
    """One cloud whose machines boot, and a provisioner that is killed and started again."""

    def __init__(self, case: ProviderCase, rng: random.Random) -> None:
        self.case = case
        self.outside = Outside(case)
        self.rng = rng
        settings = PoolSettings(
            pool=POOL, max_instances=10, max_idle_s=30.0, on_demand_after_s=600.0
        )
        self.world = FleetWorld(
            LoopClock(), [], settings=settings, cloud_name="none", seed=rng.getrandbits(32)
        )
        self.deadly = DeadlySteps()
        self.deadly.watch(self.world.store, "save")

    async def start(self) -> None:
        self.case.provider.list_every_s = 10.0  # type: ignore[misc]
        self.deadly.watch(self.case.provider, "launch", "answer", "cancel", "terminate")
        await self.world.start(self.case.provider)

    async def boot_machines(self) -> None:
        for _ in count():
            await asyncio.sleep(10)
            running, _ = self.outside.machines()
            host = self.world.host
            known = {view.id for view in self.world.provisioner.instances()}
            # Whoever joins before its launch was answered is told to ask again.
            for name in (running & known) - host.sizes.keys() - host.gone.keys():
                host.sizes[name] = 2
            for name in host.sizes:
                host.silent.discard(name) if name in running else host.silent.add(name)
                self.world.provisioner.note_agent(name, name in running)

    async def die_and_restart(self) -> None:
        await self.deadly.killed.wait()
        await self.world.crash()
        await asyncio.sleep(self.rng.uniform(0.0, 20.0))
        await self.case.restart()
        await self.start()

    async def one_claim(self, name: str, *, queued: bool) -> None:
        """It waits, runs and ends; or it is delivered late, or withdrawn meanwhile."""
        self.injure()
        if queued:
            for offer in self.case.offers:
                self.case.queue(offer)
        await self.world.want(a_gang(name, 2))
        if queued:
            await self.world.until(lambda: "accepted" in self.world.states())
            await asyncio.sleep(self.rng.uniform(0.0, 30.0))
            if self.rng.random() < 0.5:
                self.case.deliver()
            else:
                self.world.host.finish(name)
        await self.world.until(
            lambda: name in self.world.host.placed or name not in self.world.host.waiting
        )
        self.world.host.finish(name)
        await self.world.until(lambda: not self.world.provisioner.instances())
        self.case.mend()
        await asyncio.sleep(ACCOUNTED_WITHIN_S)

    def injure(self) -> None:
        for fault in self.rng.sample(self.faults(), MOST_FAULTS):
            fault()

    def faults(self) -> list[Callable[[], None]]:
        return [
            lambda: self.case.lose_replies(1),
            lambda: self.case.drop_requests(1),
            lambda: self.case.fail_terminates(1),
            lambda: self.case.throttle(LimitedCall.LAUNCH, 1),
            lambda: self.case.throttle(LimitedCall.TERMINATE, 1),
        ]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("cloud", "queued"), [("aws", False), ("gcp", False), ("gcp", True)])
def test_whatever_step_it_dies_at_a_claim_gets_one_machine_and_it_ends(
    cloud: str, queued: bool, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is for sale is asked at each start; in between, moto would read 6,400 prices again every five minutes.
    monkeypatch.setattr("provisioner.providers.cloud_provider.REFRESH_S", 1e9)

    async def main() -> int:
        async with CASES[cloud](tmp_path) as case:
            story = Story(case, random.Random(seed))
            await story.start()
            boots = asyncio.create_task(story.boot_machines())
            try:
                return await every_step(story, queued=queued, after=bool(seed % 2))
            finally:
                boots.cancel()
                await story.world.crash()

    assert run(main(), limit_s=100_000) > 5, "every step was tried"


async def every_step(story: Story, *, queued: bool, after: bool) -> int:
    """One claim for each step at which the process dies; how many steps a claim has."""
    store = story.world.store
    for at in range(1, MAX_STEPS):
        _, before = story.outside.machines()
        story.deadly.restart_at(at, after=after)
        killer = asyncio.create_task(story.die_and_restart())
        await story.one_claim(f"claim-{at}", queued=queued)
        killer.cancel()
        with suppress(asyncio.CancelledError):
            await killer
        living, ever = story.outside.machines()
        assert not living
        assert len(ever - before) == 1, f"one machine for the claim that died at step {at}"
        assert not story.world.provisioner.instances()
        assert queued or all(store.instances[id_][0] for id_ in ever), "each is recorded"
        if story.deadly.steps < at:
            return at
    raise AssertionError(f"a claim has more than {MAX_STEPS} steps")
