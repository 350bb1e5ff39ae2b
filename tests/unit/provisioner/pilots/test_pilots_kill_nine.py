"""kill -9 at every step of a pilot's life: a step is a record written or removed, or a command of the batch system.

The process dies right before or right after it, while jobs queue, run, end and are cancelled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from provisioner.batch.commands import COMMAND_LIMIT_S, FinishedCommand
from provisioner.providers.base import Accepted, FoundState, LaunchIntent
from provisioner.providers.pilots.book import Pilot, PilotBook
from provisioner.providers.pilots.provider import KEEP_S, PilotProvider
from tests.contract.providers.base import a_token
from tests.contract.providers.pilots import PilotCase
from tests.fakes.slurm_commands import FakeSlurm

T = TypeVar("T")
STEPS = 90
"""More than the story below has, its restart included."""


class Killed(Exception):
    pass


class Steps:
    def __init__(self, at: int, *, after: bool) -> None:
        self.count, self._at, self._after = 0, at, after

    def begin(self) -> None:
        self.count += 1
        if self.count == self._at and not self._after:
            raise Killed

    def end(self) -> None:
        if self.count == self._at and self._after:
            self._at = 0
            raise Killed


class DeadlySlurm(FakeSlurm):
    steps: Steps

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        if words[0] not in ("sbatch", "scancel"):
            return await super().run(words, stdin=stdin, limit_s=limit_s)
        self.steps.begin()
        done = await super().run(words, stdin=stdin, limit_s=limit_s)
        self.steps.end()
        return done


class DeadlyBook(PilotBook):
    steps: Steps

    def put(self, pilot: Pilot, step: Callable[[Pilot], Pilot] = lambda one: one) -> Pilot:
        self.steps.begin()
        new = super().put(pilot, step)
        self.steps.end()
        return new

    def drop(self, tag: str) -> None:
        self.steps.begin()
        super().drop(tag)
        self.steps.end()


class World(PilotCase):
    """What the provisioner does: it repeats what was not answered, with the same token."""

    def __init__(self, folder: Path, steps: Steps) -> None:
        self.slurm = DeadlySlurm()
        self.slurm.steps = self._steps = steps
        self.now = time.time()
        super().__init__(folder, self.slurm)

    def kill(self, tag: str) -> None:
        pilot = self.provider._book.get(tag)
        assert pilot is not None
        self.slurm.named(pilot.job_name).finish("NODE_FAIL", time.time())

    def deliver(self) -> None:
        self.slurm.deliver()

    def book(self) -> PilotBook:
        book = DeadlyBook(self.folder / "pilots")
        book.steps = self._steps
        return book

    def make(self) -> PilotProvider:
        provider = super().make()
        provider._now = lambda: self.now  # type: ignore[method-assign]
        return provider

    async def sure(self, call: Callable[[PilotProvider], Awaitable[T]]) -> T:
        while True:
            provider = self.provider
            try:
                return await call(provider)
            except Killed:
                if provider is self.provider:  # whoever else called it died with it
                    await self.restart()
            except TimeoutError:
                await self.sure(lambda one: one.list())

    async def launched(self, intent: LaunchIntent) -> str:
        """The name of its job."""
        answer = await self.sure(lambda one: one.launch(intent))
        if isinstance(answer, Accepted):
            return answer.handle
        return answer.instance_ids[0].rpartition("-")[0]

    async def states(self) -> dict[str, FoundState]:
        found = await self.sure(lambda one: one.list())
        return {one.instance_id.rpartition("-")[0]: one.state for one in found.instances}


async def story(world: World) -> None:
    """One at once, a gang and an array that queue; of the array one is cancelled and one is killed."""
    runs = await world.launched(world.intent(token=a_token()))
    world.slurm.holds_back = True
    late = await world.launched(world.intent(2, token=a_token()))
    equal = [world.launched(world.intent(token=a_token())) for _ in range(3)]
    dropped, killed, ends = await asyncio.gather(*equal)
    await world.states()
    await world.sure(lambda one: one.cancel(dropped))
    world.deliver()
    all_ = (runs, late, killed, ends)
    assert await world.states() == dict.fromkeys(all_, FoundState.RUNNING)
    world.kill(runs)
    world.kill(killed)
    await world.sure(lambda one: one.terminate([f"{late}-0", f"{late}-1", f"{ends}-0"]))
    assert await world.states() == dict.fromkeys(all_, FoundState.ENDED)
    world.now += KEEP_S + 1
    await world.states()
    await world.states()  # one whose record is still there is looked at again


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("lost", [0, 1])
async def test_whatever_step_it_dies_at_nothing_is_lost_or_submitted_twice(
    tmp_path: Path, after: bool, lost: int
) -> None:
    died = 0
    for at in range(1, STEPS):
        steps = Steps(at, after=after)
        world = World(tmp_path / str(at), steps)
        world.slurm.lost_replies = lost
        await world.provider.open()
        await story(world)
        assert world.slurm.submitted == 5, f"killed at step {at}"
        assert all(job.is_over for job in world.slurm.jobs.values())
        assert not list((world.folder / "pilots").iterdir())
        assert not list((world.folder / "jobs").iterdir())
        died += steps.count >= at
    assert 10 < died < STEPS - 1, "every step was tried"
