"""Jobs, as they are shown."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from master.api.enums import JobState, JobType
from master.api.paging import Pagination
from master.api.values import Number, Timestamp, WaitingReason


class JobSummary(TypedDict):
    state: JobState
    jobsAhead: int


class Job(TypedDict):
    """One that asks for nothing now has no place and no slots."""

    jobId: str
    type: JobType
    name: str
    entityId: str
    username: str
    userId: int
    resourcePool: str
    submissionTime: Timestamp
    priority: int | None
    weight: float
    maxSlots: int | None
    progress: Number | None
    workspaceId: int
    summary: JobSummary | None
    isPreemptible: NotRequired[bool]
    requestedSlots: NotRequired[int]
    allocatedSlots: NotRequired[int]
    position: NotRequired[int]
    """Our own: its place in the listing."""
    waitingReason: NotRequired[str | None]
    """Our own: why it waits."""


class JobReply(TypedDict):
    job: Job


class JobsReply(TypedDict):
    jobs: list[Job]
    pagination: Pagination


class FullJob(TypedDict):
    full: Job


class LimitedJob(TypedDict):
    """Of a job that the caller may not see: what it takes of the pool."""

    jobId: str
    type: JobType
    resourcePool: str
    priority: int | None
    weight: float
    workspaceId: int
    progress: Number | None
    summary: JobSummary | None
    isPreemptible: bool
    requestedSlots: int
    allocatedSlots: int


class HiddenJob(TypedDict):
    limited: LimitedJob


class FullJobsReply(TypedDict):
    jobs: list[FullJob | HiddenJob]
    pagination: Pagination


class QueueCounts(TypedDict):
    queuedCount: int
    scheduledCount: int


class QueueAggregate(TypedDict):
    periodStart: str
    seconds: float


class PoolStatistics(TypedDict):
    resourcePool: str
    stats: QueueCounts
    aggregates: list[QueueAggregate]


class QueueStatisticsReply(TypedDict):
    results: list[PoolStatistics]


class WaitingAllocation(TypedDict):
    allocationId: str
    name: str
    slots: int | None
    since: Timestamp | None
    reason: WaitingReason | None
    advice: str
    expectedStart: Timestamp | None


class HoldingAllocation(TypedDict):
    allocationId: str
    name: str
    slots: int
    since: Timestamp | None
    agents: dict[str, int]
    """Slots held, by agent."""
    releasing: bool
    resourcePool: str
    """Where the slots are."""
    fellBack: str | None
    """Why that is not the pool of its job; null: it is."""
    state: str
    """STARTING, PULLING (its image is pulled or built) or RUNNING; QUEUED: it is over."""


class ExplanationReply(TypedDict):
    job: Job
    text: str
    waiting: list[WaitingAllocation]
    waitingTotal: int
    holding: list[HoldingAllocation]
    lastRelease: str | None
