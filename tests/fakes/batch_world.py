"""A batch system in memory, and a pool that dispatches to it: the real dispatcher, on virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from master.core.expconf.models.schema import DEFAULT_PRIORITY
from master.core.reasons import ReasonKind
from provisioner.batch.base import (
    EndCause,
    ForeignJob,
    JobPhase,
    JobReport,
    JobSpec,
    NoAnswer,
    Queue,
    SiteFacts,
)
from provisioner.batch.disks import Disk, LocalDisk
from provisioner.batch.impersonation import SiteUsers
from provisioner.batch.job_files import JobFiles
from provisioner.sections.batch import SlurmSection
from rm_backends.agents.agent_pools import AgentPools
from rm_backends.agents.leased_nodes import LeasedNodes
from rm_backends.base import RestoreRecord
from rm_backends.batch.backend import BatchBackend
from rm_backends.batch.dispatcher import Dispatcher
from rm_backends.batch.job_lines import JobLines
from rm_backends.batch.leases import Lease, LeaseState
from rm_backends.batch.shapes import DispatchOptions
from rm_backends.ports import JoinGrant, JoinKind
from tests.fakes.agents_world import AgentsWorld
from tests.fakes.dispatch_backend import still_leads
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.pools import EMBEDDED, resolved_pool
from windlass.base.clock import Clock
from windlass.base.errors import BatchSystemError
from windlass.base.ids import Ids

NODES, GPUS = 2, 4
ID = "task-1.1"
"""Of the first allocation."""
POOL = resolved_pool("default", EMBEDDED)
Play = Callable[..., None]
"""The fixture that plays a scenario of a `BatchWorld`."""


def slurm_pool(
    pool: str = "default", *, default_priority: int = DEFAULT_PRIORITY, **keys: Any
) -> DispatchOptions:
    """One that dispatches to Slurm; `keys`: of its section."""
    section = SlurmSection(type="slurm", **keys)
    return DispatchOptions(pool=pool, section=section, default_priority=default_priority)


class Nodes(Protocol):
    """Where agents of jobs run."""

    agents: dict[str, FakeAgent]

    @property
    def tasks(self) -> asyncio.TaskGroup: ...

    @property
    def clock(self) -> Clock: ...

    def new_agent(self, agent_id: str, *, token: str, credential: str, **options: Any) -> FakeAgent:
        """One that is not running yet."""
        ...


@dataclass
class FakeJob:
    spec: JobSpec
    id: str
    nodes: tuple[str, ...] = ()
    ends_at: float | None = None
    """Its time is over then."""
    cause: EndCause | None = None
    agents: list[FakeAgent] = field(default_factory=list)
    forgotten: bool = False
    paused: bool = False


class FakeBatch:
    """Implements `BatchSystem`. A job on nodes runs an agent on each, as it is told in its directory."""

    name = "slurm"
    most_tasks = 1

    def __init__(self, world: Nodes) -> None:
        self._world = world
        self.nodes = NODES
        self.jobs: dict[str, FakeJob] = {}
        self.down = False
        self.refusal: Exception | None = None
        self.loses_answers = False
        """It takes a job, and its answer does not arrive."""
        self.arrives_after_s: float | None = None
        """So long after its command was given up it takes a job all the same."""
        self.cancels_nothing = False
        """It answers, and refuses to."""
        self.refused_account = ""
        """The one that `refusal` is for; empty: all."""
        self.down_nodes: set[str] = set()
        self.heeds_avoid = True
        """It knows nodes that a job must not use."""
        self.holds_back = False
        """It starts nothing."""
        self.tells_only: int | None = None
        """Listings have so many of the jobs that were asked for; None: all. Each by itself is told of."""
        self.reason = "Resources"
        """Why jobs wait."""
        self.never = ""
        """The way out for its jobs that wait: as they are, it will never start them."""
        self.slots_of: dict[str, int] = {}
        """Of nodes that have fewer than a job asks for."""
        self.agents_say = ""
        """In their logs, instead of joining."""
        self.ends_at: float | None = None
        """Of jobs that run."""
        self.keeps_walltimes = False
        """Jobs that run end when the time is over that they asked for."""
        self.submissions: list[str] = []
        self.refused = 0
        self.foreign: list[ForeignJob] = []
        self.listings = 0
        self.sites = 0
        """How often it was asked what it is like."""
        self.accounts: Mapping[str, frozenset[str]] | None = None

    @property
    def free(self) -> list[str]:
        taken = {node for job in self.jobs.values() if job.cause is None for node in job.nodes}
        taken |= self.down_nodes
        return [name for name in (f"n{k + 1}" for k in range(self.nodes)) if name not in taken]

    async def site(self) -> SiteFacts:
        self.sites += 1
        await self._answer()
        queue = Queue(
            name="gpu",
            is_default=True,
            nodes=self.nodes,
            idle_nodes=len(self.free),
            gpus_per_node=GPUS,
            gpu_types=frozenset({"fake"}),
            cpus_per_node=16,
            max_walltime_s=7200,
        )
        names = frozenset(f"n{k + 1}" for k in range(self.nodes))
        return SiteFacts(version="0", queues={"gpu": queue}, nodes=names, accounts=self.accounts)

    async def submit(self, job: JobSpec) -> str:
        await self._answer()
        concerned = not self.refused_account or f"--account={self.refused_account}" in job.arguments
        if self.refusal is not None and concerned:
            self.refused += 1
            raise self.refusal
        if self.arrives_after_s is not None:
            self._world.tasks.create_task(self._take_later(job, self.arrives_after_s))
            raise NoAnswer("login node hpc: the connection was lost", may_run=True)
        id_ = self._take(job)
        if self.loses_answers:
            raise NoAnswer("sbatch: Socket timed out")
        return id_

    async def _take_later(self, job: JobSpec, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._take(job)

    def _take(self, job: JobSpec) -> str:
        id_ = str(len(self.jobs) + 1)
        self.jobs[id_] = FakeJob(job, id_)
        self.submissions.append(job.name)
        self.start_waiting()
        return id_

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        await self._answer()
        self._end_left()
        self.start_waiting()
        mine = [j for j in self.jobs.values() if j.spec.name in names and not j.forgotten]
        mine = mine[: self.tells_only]
        # How a job ended only `look_up` tells: some systems list no more than that it did.
        return {job.spec.name: replace(self._report(job), cause=None) for job in mine}

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        await self._answer()
        return [self._report(j) for j in self.jobs.values() if j.spec.name.startswith(prefix)]

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        self.listings += 1
        await self._answer()
        ours = [
            ForeignJob(system="slurm", job_id=j.id, name=j.spec.name, user="me", waits=not j.nodes)
            for j in self.jobs.values()
        ]
        return [*ours, *self.foreign]

    async def look_up(self, job_id: str) -> JobReport | None:
        await self._answer()
        job = self.jobs.get(job_id)
        return None if job is None or job.forgotten else self._report(job)

    async def cancel(self, job_ids: Collection[str]) -> None:
        await self._answer()
        if self.cancels_nothing:
            raise BatchSystemError("qdel: Unauthorized Request")
        for job_id in job_ids:
            if (job := self.jobs.get(job_id)) is not None:
                await self.end(job, EndCause.CANCELLED)

    async def signal(self, job_id: str, signal: str) -> None:
        await self._answer()

    async def end(self, job: FakeJob, cause: EndCause) -> None:
        """At the site, whoever did it."""
        if job.cause is None:
            job.cause = cause
            for agent in job.agents:
                await agent.die()

    def start_waiting(self) -> None:
        for job in self.jobs.values():
            avoid = job.spec.avoid if self.heeds_avoid else ()
            free = [node for node in self.free if node not in avoid]
            waits = job.cause is None and not job.nodes and not self.holds_back
            if waits and job.spec.nodes <= len(free):
                self._start(job, free)

    def job_of(self, allocation_id: str, leases: Sequence[Lease]) -> FakeJob:
        tag = next(one.tag for one in leases if one.allocation_id == allocation_id)
        return next(job for job in self.jobs.values() if job.spec.name == tag)

    def _start(self, job: FakeJob, free: Sequence[str]) -> None:
        job.nodes = tuple(free[: job.spec.nodes])
        if self.keeps_walltimes and job.spec.walltime_s is not None:
            job.ends_at = self._world.clock.now().timestamp() + job.spec.walltime_s
            self._world.tasks.create_task(self._end_later(job, job.spec.walltime_s))
        for number in range(job.spec.nodes):
            if self.agents_say:
                log = job.spec.directory / f"nodes/{number}/agent.log"
                log.write_text(self.agents_say)
                log.with_name("host.state").write_text("{}")
                continue
            told = json.loads((job.spec.directory / f"nodes/{number}/host.json").read_text())
            settings = told["agent"]
            agent = self._world.new_agent(
                settings["agent_id"],
                token=settings["join_token"],
                credential=f"credential-of-{settings['agent_id']}",
                instance_id=settings["instance_id"],
                slots=self.slots_of.get(job.nodes[number], job.spec.gpus_per_node),
                pool=settings["resource_pool"],
                site_node=job.nodes[number],
            )
            job.agents.append(agent)
            self._world.agents[agent.agent_id] = agent
            self._world.tasks.create_task(agent.run())

    async def _end_later(self, job: FakeJob, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.end(job, EndCause.TIMEOUT)

    def _end_left(self) -> None:
        """A job ends when its agents were told to."""
        for job in self.jobs.values():
            if job.cause is None and job.agents and all(agent._dead for agent in job.agents):
                job.cause = EndCause.OK

    async def _answer(self) -> None:
        await asyncio.sleep(0.05)
        if self.down:
            raise NoAnswer("squeue: Unable to contact slurm controller")

    def _report(self, job: FakeJob) -> JobReport:
        phase = JobPhase.RUNNING if job.nodes else JobPhase.QUEUED
        if job.paused:
            phase = JobPhase.PAUSED
        return JobReport(
            job_id=job.id,
            name=job.spec.name,
            phase=phase if job.cause is None else JobPhase.ENDED,
            state="RUNNING" if job.nodes else "PENDING",
            kind=ReasonKind.NO_CAPACITY,
            reason="" if job.nodes else "QOSMaxNode" if self.never else self.reason,
            words="" if job.nodes or self.never else "no nodes of that shape are free",
            never="" if job.nodes else self.never,
            nodes=job.nodes,
            ends_at=(job.ends_at or self.ends_at) if job.nodes else None,
            cause=job.cause,
        )


class MemoryLeaseStore:
    def __init__(self) -> None:
        self.saved: dict[str, Lease] = {}
        self.commits: list[tuple[Lease, ...]] = []
        self.last: int | None = None
        """After so many commits the master stands still: `restart` it."""
        self.stands = asyncio.Event()

    async def load(self) -> Sequence[Lease]:
        return [one for one in self.saved.values() if one.state is not LeaseState.SETTLED]

    async def save(self, leases: Sequence[Lease]) -> None:
        await asyncio.sleep(0)
        self.saved |= {lease.tag: lease for lease in leases}
        self.commits.append(tuple(leases))
        if len(self.commits) == self.last:
            self.stands.set()
            await asyncio.Event().wait()


@dataclass
class BatchWorld:
    """A world that has not started yet, with a pool of batch jobs called `default`, and the site."""

    world: AgentsWorld
    folder: Path
    options: DispatchOptions = field(default_factory=slurm_pool)
    ids: Ids = field(default_factory=lambda: Ids.seeded(7))
    store: MemoryLeaseStore = field(default_factory=MemoryLeaseStore)
    disk: Disk = field(default_factory=LocalDisk)
    users: SiteUsers | None = None
    dispatches: bool = True
    """False: the pool is not of mode dispatch any more."""
    said: list[tuple[str, str, str]] = field(default_factory=list)
    """In logs of tasks: whose, the level, and the text."""
    _site: FakeBatch | None = None
    _dispatcher: Dispatcher | None = None

    @property
    def site(self) -> FakeBatch:
        if self._site is None:
            self._site = FakeBatch(self.world)
        return self._site

    @property
    def dispatcher(self) -> Dispatcher:
        assert self._dispatcher is not None
        return self._dispatcher

    def say(self, task_id: str, allocation_id: str, text: str, *, level: str = "INFO") -> None:
        assert allocation_id.startswith(f"{task_id}.")
        self.said.append((task_id, level, text))

    async def start(self) -> None:
        """The world's master, with a resource manager for the site."""
        self.world.batch = self._backend
        await self.world.start_master()

    def _backend(self, shared: AgentPools) -> BatchBackend:
        files = JobFiles(
            root=self.folder,
            python="/usr/bin/python3",
            agent={"master_url": "http://m"},
            disk=self.disk,
        )
        self._dispatcher = Dispatcher(
            pools=[self.options] if self.dispatches else [],
            system=self.site,
            host=LeasedNodes(shared, self._may_go_elsewhere),
            store=JobLines(self.store, self, {"default": files}),
            files={"default": files},
            token=self._token,
            clock=self.world.clock,
            ids=self.ids,
            cluster_id="c0ffee00-1",
            check_lease=still_leads,
            project_of=_project_of,
            users=self.users,
        )
        return BatchBackend(shared, [POOL], self._dispatcher)

    async def restart(self, *records: RestoreRecord) -> None:
        """As by kill -9, at whatever line it is."""
        self.store.last = None
        await self.world.restart(records)

    def _may_go_elsewhere(self, allocation_id: str) -> bool:
        return self.world.fall_back is not None and self.world.router.refused(allocation_id)

    def _token(self, lease: Lease) -> str:
        token = f"token-of-{lease.tag}"
        self.world.tokens.grants[token] = JoinGrant(
            pool=lease.pool,
            kind=JoinKind.JOB,
            id=lease.tag,
            names=frozenset(lease.agents),
            agents=lease.shape.nodes,
        )
        return token

    def is_quiet(self) -> bool:
        """Nothing of it is left, here or at the site."""
        over = all(job.cause is not None for job in self.site.jobs.values())
        return over and not self.dispatcher.leases() and not list(self.folder.glob("wl-*"))


async def _project_of(lease: Lease) -> str:
    return f"project of {lease.allocation_id}"
