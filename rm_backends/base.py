"""The handshake between the master and whatever gives it slots.

A grant only reserves; nothing starts before the master has committed it and calls `start`. All calls are idempotent
by allocation id. Backends know machines; `master.allocations` alone owns the state of allocations.

    request ──> waiting ──Granted──> reserved ──start──> running ──all containers TERMINATED──> (forgotten)
                  │withdraw             │kill               │release (asks back: ReleaseAsked) / kill
                  └──> (forgotten)      └──> (forgotten)    └──> containers TERMINATED
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol, TypeAlias

from agent_bootstrap.container_options import ContainerOptions, OsUser
from master.core.machines import NO_REQUIREMENTS, Requirements
from master.core.reasons import Reason
from master.core.scheduler.types import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """What decides the place of a job's requests in a queue. Changed by `update_job`."""

    job_id: str
    submitted: datetime
    weight: float = 1.0
    max_slots: int | None = None
    priority: int | None = None
    position: Decimal | None = None
    """Where it was moved to among jobs of its priority: seconds since the epoch, as `submitted`. None: not moved."""
    run_time_s: float | None = None
    """How long one of its allocations runs, as known or learned so far."""
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    """Pool -> slots of its requests that fell back to it. These count first against `max_slots`."""

    def as_job(self, pool: str | None = None) -> Job:
        """The job as the scheduler of a pool sees it (None: as a whole), whether or not it asks for anything now."""
        return Job(
            id=self.job_id,
            submitted=self.submitted.timestamp(),
            weight=self.weight,
            max_slots=self.max_slots if pool is None else self.max_slots_in(pool),
            priority=self.priority,
            position=self.position,
        )

    def max_slots_in(self, pool: str) -> int | None:
        """Its share of `max_slots` there: the shares of all pools together are never more than that."""
        if self.max_slots is None:
            return None
        first = sorted(self.elsewhere)
        if pool in self.elsewhere:
            first = first[: first.index(pool)]
        return max(0, self.max_slots - sum(self.elsewhere[other] for other in first))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationHint:
    """What an allocation's owner knows of a run, for the scheduler's choices. A hint: it may be lost."""

    allocation_id: str
    last_checkpoint: datetime | None = None
    expected_end: datetime | None = None


BY_MODE = "mode auto: "
"""Before why a request was sent to that side of its pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FellBack:
    """A request is in another pool than its own."""

    home: str
    """The pool that it was submitted to, and asks in again after this run."""
    why: str = ""
    """Why it could not start there, or was not to."""

    @property
    def is_choice(self) -> bool:
        """Its own pool has two sides, and this is one of them."""
        return self.why.startswith(BY_MODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a request says to one kind of batch system beside its slots."""

    slots_per_node: int | None = None
    gpu_type: str = ""
    arguments: tuple[str, ...] = ()
    """Of its command to submit jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What a request says to batch systems. Pools without one pass it by."""

    slurm: JobOptions = JobOptions()
    pbs: JobOptions = JobOptions()

    def of(self, system: str) -> JobOptions:
        return self.pbs if system == "pbs" else self.slurm


