"""Jobs: what queues. Here a job is an experiment with all its waiting and running allocations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from master.api.wire.values import epoch, finite
from master.core.scheduler.types import SchedulerSettings
from master.experiments.live import LiveExperiment
from rm_backends.agents.views import QueueEntry, QueueState


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job of a pool's queue; `ahead` counts the jobs before it."""

    job_id: str
    ahead: int
    state: str
    entries: tuple[QueueEntry, ...]


def jobs_of(queue: Sequence[QueueEntry]) -> list[QueuedJob]:
    """The jobs of a pool: those that hold slots first, then by age."""
    by_job: dict[str, list[QueueEntry]] = {}
    for entry in queue:
        by_job.setdefault(entry.job.id, []).append(entry)
    ordered = sorted(
        by_job.items(),
        key=lambda item: (_state(item[1]) == "STATE_QUEUED", item[1][0].job.submitted, item[0]),
    )
    return [
        QueuedJob(job_id, ahead, _state(entries), tuple(entries))
        for ahead, (job_id, entries) in enumerate(ordered)
    ]


def _state(entries: Sequence[QueueEntry]) -> str:
    states = {entry.state for entry in entries}
    if QueueState.SCHEDULED in states:
        return "STATE_SCHEDULED"
    if QueueState.SCHEDULED_BACKFILLED in states:
        return "STATE_SCHEDULED_BACKFILLED"
    return "STATE_QUEUED"


def summary(job: QueuedJob) -> dict[str, Any]:
    return {"state": job.state, "jobsAhead": job.ahead}


def job(
    queued: QueuedJob, live: LiveExperiment, settings: SchedulerSettings, workspace_id: int
) -> dict[str, Any]:
    first = queued.entries[0]
    return {
        "jobId": queued.job_id,
        "type": "TYPE_EXPERIMENT",
        "name": live.state.name,
        "entityId": str(live.state.id),
        "username": live.owner_name,
        "userId": live.state.owner_id,
        "resourcePool": first.pool,
        "submissionTime": epoch(first.job.submitted),
        "isPreemptible": all(entry.preemptible for entry in queued.entries),
        "priority": settings.default_priority if first.job.priority is None else first.job.priority,
        "weight": first.job.weight,
        "requestedSlots": sum(entry.slots for entry in queued.entries),
        "allocatedSlots": sum(sum(entry.placement.values()) for entry in queued.entries),
        "progress": finite(live.state.progress),
        "workspaceId": workspace_id,
        "summary": summary(queued),
    }
