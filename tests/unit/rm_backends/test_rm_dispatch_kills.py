"""Kills at every step of dispatching: of the master, of an agent, of what runs a job; on virtual time.

A step is a commit, or a call to the batch system that is carried out; the kill comes right before or right after it.
Meanwhile one job waits, one runs and one is over. Nothing is lost, nothing is submitted twice, nothing is left.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from provisioner.batch.base import EndCause
from rm_backends.base import AllocationRequest, RestoreRecord, Withdrawn
from tests.fakes.agents_world import agents_world, allocation, launch_spec
from tests.fakes.batch_world import NODES, BatchWorld, slurm_pool
from tests.fakes.deadly_steps import DeadlySteps
from tests.fakes.virtual_time import run

LOOK_S = 0.3
AWAY_S = 12.0
WORK_S = 8.0
COMMITS_AND_ORDERS = ("submit", "cancel")
LOOKS = ("site", "poll", "named_like", "look_up")
MOST_STEPS = 400
"""More than the story has."""


@dataclass
class Tasks:
    """What `master.allocations` knows: everything that it was told, whatever becomes of the backend."""

    batch: BatchWorld
    requests: dict[str, AllocationRequest] = field(default_factory=dict)
    withdrawn: set[str] = field(default_factory=set)
    working: dict[str, float] = field(default_factory=dict)
    """Since when."""

    async def want(self, request: AllocationRequest) -> None:
        self.requests[request.allocation_id] = request
        await self.batch.world.backend.request(request)

    def is_over(self, id_: str) -> bool:
        return id_ in self.withdrawn or self.is_done(id_) or bool(self._master.losses(id_))

    def is_done(self, id_: str) -> bool:
        return len(self._ended(id_)) == NODES

    def is_task_done(self, number: int) -> bool:
        return any(self.is_done(id_) for id_ in self.requests if id_.startswith(f"task-{number}."))

    def records(self) -> list[RestoreRecord]:
        found = []
        for id_, request in self.requests.items():
            if not self.is_over(id_):
                grant = self._master.grant_of(id_)
                held = () if grant is None else grant.containers
                found.append(
                    RestoreRecord(
                        request=request,
                        containers=held,
                        started=bool(self._master.phases(id_)),
                        ended_containers=frozenset(self._ended(id_)),
                    )
                )
        return found

    async def tend(self) -> None:
        """Start what was granted, ask again for what was lost; and processes end when they have worked."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._let_work_end()
            if self.batch.world._backend is None:
                continue
            for id_, request in list(self.requests.items()):
                if self._master.losses(id_) and id_ not in self.withdrawn:
                    again = f"{request.task_id}.{int(id_.rpartition('.')[2]) + 1}"
                    if again not in self.requests:
                        await self.want(replace(request, allocation_id=again))
                elif self._master.grant_of(id_) is not None and not self._master.phases(id_):
                    await self.batch.world.backend.start(id_, launch_spec(id_))

    def _let_work_end(self) -> None:
        """At the site, whether there is a master or not."""
        now = asyncio.get_running_loop().time()
        for agent in self.batch.world.agents.values():
            for container in list(agent.containers.values()):
                begun = self.working.setdefault(container.id, now)
                if now - begun > WORK_S and not agent._dead:
                    agent.exit(container.id, 0)

    def _ended(self, id_: str) -> set[str]:
        return {one.container_id for one in self._master.exits(id_)}

    @property
    def _master(self) -> Any:
        return self.batch.world.master


class Kills(DeadlySteps):
    """Of an agent or of a job at one of the steps, which is carried out all the same."""

    def __init__(self, at: int, *, after: bool, batch: BatchWorld, who: str) -> None:
        super().__init__(at, after=after)
        self._batch = batch
        self._who = who
        self._has_killed = False

    async def _die(self) -> None:
        if self._who == "master":
            await super()._die()
        if self._has_killed:
            return
        self._has_killed = True
        alive = [job for job in self._batch.site.jobs.values() if job.cause is None]
        if self._who == "job":
            for job in alive[:1]:
                await self._batch.site.end(job, EndCause.FAILED)
        elif self._who == "agent":  # its host starts it again, and it finds what it ran
            for agent in (agent for job in alive for agent in job.agents[:1]):
                await agent.drop()


