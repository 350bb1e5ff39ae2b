"""The queue of one pool as users see it: its jobs in order, each with all it waits for and all it holds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from master.core.jobs import JobType
from master.core.reasons import Reason
from master.core.scheduler.queue_order import priority_of, queue_key
from master.core.scheduler.types import Job, SchedulerSettings, SchedulerType
from master.jobs.ports import JobFacts
from rm_backends.agents.views import QueueEntry, QueueState
from rm_backends.base import JobOrder

UNKNOWN_AHEAD = -1
"""Jobs ahead where the scheduler serves no order: every job gets slots by its share or turn."""
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
    entries: Sequence[QueueEntry], facts: Mapping[str, JobFacts], settings: SchedulerSettings
) -> list[QueuedJob]:
    """In queue order. Work that belongs to no job of a user is left out; `facts` are by job id."""
    by_job: dict[str, list[QueueEntry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.requested, entry.allocation_id)):
        if entry.job.id in facts:
            by_job.setdefault(entry.job.id, []).append(entry)
    ordered = sorted(by_job.values(), key=_order(settings))
    return [
        QueuedJob(
            facts=facts[own[0].job.id],
            entries=tuple(own),
            state=_state(own),
            position=number + 1,
            jobs_ahead=number if has_places(settings) else UNKNOWN_AHEAD,
            priority=priority_of(own[0].job, settings),
            is_preemptible=is_preemptible(facts[own[0].job.id].type, settings),
        )
        for number, own in enumerate(ordered)
    ]


def has_places(settings: SchedulerSettings) -> bool:
    """Whether jobs are served in an order that can be told, and changed by moving them."""
    return settings.type is SchedulerType.PRIORITY


def is_preemptible(type_: JobType, settings: SchedulerSettings) -> bool:
    """Whether the scheduler may ask a job of this kind to give its slots back."""
    if type_ is not JobType.EXPERIMENT:
        return False
    if settings.type is SchedulerType.PRIORITY:
        return settings.preemption
    return settings.type is SchedulerType.FAIR_SHARE


def as_job(order: JobOrder) -> Job:
    """A job as the scheduler sees it, whether or not it asks for anything now."""
    return Job(
        id=order.job_id,
        submitted=order.submitted.timestamp(),
        weight=order.weight,
        max_slots=order.max_slots,
        priority=order.priority,
        position=order.position,
    )


def _order(settings: SchedulerSettings) -> Callable[[Sequence[QueueEntry]], Any]:
    """Where the scheduler serves no order: what holds slots, then by age."""
    if has_places(settings):
        return lambda own: queue_key(own[0].job, settings)
    return lambda own: (_state(own) is QueueState.QUEUED, queue_key(own[0].job, settings))


def _state(entries: Sequence[QueueEntry]) -> QueueState:
    states = {entry.state for entry in entries}
    return next(state for state in _MOST_ADVANCED if state in states)
