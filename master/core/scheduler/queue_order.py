"""The order in which jobs queue, as policies serve them and as users see it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from operator import attrgetter
from typing import TypeAlias

from master.core.scheduler.types import Job, PoolState, Request, SchedulerSettings

QueueKey: TypeAlias = tuple[int, Decimal | float, float, str]


by_age = attrgetter("requested", "id")
"""Sort key of requests: the oldest first."""


def priority_of(job: Job, settings: SchedulerSettings) -> int:
    """1 to 99, smaller is served first. A job that names none has the pool's default."""
    return settings.usual_priority if job.priority is None else job.priority


def queue_key(job: Job, settings: SchedulerSettings) -> QueueKey:
    """Sort key: smaller is earlier; no two jobs have the same.

    Under `priority`: priority, then position, which is where it came unless it was moved, then submission, then id.
    Other policies know no places in the queue: submission, then id.
    """
    if settings.type != "priority":
        return (0, 0.0, job.submitted, job.id)
    place = job.submitted if job.position is None else job.position
    return (priority_of(job, settings), place, job.submitted, job.id)


def in_queue_order(pool: PoolState, requests: Iterable[Request]) -> list[Request]:
    """Requests by job as jobs queue, those of one job by age. A job nobody introduced came with its request."""
    by_job: dict[str, list[Request]] = {}
    for request in requests:
        by_job.setdefault(request.job_id, []).append(request)

    def place(job_id: str) -> QueueKey:
        job = pool.jobs.get(job_id)
        return queue_key(
            job or Job(id=job_id, submitted=by_job[job_id][0].requested), pool.settings
        )

    ordered: list[Request] = []
    for job_id in sorted(by_job, key=place):
        ordered += sorted(by_job[job_id], key=by_age)
    return ordered
