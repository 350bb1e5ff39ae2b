"""What screens and the API show of pools, agents and queues: frozen pictures of one moment, alike for all backends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from agent_bootstrap.protocol import IsolationKind
from master.core.reasons import Reason
from master.core.scheduler.types import Job, SchedulerSettings
from provisioner.types import Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """One slot of one agent."""

    id: int
    kind: str
    brand: str = ""
    uuid: str = ""
    enabled: bool = True
    draining: bool = False
    container_id: str | None = None
    allocation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """One agent, or one node of somebody else's cluster."""

    id: str
    pool: str
    address: str
    registered: datetime
    slots: tuple[SlotView, ...]
    containers: Mapping[str, str] = field(default_factory=dict)
    """container id -> allocation id"""
    enabled: bool = True
    draining: bool = False
    connected: bool = True
    version: str = ""
    instance_id: str | None = None
    notes: tuple[str, ...] = ()
    """What an operator should know: isolation fallback, disk nearly full, ..."""
    ends_at: datetime | None = None
    """Its time is over then: that of its batch job, as far as it is known."""
    leaves_at: datetime | None = None
    """Somebody on the machine said that it goes then: it gets no more work."""
    labels: tuple[str, ...] = ()
    """What whoever started the agent says of it, e.g. rack=a12."""
    isolation: IsolationKind = IsolationKind.UNKNOWN
    container_runtime: str = ""
    """What keeps tasks apart there."""
    one_user: bool = True
    """The agent is not root: all tasks run as its own user, and may reach what that user may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalView:
    """An agent that was not taken. What it says of itself is not verified."""

    agent_id: str
    pool: str
    address: str
    reason: str
    first: datetime
    last: datetime
    times: int = 1
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """What a machine says when its agent joins."""

    agent_id: str
    version: str
    protocol: int
    pool: str = ""
    """Empty: that of its join token."""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """What the master tells an agent about that agent."""

    agent_id: str
    pool: str
    member: bool = True
    """False: it has left."""
    connected: bool = False
    slots: int = 0
    containers: int = 0
    """How many run there."""
    refused: str = ""
    """Why its last connection was refused, if it was and has not been taken since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentKey:
    """What lists of agents are ordered by. Far less work than a view of each."""

    id: str
    registered: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """One pool. Agents that are away are not counted; slots are those in service, and those in use."""

    name: str
    description: str
    type: str
    """`static`, or the type of its provider or batch system."""
    dynamic: bool
    """Its agents come and go by themselves."""
    agents: int
    slots: int
    slots_used: int
    aux_running: int
    aux_capacity: int
    waiting: int
    running: int
    slot_kind: str = ""
    """Of its first slot; empty if it has none."""
    slot_brand: str = ""
    slots_per_agent: int | None = None
    """None if they differ, and without agents."""
    settings: SchedulerSettings | None
    """None: its requests wait in a queue that is not ours, in an order that others decide."""


class QueueState(StrEnum):
    QUEUED = "queued"
    SCHEDULED = "scheduled"
    SCHEDULED_BACKFILLED = "scheduled_backfilled"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """One allocation in a pool's queue, waiting or holding slots."""

    allocation_id: str
    task_id: str
    name: str
    pool: str
    job: Job
    slots: int
    requested: datetime
    preemptible: bool
    state: QueueState
    placement: Mapping[str, int]
    """agent id -> slots held there now."""
    releasing: bool = False
    reason: Reason | None = None
    """Why it waits or is not running yet; None once it was started."""


MOST_ADVANCED_FIRST = (QueueState.SCHEDULED, QueueState.SCHEDULED_BACKFILLED, QueueState.QUEUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInPool:
    """All that one job waits for and holds in a pool, summed up."""

    job: Job
    state: QueueState
    """The most advanced of its allocations."""
    requested_slots: int
    """Of those that hold slots, too."""
    allocated_slots: int
    first_waiting: str | None
    """The oldest of its allocations that wait; None if none does."""

    @property
    def holds(self) -> bool:
        """One of its allocations at least has its slots."""
        return self.state is not QueueState.QUEUED


def jobs_of(entries: Iterable[QueueEntry]) -> list[JobInPool]:
    """The jobs of these entries, for backends that have few of them."""
    by_job: dict[str, list[QueueEntry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.requested, entry.allocation_id)):
        by_job.setdefault(entry.job.id, []).append(entry)
    return [_sum_up(own) for own in by_job.values()]


def _sum_up(own: Sequence[QueueEntry]) -> JobInPool:
    states = {entry.state for entry in own}
    waiting = (entry.allocation_id for entry in own if entry.state is QueueState.QUEUED)
    return JobInPool(
        job=own[0].job,
        state=next(state for state in MOST_ADVANCED_FIRST if state in states),
        requested_slots=sum(entry.slots for entry in own),
        allocated_slots=sum(sum(entry.placement.values()) for entry in own),
        first_waiting=next(waiting, None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What would become of a request that came now."""

    starts: bool = False
    """On free slots."""
    reason: Reason | None = None
    """Why it would wait; None: it starts."""
    gang: Gang | None = None
    """What machines would be launched for; None: for this it would not be."""
