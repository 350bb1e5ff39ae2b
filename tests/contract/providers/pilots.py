"""Pilots in the contract suite: the real provider and the real reader of Slurm's text, on commands in memory."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from provisioner.batch.commands import Commands
from provisioner.batch.disks import LocalDisk
from provisioner.batch.job_files import JobFiles
from provisioner.batch.slurm.system import SlurmSystem
from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import Accepted, LaunchIntent, LaunchResult, LimitedCall
from provisioner.providers.pilots.book import PilotBook
from provisioner.providers.pilots.offers import PilotOptions
from provisioner.providers.pilots.provider import PilotProvider
from provisioner.sections.batch import SlurmSection
from provisioner.types import Offer
from tests.contract.providers.base import POOL, ProviderCase, delivered
from tests.fakes.fleet_world import CLUSTER
from tests.fakes.slurm_commands import FakeSlurm
from windlass.base.clock import SystemClock

LIMIT = "QOSMaxSubmitJobPerUserLimit"
SAID = {
    BlockKind.QUOTA: f"sbatch: error: {LIMIT}\nsbatch: error: Batch job submission failed: "
    "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
    BlockKind.CONFIG: "sbatch: error: invalid partition specified: nosuch\n"
    "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
}
COMMANDS = {
    LimitedCall.LAUNCH: "sbatch",
    LimitedCall.LIST: "squeue",
    LimitedCall.TERMINATE: "scancel",
}


class PilotCase(ProviderCase):
    provider: PilotProvider
    quota = (LIMIT, None)
    patience_s = 600.0

    def __init__(self, folder: Path, commands: Commands, **more: Any) -> None:
        self.folder = folder
        self.commands = commands
        self.more = more
        self.agent: dict[str, Any] = {"master_url": "http://127.0.0.1:1"}
        self.lease: Exception | None = None
        """Raised when it is looked at."""
        self.joined: set[str] = set()
        """Agents that are connected."""
        self.drained: set[str] = set()
        self.disabled: set[str] = set()
        """Nodes on which an operator disabled an agent."""
        self.avoided: set[str] = set()
        """By everything that waits."""
        self.now = 0.0
        """For tests that decide how long nodes have been silent."""
        self.provider = self.make()

    def drain(self, agent_id: str) -> None:
        self.drained.add(agent_id)

    def disabled_nodes(self) -> frozenset[str]:
        return frozenset(self.disabled)

    def avoided_nodes(self, pool: str) -> frozenset[str]:
        return frozenset(self.avoided)

    def connected(self, agent_ids: Collection[str]) -> int:
        return len(self.joined.intersection(agent_ids))

    async def check_lease(self) -> None:
        if self.lease is not None:
            raise self.lease

    def book(self) -> PilotBook:
        return PilotBook(self.folder / "pilots")

    def make(self) -> PilotProvider:
        section = SlurmSection(
            type="slurm",
            mode="pilot",
            partition="gpu",
            walltimes=(timedelta(hours=4), timedelta(hours=12)),
            usd_per_slot_hour=1.5,
        )
        options = PilotOptions(
            pool=POOL,
            files=JobFiles(root=self.folder / "jobs", python="/usr/bin/python3", agent=self.agent),
            section=section.model_copy(update=self.more),
        )
        return PilotProvider(
            name="slurm",
            system=SlurmSystem(self.commands),
            pools=[options],
            book=self.book(),
            token=lambda pilot: "join-me",
            clock=SystemClock(),
            cluster_id=CLUSTER,
            disk=LocalDisk(),
            check_lease=self.check_lease,
            host=self,
            proof_s=0.0,
            arrival_s=0.0,
            fresh_s=0.0,
            list_every_s=0.1,
            gather_s=0.0,
        )

    async def launch(self, intent: LaunchIntent) -> LaunchResult:
        """It always queues: asked until it is there."""
        answer = await self.provider.launch(intent)
        if isinstance(answer, Accepted):
            answer = await self.provider.answer(answer.handle)
        return delivered(answer)

    async def restart(self) -> None:
        await self.provider.close()
        self.provider = self.make()
        await self.provider.open()

    def reconfigure(self) -> None:
        self.agent = {"master_url": "http://127.0.0.1:2"}
        self.provider.pools = self.make().pools


class FakePilotCase(PilotCase):
    def __init__(self, folder: Path) -> None:
        self.slurm = FakeSlurm()
        super().__init__(folder, self.slurm)

    def kill(self, instance_id: str) -> None:
        self.slurm.named(instance_id.rpartition("-")[0]).finish("NODE_FAIL", time.time())

    def mend(self) -> None:
        self.slurm.refusal = ""
        self.slurm.down.clear()
        self.slurm.hangs.clear()

    def refuse(self, offer: Offer, kind: BlockKind) -> None:
        if kind not in SAID:
            self.cannot(f"refuse for {kind}")
        if self.slurm.holds_back:
            self.cannot("refuse what it has taken")
        self.slurm.refusal = SAID[kind]

    def queue(self, offer: Offer) -> None:
        self.slurm.holds_back = True

    def deliver(self) -> None:
        self.slurm.deliver()

    def lose_replies(self, times: int) -> None:
        self.slurm.lost_replies = times

    def drop_requests(self, times: int) -> None:
        self.slurm.down["sbatch"] = times

    def fail_lists(self) -> None:
        self.slurm.down["squeue"] = -1

    def fail_terminates(self, times: int) -> None:
        self.slurm.down["scancel"] = times

    def hang(self, api: LimitedCall) -> None:
        self.slurm.hangs.add(COMMANDS[api])

    def take_back(self, instance_id: str, seconds: float) -> None:
        """As preemption with a grace time does: the end moves."""
        job = self.slurm.named(instance_id.rpartition("-")[0])
        job.end = time.time() + seconds
        if seconds < 0:
            job.finish("PREEMPTED", time.time())


@asynccontextmanager
async def pilots(tmp_path: Path) -> AsyncIterator[FakePilotCase]:
    case = FakePilotCase(tmp_path)
    await case.provider.open()
    yield case
    await case.provider.close()
