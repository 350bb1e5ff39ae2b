"""A resource manager whose requests wait in somebody else's queue, and the toy batch system that has this queue.

One request is one job of the site: a lease of whole nodes. The job waits with a reason and an estimated start of the
site's, can be cancelled there, and the request is granted when all of its nodes have come. Jobs are recorded, polled
and cancelled as those of dispatch and of pilots are (`provisioner.leases`), without a script or a directory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from master.core.fall_back import Prospect
from master.core.reasons import Reason, ReasonKind
from provisioner.batch.base import ForeignJob, JobPhase, JobReport, JobSpec, SiteFacts
from provisioner.leases.job_record import JobRecord, called, listed, submitted
from provisioner.leases.poller import JobPoller
from rm_backends.base import (
    Abilities,
    AllocationHint,
    AllocationRequest,
    AlreadyGranted,
    Container,
    ContainerExit,
    ContainerPhase,
    JobOrder,
    LaunchSpec,
    Lost,
    ResourceChanged,
    RestoreRecord,
    RmEvents,
    Withdrawn,
)
from rm_backends.limits import PoolShape, refusal
from rm_backends.outbox import Outbox
from rm_backends.views import (
    AgentKey,
    AgentView,
    JobInPool,
    PoolView,
    QueueEntry,
    QueueState,
    SlotView,
    jobs_of,
)
from windlass.base.errors import NotFound, Unsatisfiable
from windlass.base.ids import Ids
from windlass.base.loop import Loop

SLOTS = 4
"""Of each node."""
ESTIMATE = datetime(2026, 1, 2, 12, tzinfo=UTC)


@dataclass(slots=True)
class SiteJob:
    """A job of the site. It runs when it has all its nodes."""

    wanted: int
    nodes: list[str] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        return len(self.nodes) == self.wanted


async def still_leads() -> None:
    """No other master leads."""


@dataclass(slots=True)
class Site:
    """The batch system. It knows no allocations, only jobs by name, and outlives every master."""

    free: list[str] = field(default_factory=lambda: ["n1", "n2"])
    jobs: dict[str, SiteJob] = field(default_factory=dict)
    exits: dict[str, int | None] = field(default_factory=dict)
    """By container: None while its process runs."""
    automatic: bool = True
    """It gives a node with each look at it. Else nodes come with `give`."""
    on_change: Callable[[], None] = lambda: None
    name: str = "toy"
    most_tasks: int = 1

    async def submit(self, job: JobSpec) -> str:
        self.jobs.setdefault(job.name, SiteJob(job.nodes))
        self.on_change()
        return job.name

    async def cancel(self, job_ids: Collection[str]) -> None:
        for job_id in job_ids:
            job = self.jobs.pop(job_id, None)
            self.free += job.nodes if job is not None else []
        self.on_change()

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        return {name: _report(name, self.jobs[name]) for name in names if name in self.jobs}

    async def look_up(self, job_id: str) -> JobReport | None:
        return (await self.poll([job_id])).get(job_id)

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        return [_report(name, job) for name, job in self.jobs.items() if name.startswith(prefix)]

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        return ()

    async def site(self) -> SiteFacts:
        return SiteFacts()

    async def signal(self, job_id: str, signal: str) -> None:
        """Its jobs have no processes."""

    def give(self) -> None:
        """The next node goes to the first job that lacks one."""
        job = next((job for job in self.jobs.values() if not job.runs), None)
        if job is not None and self.free:
            job.nodes.append(self.free.pop(0))
        self.on_change()

    def launch(self, container_id: str) -> None:
        self.exits.setdefault(container_id, None)
        self.on_change()

    def exit(self, container_id: str, code: int) -> None:
        if self.exits.get(container_id) is None:
            self.exits[container_id] = code
        self.on_change()

    def why(self, name: str) -> str:
        ahead = list(self.jobs).index(name)
        job = self.jobs[name]
        return f"job {name} at the site: Priority, {ahead} jobs ahead, {len(job.nodes)} of {job.wanted} nodes"


def _report(name: str, job: SiteJob) -> JobReport:
    phase = JobPhase.RUNNING if job.runs else JobPhase.QUEUED
    return JobReport(job_id=name, name=name, phase=phase, state=phase.name, nodes=tuple(job.nodes))


@dataclass(slots=True)
class Lease:
    """One request and what it has of the site."""

    request: AllocationRequest
    job: JobRecord
    containers: tuple[Container, ...] = ()
    started: bool = False
    told: bool = False
    """The master has committed the grant."""
    releasing: bool = False
    phases: dict[str, ContainerPhase] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.request.allocation_id


class DispatchBackend:
    """Implements `rm_backends.base.ResourceManager` and `rm_backends.observer.Observer`; nobody operates its nodes."""

    def __init__(self, site: Site, events: RmEvents, ids: Ids, pool: str = "default") -> None:
        self._site = site
        self._ids = ids
        self._pool = pool
        self._leases: dict[str, Lease] = {}
        self._poller = JobPoller(site, still_leads)
        self._unwanted: list[str] = []
        """Jobs to be cancelled."""
        self._outbox = Outbox(events)
        self._loop = Loop("site", self._look, interval_s=1.0)
        site.on_change = self._loop.wake

    @property
    def operator(self) -> None:
        return None

    @property
    def observer(self) -> DispatchBackend:
        return self

    def knows(self, allocation_id: str) -> bool:
        return allocation_id in self._leases

    def pools(self) -> Sequence[str]:
        return (self._pool,)

    def check(self, request: AllocationRequest) -> Sequence[str]:
        self._known(request.pool)
        shape = PoolShape(pool=self._pool, sizes={SLOTS: 2}, max_agents=2)
        too_much = refusal(shape, request.slots, single_agent=request.single_agent)
        if too_much is not None:
            raise Unsatisfiable(too_much.why, nearest=too_much.nearest)
        return ()

    def abilities(self, pool: str) -> Abilities | None:
        return None

    async def request(self, request: AllocationRequest) -> None:
        if request.allocation_id not in self._leases:
            lease = Lease(request, JobRecord(tag=request.allocation_id))
            await self._submit(lease, max(1, -(-request.slots // SLOTS)))

    async def withdraw(self, allocation_id: str) -> Withdrawn | AlreadyGranted:
        lease = self._leases.get(allocation_id)
        if lease is not None and lease.containers:
            return AlreadyGranted(allocation_id=allocation_id)
        self._end(allocation_id)
        await self._end_unwanted()
        return Withdrawn(allocation_id=allocation_id)

    async def start(self, allocation_id: str, spec: LaunchSpec) -> None:
        lease = self._leases.get(allocation_id)
        if lease is None or not lease.containers:
            self._lose(allocation_id, "its reservation is gone")
            return
        lease.started = True
        for container in lease.containers:
            self._site.launch(container.container_id)

    async def release(self, allocation_id: str, reason: str, deadline: datetime | None) -> None:
        if (lease := self._leases.get(allocation_id)) is not None:
            lease.releasing = True

    async def kill(self, allocation_id: str) -> None:
        lease = self._leases.get(allocation_id)
        if lease is None:
            return
        if not lease.started:
            if lease.told:
                self._lose(allocation_id, "killed before it was started")
            self._end(allocation_id)
            await self._end_unwanted()
        for container in lease.containers:
            self._site.exit(container.container_id, 137)

    async def update_job(self, order: JobOrder) -> None:
        for lease in self._leases.values():
            if lease.request.job.job_id == order.job_id:
                lease.request = replace(lease.request, job=order)

    def hint(self, note: AllocationHint) -> None:
        pass

    async def restore(self, records: Sequence[RestoreRecord]) -> None:
        """Jobs are found at the site by their names."""
        for record in records:
            if not record.containers:
                await self.request(record.request)
                continue
            lease = Lease(
                record.request,
                JobRecord(tag=record.request.allocation_id),
                record.containers,
                started=record.started,
                told=True,
            )
            await self._submit(lease, len(record.containers))

    async def _submit(self, lease: Lease, nodes: int) -> None:
        """Unless the site has it: it knows jobs by their names."""
        lease.job = called(lease.job)
        self._leases[lease.id] = lease
        spec = JobSpec(
            name=lease.job.job_name,
            queue="",
            nodes=nodes,
            gpus_per_node=SLOTS,
            directory=Path(),
            script="",
        )
        lease.job = submitted(lease.job, await self._poller.of("").submit(spec))

    def explain(self, allocation_id: str) -> Reason | None:
        lease = self._leases.get(allocation_id)
        if lease is None or lease.containers:
            return None
        return Reason(kind=ReasonKind.QUEUED, text=self._site.why(allocation_id))

    async def expected_start(self, allocation_id: str) -> datetime | None:
        if self.explain(allocation_id) is None:
            return None
        return ESTIMATE + timedelta(hours=list(self._site.jobs).index(allocation_id))

    async def prospects(
        self, pool: str, requests: Sequence[AllocationRequest]
    ) -> Mapping[str, Prospect]:
        """What gets its nodes at once, if nobody waits for some."""
        self._known(pool)
        left = 0 if any(not job.runs for job in self._site.jobs.values()) else len(self._site.free)
        found = {}
        for request in requests:
            wanted = max(1, -(-request.slots // SLOTS))
            if wanted <= left:
                left -= wanted
                found[request.allocation_id] = Prospect.START
        return found

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._outbox.run())
            tasks.create_task(self._loop.run())

    async def _look(self) -> None:
        if self._site.automatic and any(not job.runs for job in self._site.jobs.values()):
            job = next(job for job in self._site.jobs.values() if not job.runs)
            if self._site.free:
                job.nodes.append(self._site.free.pop(0))
                self._loop.wake()
        await self._end_unwanted()
        for tag, told in (await self._poller.poll([x.job for x in self._leases.values()])).items():
            await self._take(self._leases[tag], told)
        for lease in list(self._leases.values()):
            for container in lease.containers:
                if container.container_id in self._site.exits:
                    self._report(lease, container, self._site.exits[container.container_id])

    async def _end_unwanted(self) -> None:
        unwanted, self._unwanted = self._unwanted, []
        await self._poller.cancel(("", job_id) for job_id in unwanted)

    async def _take(self, lease: Lease, told: JobReport | None) -> None:
        job, is_known = await self._poller.confirmed(lease.job, told)
        if job is None or not is_known:
            return  # it never forgets one
        lease.job = listed(lease.job, job, 0.0)
        if job.phase is JobPhase.RUNNING and not lease.containers:
            self._grant(lease, job.nodes)

    def _grant(self, lease: Lease, nodes: Sequence[str]) -> None:
        left = lease.request.slots
        containers = []
        for rank, node in enumerate(nodes):
            slots, left = min(left, SLOTS), max(0, left - SLOTS)
            containers.append(
                Container(
                    container_id=self._ids.uuid(),
                    agent_id=node,
                    rank=rank,
                    slot_ids=tuple(range(slots)),
                )
            )
        lease.containers = tuple(containers)
        self._outbox.post(
            lease.request.granted(lease.containers),
            partial(setattr, lease, "told", True),
        )

    def _report(self, lease: Lease, container: Container, code: int | None) -> None:
        id_ = container.container_id
        phase = ContainerPhase.RUNNING if code is None else ContainerPhase.TERMINATED
        if lease.phases.get(id_) is phase or lease.phases.get(id_) is ContainerPhase.TERMINATED:
            return
        lease.phases[id_] = phase
        exit_ = None if code is None else ContainerExit(exit_code=code)
        event = ResourceChanged(allocation_id=lease.id, container_id=id_, phase=phase, exit=exit_)
        self._outbox.post(event, partial(self._ended, lease, id_) if exit_ else None)

    def _ended(self, lease: Lease, container_id: str) -> None:
        lease.ended.add(container_id)
        if len(lease.ended) == len(lease.containers):
            self._end(lease.id)

    def _end(self, allocation_id: str) -> None:
        lease = self._leases.pop(allocation_id, None)
        if lease is not None and lease.job.job_id is not None:
            self._unwanted.append(lease.job.job_id)
            self._loop.wake()

    def _lose(self, allocation_id: str, reason: str) -> None:
        self._outbox.post(Lost(allocation_id=allocation_id, reason=reason))

    # Observer

    def pools_view(self) -> Sequence[PoolView]:
        nodes = [node for job in self._site.jobs.values() for node in job.nodes]
        waiting = sum(not lease.containers for lease in self._leases.values())
        return (
            PoolView(
                name=self._pool,
                description="a toy",
                type="slurm",
                dynamic=True,
                agents=len(nodes),
                slots=SLOTS * len(nodes),
                slots_used=sum(
                    lease.request.slots for lease in self._leases.values() if lease.containers
                ),
                aux_running=0,
                aux_capacity=0,
                waiting=waiting,
                running=len(self._leases) - waiting,
                settings=None,
            ),
        )

    def scheduler(self, pool: str) -> None:
        self._known(pool)

    def jobs_in(self, pool: str) -> Sequence[JobInPool]:
        return jobs_of(self.queue(pool))

    def queue(self, pool: str, job_id: str | None = None) -> Sequence[QueueEntry]:
        self._known(pool)
        leases = self._leases.values()
        return [self._entry(one) for one in leases if job_id in (None, one.request.job.job_id)]

    def waiting_by_kind(self, pool: str) -> Mapping[ReasonKind, int]:
        waiting = (e for e in self.queue(pool) if e.state is QueueState.QUEUED)
        return Counter(e.reason.kind if e.reason else ReasonKind.QUEUED for e in waiting)

    def _entry(self, lease: Lease) -> QueueEntry:
        request = lease.request
        return QueueEntry(
            allocation_id=lease.id,
            task_id=request.task_id,
            name=request.name,
            pool=self._pool,
            job=request.job.as_job(self._pool),
            slots=request.slots,
            requested=request.requested,
            preemptible=request.preemptible,
            state=QueueState.SCHEDULED if lease.containers else QueueState.QUEUED,
            placement={c.agent_id: len(c.slot_ids) for c in lease.containers},
            releasing=lease.releasing,
            reason=self.explain(lease.id),
        )

    def agents(self) -> Sequence[AgentView]:
        return [
            AgentView(
                id=node,
                pool=self._pool,
                address="",
                registered=ESTIMATE,
                slots=tuple(SlotView(id=n, kind="cuda") for n in range(SLOTS)),
            )
            for job in self._site.jobs.values()
            for node in job.nodes
        ]

    def agent_keys(self) -> Sequence[AgentKey]:
        return [AgentKey(id=view.id, registered=view.registered) for view in self.agents()]

    def agent(self, agent_id: str) -> AgentView:
        for view in self.agents():
            if view.id == agent_id:
                return view
        raise NotFound("agent", agent_id)

    def _known(self, pool: str) -> None:
        if pool != self._pool:
            raise NotFound("resource pool", pool)
