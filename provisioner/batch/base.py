"""What every batch system can do for us. A job is a lease of nodes on which our agents run.

Every job has a name that nobody else has: it is found by it, whatever became of the call that submitted it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from master.core.reasons import ReasonKind
from windlass.base.errors import BatchSystemError

SCRIPT_NAME = "batch.sh"
"""Of the script in the directory of its job."""


SUBMIT_LIMIT_S = 120.0
"""How long a command that submits may run; on a login node also when its connection, or the master, is gone."""
PROOF_S = 60.0
"""A job that the site does not know is gone when it says so again after so long."""
ARRIVAL_S = SUBMIT_LIMIT_S + PROOF_S
"""The same of a job whose submission may still run."""


SITE_EVERY_S = 60.0
"""What the site says of itself is asked for so often."""

SURE_S = 20.0
"""What a site will never do counts when it has said so for so long: it may just have started, or be being changed."""

DISPATCHED, PILOTS = "wl", "wp"


def task_name(array: str, number: int) -> str:
    """What one job of an array is called here. Its site shows the name of the array, and the number in the id."""
    return f"{array}.{number}"


def array_of(name: str) -> str:
    """The name that the site shows of a job of ours, whose own have no dot."""
    return name.partition(".")[0]


def task_id(array_id: str | int, number: int) -> str:
    """As Slurm writes it: no other system is asked for arrays."""
    return f"{array_id}_{number}"


def job_prefix(kind: str, cluster_id: str) -> str:
    """With which the names of all jobs of one cluster begin."""
    return f"{kind}-{cluster_id.replace('-', '')[:8]}-"


class NoAnswer(BatchSystemError):
    """The scheduler did not answer: nothing is known of any job, and a submission may have been accepted."""

    code = "batch_system_down"

    def __init__(self, message: str, *, may_run: bool = False) -> None:
        """`may_run`: what was called has perhaps not ended."""
        super().__init__(message)
        self.may_run = may_run


class JobRefused(BatchSystemError):
    """The scheduler did not take a job."""

    code = "job_refused"

    def __init__(
        self, message: str, *, kind: ReasonKind, passing: bool, final: bool = False
    ) -> None:
        """`passing`: the same job may be taken later. `final`: it will not, unless somebody changes the site.

        Neither: what the site said is not known to be one of these.
        """
        super().__init__(message)
        self.kind = kind
        self.passing = passing
        self.final = final


class JobPhase(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    """It has nodes, which boot or are being prepared."""
    RUNNING = "running"
    PAUSED = "paused"
    """Suspended by the site: its processes stand still, and its nodes are its own."""
    ENDING = "ending"
    ENDED = "ended"


class EndCause(StrEnum):
    """Why a job ended, as the site says."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    NODE_FAILED = "node_failed"
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"
    LAUNCH_FAILED = "launch_failed"
    """Its script never ran."""
    UNKNOWN = "unknown"
    """It is over, and nobody says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """One job, as the site tells of it. Times are seconds since the epoch."""

    job_id: str
    name: str
    phase: JobPhase
    state: str
    """In the site's own word."""
    kind: ReasonKind = ReasonKind.QUEUED
    """Why it waits, in one of our words; what follows, in the site's and in plain ones."""
    reason: str = ""
    words: str = ""
    never: str = ""
    """The way out for one that will never start as it is; empty: it may."""
    starts_at: float | None = None
    """When it started, or probably will."""
    ends_at: float | None = None
    """When it ended, or its time limit ends it."""
    nodes: tuple[str, ...] = ()
    account: str = ""
    """Which pays for it, where the site says that."""
    cause: EndCause | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignJob:
    """A job of somebody else, as far as everybody may know it."""

    system: str
    """slurm or pbs."""
    job_id: str
    name: str
    user: str
    waits: bool
    nodes: int = 0
    submitted: float | None = None
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job to be submitted."""

    name: str
    tasks: int = 0
    """0: one job. Else an array of so many: number 3 starts in `directory` with `.3` after its name."""
    queue: str
    nodes: int
    gpus_per_node: int
    """0: none are asked for."""
    gpu_type: str = ""
    cpus_per_node: int | None = None
    memory_mib_per_node: int | None = None
    """None: as the site does."""
    walltime_s: float | None = None
    """None: as the site does."""
    avoid: tuple[str, ...] = ()
    """Names of nodes."""
    project: str = ""
    """What it is booked on: a wckey of Slurm, a project of PBS."""
    nice: int = 0
    """How much less important it is than others of its user: 0 or more."""
    arguments: tuple[str, ...] = ()
    """Of the operator and the user, after ours."""
    user: str = ""
    """Whose job it is to be. Empty: of whoever submits it."""
    directory: Path
    """Where it starts, and where its output goes. It must exist."""
    script: str
    """As in `SCRIPT_NAME` there. Readable by everybody on some sites: nothing secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A partition of Slurm, a queue of PBS."""

    name: str
    is_default: bool = False
    is_open: bool = True
    """Jobs may be submitted to it, and start."""
    nodes: int = 0
    idle_nodes: int = 0
    gpus_per_node: int = 0
    """The most common number among its nodes."""
    gpu_types: frozenset[str] = frozenset()
    cpus_per_node: int = 1
    """The least of its nodes."""
    memory_mib_per_node: int | None = None
    max_nodes: int | None = None
    """Of one job. None: as many as there are."""
    max_walltime_s: float | None = None
    default_walltime_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFacts:
    """What the batch system said of itself."""

    version: str = ""
    queues: Mapping[str, Queue] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    """Their names, as far as it tells them."""
    accounts: Mapping[str, frozenset[str]] | None = None
    """Accounts that this user may name, with the QOS that each may. None: not known, or any."""

    def queue(self, name: str) -> Queue | None:
        """Empty: where jobs go that name none."""
        if name:
            return self.queues.get(name)
        return next((one for one in self.queues.values() if one.is_default), None)

    def known(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Without names of none of its nodes, such as those of agents elsewhere: Slurm refuses a job with these."""
        return tuple(node for node in nodes if not self.nodes or node in self.nodes)


class BatchSystem(Protocol):
    """Calls may take as long as the site does. Each raises NoAnswer: then nothing is known, least of all an end."""

    @property
    def name(self) -> str:
        """`slurm` or `pbs`."""
        ...

    @property
    def most_tasks(self) -> int:
        """How many equal jobs it takes as one array; 1: it takes none. May be known better after `site`."""
        ...

    async def site(self) -> SiteFacts: ...

    async def submit(self, job: JobSpec) -> str:
        """The id of the job. Raises JobRefused; after NoAnswer it may exist all the same.

        Of an array that of the whole: its jobs are like others from then on, called `task_name` and `task_id`.
        """
        ...

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        """By name, in one look. One that is left out is unknown by an answer that would have shown it.

        Some releases leave out what they know: `look_up` is asked before a job counts as gone.
        """
        ...

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        """All jobs of this user whose names begin so."""
        ...

    async def look_up(self, job_id: str) -> JobReport | None:
        """One job, over or not, and how it ended where `poll` tells little of that.

        None: asked for this one alone, the scheduler says that it does not know it, and nobody else remembers it.
        """
        ...

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        """All jobs there that are not over, as the site lists them; an array is one until its tasks start."""
        ...

    async def cancel(self, job_ids: Collection[str]) -> None:
        """Those that are over are passed by."""
        ...

    async def signal(self, job_id: str, signal: str) -> None:
        """To every process of the job, its script included."""
        ...
