"""A master that starts while 1,000 batch jobs of it run: until all are found again, and their agents are back.

    found again   dispatched jobs, then pilots: the books are real (SQLite, the folder of pilots), the reading of
                  Slurm's text, too; Slurm is in memory
    agents back   200 agents of dispatched jobs, each with a task that runs, lose the master and come back to the next
                  one: the real gateway, pool and dispatcher, with agents in the same process, on virtual time. CPU is
                  that of both sides

Goal: serving in 5 s. What allocations and sockets add is in bench_scale.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from master.store.repositories.leases import LeaseRepository
from provisioner.batch.base import JobPhase
from provisioner.batch.job_files import JobFiles, JobShape
from provisioner.batch.slurm.system import SlurmSystem
from provisioner.types import PoolAvailability
from rm_backends.base import AllocationRequest, Granted, LossKind, Lost, RestoreRecord
from rm_backends.batch.dispatcher import Dispatcher
from rm_backends.batch.leases import Lease, LeaseState
from tests.contract.providers.pilots import FakePilotCase
from tests.fakes.agents_world import agents_world, allocation, launch_spec
from tests.fakes.batch_world import BatchWorld, slurm_pool
from tests.fakes.dispatch_backend import still_leads
from tests.fakes.slurm_commands import FakeSlurm, Job
from tests.fakes.virtual_time import run
from tests.stores import leading_store
from windlass.base.clock import ManualClock, SystemClock
from windlass.base.ids import Ids

JOBS = sized(1_000, 3)
AGENTS = sized(200, 2)
"""In one process with their master."""
FOREIGN = sized(10_000, 10)
GOAL_S = 5.0
CLUSTER = "c0ffee00-0000-4000-8000-000000000000"


class Host:
    """Implements `LeaseHost`: every job has a task that runs on it, and no agent has come back yet."""

    def wanting(self, pool: str) -> Sequence[AllocationRequest]:
        return ()

    def waits_or_holds(self, pool: str, allocation_id: str) -> bool:
        return True

    def holds(self, pool: str, allocation_id: str) -> bool:
        return True

    def connected(self, agent_ids: Collection[str]) -> int:
        return 0

    def slots(self, agent_ids: Collection[str]) -> Mapping[str, int]:
        return {}

    def dismiss(self, agent_ids: Collection[str], reason: str) -> bool:
        return False

    def occupied(self, agent_ids: Collection[str]) -> bool:
        return True

    def lose(self, agent_ids: Collection[str], reason: str, kind: LossKind) -> bool:
        raise AssertionError(f"lost: {agent_ids}")

    def refuse(self, pool: str, allocation_id: str, reason: str) -> None:
        raise AssertionError(f"refused: {allocation_id}")

    async def job_gone(self, agent_id: str, reason: str) -> None:
        raise AssertionError(f"forgotten: {agent_id}")

    def availability(self, availability: PoolAvailability) -> None:
        pass


def memory_disk() -> str | None:
    """What is written before the measurement need not reach a disk."""
    return next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)  # noqa: S108


def leases() -> list[Lease]:
    shape = JobShape(queue="gpu", nodes=1, slots_per_node=2, gpus_per_node=2)
    return [
        Lease(
            tag=f"wl-c0ffee00-{number:012x}",
            pool="gpu",
            allocation_id=f"task-{number}.1",
            shape=shape,
            created_at=time.time(),
            state=LeaseState.QUEUED,
            called_at=time.time(),
            job_id=str(number),
            granted=True,
        )
        for number in range(1, JOBS + 1)
    ]


async def dispatched(folder: Path) -> float:
    clock = SystemClock()
    mine = leases()
    slurm = FakeSlurm()
    for lease in mine:
        job = slurm.jobs[int(lease.job_id or 0)] = Job(
            id=int(lease.job_id or 0), name=lease.tag, nodes=1, limit_s=3600.0
        )
        job.run(time.time())
    add_others(slurm)
    async with leading_store(f"sqlite:///{folder}/master.db", ManualClock()) as store:
        await LeaseRepository(store).save(mine)
        begun = time.perf_counter()
        dispatcher = Dispatcher(
            pools=[slurm_pool("gpu")],
            system=SlurmSystem(slurm),
            host=Host(),
            store=LeaseRepository(store),
            files={"gpu": JobFiles(root=folder, python="python3", agent={})},
            token=lambda lease: "token",
            clock=clock,
            ids=Ids.seeded(1),
            cluster_id=CLUSTER,
            check_lease=still_leads,
        )
        await dispatcher.load()
        await dispatcher._step()
        took = time.perf_counter() - begun
    found = [lease for lease in dispatcher.leases() if lease.phase is JobPhase.RUNNING]
    assert len(found) == JOBS
    assert len(slurm.jobs) == JOBS + FOREIGN
    return took


async def pilots(folder: Path) -> float:
    case = FakePilotCase(folder)
    await case.provider.open()
    case.more["max_queued"] = JOBS
    case.reconfigure()
    await asyncio.gather(*(case.provider.launch(case.intent()) for _ in range(JOBS)))  # as arrays
    add_others(case.slurm)
    await case.provider.list()
    begun = time.perf_counter()
    await case.restart()
    inventory = await case.provider.list()
    took = time.perf_counter() - begun
    assert len(inventory.instances) == JOBS
    return took


async def agents_back(folder: Path) -> tuple[float, float]:
    """CPU and virtual seconds from the start of a master until every agent is back, and nothing was lost."""
    async with agents_world(starts=False) as world:
        batch = BatchWorld(world, folder, slurm_pool(max_queued=AGENTS))
        batch.site.nodes = AGENTS
        batch.site.holds_back = True
        await batch.start()
        requests = [allocation(number) for number in range(AGENTS)]
        for request in requests:
            await world.backend.request(request)
        while len(batch.site.submissions) < AGENTS:
            await world.settle(10.0)
        batch.site.holds_back = False
        batch.site.start_waiting()
        await world.master.until(lambda: len(world.master.events) >= AGENTS)
        grants = [event for event in world.master.events if isinstance(event, Granted)]
        for grant in grants:
            await world.backend.start(grant.allocation_id, launch_spec(grant.allocation_id))
        agents = list(world.agents.values())
        while not all(agent.containers for agent in agents):
            await world.settle(1.0)
        held = {grant.allocation_id: grant.containers for grant in grants}
        records = [
            RestoreRecord(request=one, containers=held[one.allocation_id], started=True)
            for one in requests
        ]
        cpu_s, begun_s = time.process_time(), world.clock.monotonic()
        await batch.restart(*records)
        while world.leased.connected([agent.agent_id for agent in agents]) < AGENTS:
            await world.settle(0.1)
        took = time.process_time() - cpu_s, world.clock.monotonic() - begun_s
        await world.settle(30.0)
        assert not any(isinstance(event, Lost) for event in world.master.events)
    return took


def add_others(slurm: FakeSlurm) -> None:
    for number in range(FOREIGN):
        id_ = JOBS + number + 1
        slurm.jobs[id_] = Job(
            id=id_, name=f"theirs-{number}", nodes=4, limit_s=3600.0, is_ours=False
        )


def main() -> None:
    arguments(__doc__).parse_args()
    print_calibration()
    logging.disable(logging.WARNING)
    for name, adopt in (("dispatched jobs", dispatched), ("pilots", pilots)):
        with tempfile.TemporaryDirectory() as folder:
            took = asyncio.run(adopt(Path(folder)))
        verdict = "within" if took < GOAL_S else "OVER"
        print(f"{JOBS} {name} found again in {took:.2f} s (goal {GOAL_S:g} s: {verdict})")
    with tempfile.TemporaryDirectory(dir=memory_disk()) as folder:
        cpu_s, after_s = run(agents_back(Path(folder)), limit_s=24 * 3600)
    verdict = "within" if cpu_s < GOAL_S else "OVER"
    print(
        f"{AGENTS} agents back after {cpu_s:.2f} s of CPU, {after_s:.1f} s on their own clock, nothing lost "
        f"(goal {GOAL_S:g} s: {verdict})"
    )


if __name__ == "__main__":
    main()
