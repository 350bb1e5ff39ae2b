"""The queue of one pool as users see it: its jobs in order, each with all it waits for and all it holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from master.core.jobs import JobType
from master.core.scheduler.queue_order import QueueKey, priority_of, queue_key
from master.core.scheduler.types import SchedulerSettings
from master.jobs.ports import JobFacts
from rm_backends.views import JobInPool, QueueState

UNKNOWN_AHEAD = -1
"""Jobs ahead where the scheduler serves no order: every job gets slots by its share or turn."""
_BY_AGE = SchedulerSettings()
"""How jobs are listed whose order others decide (`settings` is None)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """One job that waits or holds slots in a pool."""

    facts: JobFacts
    pool: str
    state: QueueState
    """The most advanced of its allocations."""
    requested_slots: int
    """Of those that hold slots, too."""
    allocated_slots: int
    first_waiting: str | None
    """The oldest of its allocations that wait; None if none does."""
    position: int
    """In the listing; the first is 1."""
    jobs_ahead: int
    """Earlier ones in the order of the scheduler, running ones too; -1: it has none."""
    priority: int
    is_preemptible: bool


def jobs_in_queue(
    pool: str,
    jobs: Iterable[JobInPool],
    facts: Mapping[str, JobFacts],
    settings: SchedulerSettings | None,
) -> list[QueuedJob]:
    """In queue order. Work that belongs to no job of a user is left out; `facts` are by job id."""
    ordered = sorted(
        (one for one in jobs if one.job.id in facts), key=lambda one: _place(one, settings)
    )
    return [
        _queued_job(pool, one, facts[one.job.id], earlier, settings)
        for earlier, one in enumerate(ordered)
    ]


def job_in_queue(
    pool: str,
    own: JobInPool,
    facts: JobFacts,
    everybody: Iterable[JobInPool],
    settings: SchedulerSettings | None,
) -> QueuedJob:
    """What `jobs_in_queue` would say of one job; `everybody`: the jobs of users in the queue."""
    mine = _place(own, settings)
    earlier = sum(_place(one, settings) < mine for one in everybody)
    return _queued_job(pool, own, facts, earlier, settings)


def has_places(settings: SchedulerSettings | None) -> bool:
    """Whether jobs are served in an order that can be told, and changed by moving them."""
    return settings is not None and settings.type == "priority"


def is_preemptible(type_: JobType, settings: SchedulerSettings | None) -> bool:
    """Whether the scheduler may ask a job of this kind to give its slots back."""
    if type_ is not JobType.EXPERIMENT or settings is None:
        return False
    if settings.type == "priority":
        return bool(settings.preemption)
    return settings.type == "fair_share"


def _queued_job(
    pool: str,
    own: JobInPool,
    facts: JobFacts,
    earlier: int,
    settings: SchedulerSettings | None,
) -> QueuedJob:
    """`earlier`: how many jobs are listed before it."""
    return QueuedJob(
        facts=facts,
        pool=pool,
        state=own.state,
        requested_slots=own.requested_slots,
        allocated_slots=own.allocated_slots,
        first_waiting=own.first_waiting,
        position=earlier + 1,
        jobs_ahead=earlier if has_places(settings) else UNKNOWN_AHEAD,
        priority=priority_of(own.job, settings or _BY_AGE),
        is_preemptible=is_preemptible(facts.type, settings),
    )


def _place(one: JobInPool, settings: SchedulerSettings | None) -> tuple[bool, QueueKey]:
    """Where the scheduler serves no order: what holds slots, then by age."""
    return not (has_places(settings) or one.holds), queue_key(one.job, settings or _BY_AGE)
