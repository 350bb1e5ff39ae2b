"""The queue of one pool as users see it: its jobs in order, each with all it waits for and all it holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from master.core.jobs import JobType
from master.core.reasons import Reason
from master.core.scheduler.queue_order import QueueKey, priority_of, queue_key
from master.core.scheduler.types import SchedulerSettings, SchedulerType
from master.jobs.ports import JobFacts
from rm_backends.views import JobInPool, QueueEntry, QueueState

UNKNOWN_AHEAD = -1
"""Jobs ahead where the scheduler serves no order: every job gets slots by its share or turn."""
_BY_AGE = SchedulerSettings()
"""How jobs are listed whose order others decide (`settings` is None)."""
_MOST_ADVANCED = (QueueState.SCHEDULED, QueueState.SCHEDULED_BACKFILLED, QueueState.QUEUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """One job that waits or holds slots in a pool."""

    facts: JobFacts
    entries: tuple[QueueEntry, ...]
    """Its allocations there, oldest first."""
    state: QueueState
    """The most advanced of its allocations."""
    position: int
    """In the listing; the first is 1."""
    jobs_ahead: int
    """Earlier ones in the order of the scheduler, running ones too; -1: it has none."""
    priority: int
    is_preemptible: bool

    @property
    def pool(self) -> str:
        return self.entries[0].pool

    @property
    def requested_slots(self) -> int:
        return sum(entry.slots for entry in self.entries)

    @property
    def allocated_slots(self) -> int:
        return sum(sum(entry.placement.values()) for entry in self.entries)

    @property
    def waiting_reason(self) -> Reason | None:
        """Of the first of its allocations that wait; None if none does."""
        waiting = (entry for entry in self.entries if entry.state is QueueState.QUEUED)
        return next((entry.reason for entry in waiting), None)


def jobs_in_queue(
    entries: Sequence[QueueEntry], facts: Mapping[str, JobFacts], settings: SchedulerSettings | None
) -> list[QueuedJob]:
    """In queue order. Work that belongs to no job of a user is left out; `facts` are by job id."""
    by_job: dict[str, list[QueueEntry]] = {}
    for entry in _by_age(entries):
        if entry.job.id in facts:
            by_job.setdefault(entry.job.id, []).append(entry)
    ordered = sorted(by_job.values(), key=lambda own: _place(_as_one(own), settings))
    return [
        _queued_job(own, facts[own[0].job.id], number, settings)
        for number, own in enumerate(ordered)
    ]


def job_in_queue(
    own: Sequence[QueueEntry],
    facts: JobFacts,
    everybody: Iterable[JobInPool],
    settings: SchedulerSettings | None,
) -> QueuedJob:
    """What `jobs_in_queue` would say of the one job with these entries; `everybody`: the jobs in the queue."""
    mine = _place(_as_one(own), settings)
    earlier = sum(_place(one, settings) < mine for one in everybody)
    return _queued_job(_by_age(own), facts, earlier, settings)


def has_places(settings: SchedulerSettings | None) -> bool:
    """Whether jobs are served in an order that can be told, and changed by moving them."""
    return settings is not None and settings.type is SchedulerType.PRIORITY


def is_preemptible(type_: JobType, settings: SchedulerSettings | None) -> bool:
    """Whether the scheduler may ask a job of this kind to give its slots back."""
    if type_ is not JobType.EXPERIMENT or settings is None:
        return False
    if settings.type is SchedulerType.PRIORITY:
        return settings.preemption
    return settings.type is SchedulerType.FAIR_SHARE


def _queued_job(
    own: Sequence[QueueEntry], facts: JobFacts, earlier: int, settings: SchedulerSettings | None
) -> QueuedJob:
    """`own` by age; `earlier`: how many jobs are listed before it."""
    return QueuedJob(
        facts=facts,
        entries=tuple(own),
        state=_state(own),
        position=earlier + 1,
        jobs_ahead=earlier if has_places(settings) else UNKNOWN_AHEAD,
        priority=priority_of(own[0].job, settings or _BY_AGE),
        is_preemptible=is_preemptible(facts.type, settings),
    )


def _by_age(entries: Iterable[QueueEntry]) -> list[QueueEntry]:
    return sorted(entries, key=lambda entry: (entry.requested, entry.allocation_id))


def _as_one(own: Sequence[QueueEntry]) -> JobInPool:
    return JobInPool(job=own[0].job, holds=_state(own) is not QueueState.QUEUED)


def _place(one: JobInPool, settings: SchedulerSettings | None) -> tuple[bool, QueueKey]:
    """Where the scheduler serves no order: what holds slots, then by age."""
    return not (has_places(settings) or one.holds), queue_key(one.job, settings or _BY_AGE)


def _state(entries: Sequence[QueueEntry]) -> QueueState:
    states = {entry.state for entry in entries}
    return next(state for state in _MOST_ADVANCED if state in states)