NO_BATCH = BatchOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRequest:
    """One allocation that wants slots: a gang."""

    allocation_id: str
    task_id: str
    name: str
    pool: str
    slots: int
    job: JobOrder
    requested: datetime
    single_agent: bool = False
    preemptible: bool = True
    preemption_timeout_s: float | None = None
    """How long it may take to checkpoint and leave; None: not said."""
    leave_took_s: float | None = None
    """How long the run before it took to checkpoint and leave, once it was asked; None: nobody knows."""
    blocked_agents: frozenset[str] = frozenset()
    """Agents, or nodes of batch systems, that it must not use."""
    requires: Requirements = NO_REQUIREMENTS
    """What it asks of the machines beside slots."""
    launches_machines: bool = True
    """False: it waits for a machine that is there anyway."""
    user: str = ""
    """Whose it is: budgets count by users."""
    os_user: OsUser | None = None
    """Whom an administrator linked that user, or its workspace, to: as whom its batch job may be submitted."""
    batch: BatchOptions = NO_BATCH
    fell_back: FellBack | None = None
    """None: `pool` is its own."""

    @property
    def shape(self) -> Hashable:
        """What a pool must be able to hold: requests alike in this fit alike."""
        return self.slots, self.single_agent, self.blocked_agents, self.requires, self.batch

    def granted(self, containers: tuple[Container, ...], *, backfilled: bool = False) -> Granted:
        """The event for these slots."""
        away = self.fell_back
        return Granted(
            allocation_id=self.allocation_id,
            containers=containers,
            backfilled=backfilled,
            pool=self.pool if away is not None else None,
            why=away.why if away is not None else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One part of a grant: one container (process tree) on one agent. `rank` counts from 0 within the allocation."""

    container_id: str
    agent_id: str
    rank: int
    slot_ids: tuple[int, ...] = ()
    """Device numbers on that agent."""
    slot_kind: str = "cpu"
    """cuda, rocm or cpu: whose images and variables of a config apply. Without slots: cpu."""
    address: str = "127.0.0.1"
    """Where the other containers reach it."""
    site_node: str = ""
    """In a batch job: what the site calls the node."""

    @property
    def node(self) -> str:
        """By this name later runs can avoid it."""
        return self.site_node or self.agent_id


class ContainerPhase(StrEnum):
    """Only ever moves forward."""

    ASSIGNED = "ASSIGNED"
    PULLING = "PULLING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    TERMINATED = "TERMINATED"


class FailureKind(StrEnum):
    """Why a container ended badly; None in `ContainerExit` means its exit code tells."""

    ABORTED = "aborted"
    """Ended before it started (the agent refused it, or it could not be set up): our failure, not the user's."""
    TASK_ERROR = "task_error"
    """Could not be set up because of what the user asked for (missing work_dir, bad mount)."""
    AGENT_FAILED = "agent_failed"
    """The agent, its host or its supervisor died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExit:
    """How a container ended. Signals are 128 + n; a kill by the master is 137."""

    exit_code: int | None
    failure: FailureKind | None = None
    message: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A file that must exist in the container before its first process. Paths are absolute in the container."""

    path: str
    content: bytes
    mode: int = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class BindMount:
    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """What to run, the same for every container; the agent adds what depends on where (DET_AGENT_ID, ...)."""

    allocation_id: str
    task_id: str
    task_type: str
    entrypoint: tuple[str, ...]
    """`{python}` as the first word stands for the interpreter of the agent (which has `windlass`)."""
    environment: Mapping[str, str]
    work_dir: str = "/run/determined/workdir"
    files: tuple[TaskFile, ...] = ()
    binds: tuple[BindMount, ...] = ()
    options: ContainerOptions = field(default_factory=ContainerOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """Slots are reserved for it. Answer with `start` once committed, or `kill` to give them back."""

    allocation_id: str
    containers: tuple[Container, ...]
    backfilled: bool = False
    pool: str | None = None
    """Where the slots are, if that is not the pool of the allocation: it fell back."""
    why: str = ""
    """Why it did."""


class LossKind(StrEnum):
    """What it means for the work that was lost."""

    MACHINE = "machine"
    """Nobody's fault: it runs again."""
    TIME_LIMIT = "time limit"
    """The time of a batch job was over. Without a new checkpoint in that time the next job will not get on either."""
    ON_PURPOSE = "on purpose"
    """Somebody ended it where the master is not asked: it is not run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAsked:
    """The scheduler wants the slots back: preempt it. The master answers by ending it, sooner or later.

    A kill follows at `deadline` if the allocation has one; None leaves the task's own preemption_timeout.
    """

    allocation_id: str
    reason: str
    deadline: datetime | None = None
    kind: LossKind = LossKind.MACHINE
    """What its end at the deadline means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChanged:
    """One container moved on. The event may be repeated; `handle` must have committed before it returns."""

    allocation_id: str
    container_id: str
    phase: ContainerPhase
    exit: ContainerExit | None = None
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What the allocation held is gone without an exit code (agent lost, instance gone). Not the user's failure."""

    allocation_id: str
    reason: str
    kind: LossKind = LossKind.MACHINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """It waits for what no pool will ever give it, as a batch system said only after it was submitted."""

    allocation_id: str
    reason: str


RmEvent: TypeAlias = Granted | ReleaseAsked | ResourceChanged | Lost | Refused


class RmEvents(Protocol):
    """Where a backend reports to. `handle` returns after the master has committed; it raises if it could not."""

    async def handle(self, event: RmEvent) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    allocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyGranted:
    allocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRecord:
    """An allocation the store knows after a restart of the master."""

    request: AllocationRequest
    containers: tuple[Container, ...] = ()
    """Empty: it waits. Else it holds these."""
    started: bool = False
    """False with containers: granted and committed, `start` will be called again."""
    ended_containers: frozenset[str] = frozenset()
    """Containers whose exit is already committed: they hold nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a pool can do for tasks, as far as anybody knows before it starts one."""

    containers: bool = False
    """Some of its agents run images."""
    trial_classes: bool = False
    """The Python of some of its agents has the package that runs Trial classes."""
    shm_sizes: bool = True
    """Some of its agents give a container a /dev/shm of the size that it asks for."""
    shares_user: bool = False
    """All of its agents run as the master's own user on its machine: what that user cannot write, no task can."""
    process_user: str = ""
    """Whom tasks without an image run as that nobody is named for. Empty: its agents differ, or do not say."""


class ResourceManager(Protocol):
    """A backend. Calls return quickly; anything slow is its own loop. Sync calls never block."""

    def pools(self) -> Sequence[str]: ...

    def check(self, request: AllocationRequest) -> Sequence[str]:
        """Raise `Unsatisfiable` if no agent or offer of the pool could ever hold it. Says what would fit.

        Returns what its user should know of how it will run there, a sentence each.
        """
        ...

    def abilities(self, pool: str) -> Abilities | None:
        """None: nobody knows, as long as no agent of it is connected."""
        ...

    async def request(self, request: AllocationRequest) -> None: ...

    async def withdraw(self, allocation_id: str) -> Withdrawn | AlreadyGranted: ...

    async def start(self, allocation_id: str, spec: LaunchSpec) -> None: ...

    async def release(self, allocation_id: str, reason: str, deadline: datetime | None) -> None:
        """The master is ending it (pause, stop): count its slots as coming back. Batch systems signal the job."""
        ...

    async def kill(self, allocation_id: str) -> None:
        """SIGKILL to every container; TERMINATED follows for each.

        Not started: the reservation is given back, and `Lost` follows if `Granted` was taken. A request that waits is
        just forgotten.
        """
        ...

    async def update_job(self, order: JobOrder) -> None: ...

    def hint(self, note: AllocationHint) -> None:
        """Newer facts of a run; those that are None leave what is known."""
        ...

    async def restore(self, records: Sequence[RestoreRecord]) -> None:
        """Called once, before anything else, after a restart of the master."""
        ...

    def explain(self, allocation_id: str) -> Reason | None:
        """Why it waits; None if it does not wait here."""
        ...

    async def expected_start(self, allocation_id: str) -> datetime | None:
        """When a waiting request will probably start; None if nobody can know, or if it does not wait here."""
        ...

    async def run(self) -> None:
        """The backend's own loops, until cancelled."""
        ...
