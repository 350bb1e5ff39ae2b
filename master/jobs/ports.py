"""What the job queue needs of others: of the roots that own jobs (experiments and interactive tasks), and of queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from master.allocations.machine import AllocationState
from master.core.actor import Actor
from master.core.jobs import JobChange, JobType
from master.core.scheduler.types import SchedulerSettings
from rm_backends.base import JobOrder, ResourceManager
from rm_backends.views import JobInPool, PoolView, QueueEntry
from windlass.base.errors import WindlassError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """One job that is not over."""

    job_id: str
    type: JobType
    entity_id: str
    """Experiment id or task id."""
    name: str
    owner_id: int
    owner_name: str
    workspace_id: int
    pool: str
    order: JobOrder
    progress: float | None = None
    """0 to 1; None for what has none."""
    last_release: str = ""
    """Why the scheduler last asked work of it to give its slots back; empty: never."""


class JobRoot(Protocol):
    """The root that a job belongs to."""

    def job_facts(self) -> JobFacts: ...

    def waiting_allocations(self) -> Sequence[str]:
        """Ids of its allocations that have no slots yet, oldest first."""
        ...

    async def change_job(self, change: JobChange, *, by: Actor) -> None:
        """Commit the change, then tell the resource managers.

        Raises InvalidArgument for what this kind of job cannot do, InvalidState when it is over, NotFound for an
        unknown pool, Unsatisfiable for a pool that could never run it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unqueued:
    workspace_id: int
    why: WindlassError


class JobSource(Protocol):
    """All live jobs of one kind."""

    def job_roots(self) -> Sequence[JobRoot]: ...

    def job_root(self, job_id: str) -> JobRoot | None: ...

    def unqueued(self, job_id: str) -> Unqueued | None:
        """Of a job that is there and queues nowhere."""
        ...


class PoolQueues(Protocol):
    """The queues of all pools."""

    def away(self, job_id: str) -> Sequence[str]:
        """The pools that work of a job has fallen back to, and waits or runs in."""
        ...

    def pools(self) -> Sequence[str]: ...

    def pools_view(self) -> Sequence[PoolView]: ...

    def scheduler(self, pool: str) -> SchedulerSettings | None:
        """None where the order of the queue is decided by others. Raises NotFound, as the next two."""
        ...

    def jobs_in(self, pool: str) -> Sequence[JobInPool]:
        """Those that wait or hold slots, in no order, summed up. Far less work than `queue`."""
        ...

    def queue(self, pool: str, job_id: str | None = None) -> Sequence[QueueEntry]:
        """What waits and what holds slots; of one job, or of all."""
        ...


class Allocations(Protocol):
    """The allocations of this master."""

    @property
    def rm(self) -> ResourceManager:
        """Knows why a request waits, and for how long."""
        ...

    def state(self, allocation_id: str) -> AllocationState:
        """Raises NotFound for one that is over."""
        ...