async def story(tasks: Tasks) -> None:
    """The first runs and ends, the second waits for its nodes, the third is withdrawn while it waits."""
    batch = tasks.batch
    for number in (1, 2, 3):
        await tasks.want(allocation(number, slots=8))
    await batch.world.settle(6)
    while "task-3.1" not in tasks.withdrawn:
        if batch.world._backend is not None:
            if not isinstance(await batch.world.backend.withdraw("task-3.1"), Withdrawn):
                await batch.world.backend.kill("task-3.1")  # a job before it was killed
            tasks.withdrawn.add("task-3.1")
        await batch.world.settle(LOOK_S)
    while not (tasks.is_task_done(1) and tasks.is_task_done(2)):
        await batch.world.settle(1)
    await batch.world.settle(300)


async def restart_when_killed(batch: BatchWorld, tasks: Tasks, kills: DeadlySteps) -> None:
    await kills.killed.wait()
    await batch.world.stop_master()
    await batch.world.settle(AWAY_S)
    await batch.restart(*tasks.records())


def killed_at(folder: Path, at: int, *, who: str, after: bool, looks: bool) -> int:
    """The number of steps that there were."""

    async def main() -> int:
        async with agents_world(starts=False) as world:
            batch = BatchWorld(world, folder, slurm_pool())
            tasks = Tasks(batch)
            kills = Kills(at, after=after, batch=batch, who=who)
            kills.watch(batch.store, "save")
            kills.watch(batch.site, *COMMITS_AND_ORDERS, *(LOOKS if looks else ()))
            await batch.start()
            beside = [
                asyncio.create_task(tasks.tend()),
                asyncio.create_task(restart_when_killed(batch, tasks, kills)),
            ]
            async with asyncio.timeout(4000):
                await story(tasks)
            for task in beside:
                task.cancel()
            check(batch, tasks, who)
        return kills.steps

    return run(main(), limit_s=24 * 3600)


def check(batch: BatchWorld, tasks: Tasks, who: str) -> None:
    assert batch.is_quiet()
    assert not [name for name in batch.world.store.records if name.startswith("wl-")]
    assert all(agent._dead for agent in batch.world.agents.values())
    started = [id_ for agent in batch.world.agents.values() for id_ in agent.started]
    assert len(started) == len(set(started)), "no process is started twice"
    assert len(batch.site.submissions) == len(set(batch.site.submissions))
    asked = len(tasks.requests)
    ended_early = 1 if who == "job" else 0
    assert asked <= 3 + ended_early
    assert len(batch.site.submissions) <= 3 + ended_early, "nothing is submitted twice"
    for number in (1, 2):
        runs = [id_ for id_ in tasks.requests if id_.startswith(f"task-{number}.")]
        assert sum(map(tasks.is_done, runs)) == 1


def walk(tmp_path: Path, *, who: str, after: bool, looks: bool, each: int = 1) -> int:
    """At each step until there are no more; how many there were."""
    for at in range(1, MOST_STEPS, each):
        if killed_at(tmp_path / str(at), at, who=who, after=after, looks=looks) < at:
            return at - 1
    raise AssertionError("the story has more steps")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "after", "each"), [("master", True, 9), ("agent", True, 23), ("job", False, 23)]
)
def test_killed_at_some_commits_and_orders(
    tmp_path: Path, who: str, after: bool, each: int
) -> None:
    assert walk(tmp_path, who=who, after=after, looks=False, each=each) > 10


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("who", ["agent", "job"])
def test_killed_at_every_commit_and_order(tmp_path: Path, who: str, after: bool) -> None:
    assert walk(tmp_path, who=who, after=after, looks=False) > 10


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_the_master_is_killed_at_every_commit_order_and_look(tmp_path: Path, after: bool) -> None:
    assert walk(tmp_path, who="master", after=after, looks=True) > 30
