"""What screens and the API show of pools, agents and queues: frozen pictures of one moment, alike for all backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from master.core.reasons import Reason
from master.core.scheduler.types import Job, SchedulerSettings


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
    labels: tuple[str, ...] = ()
    """What whoever started the agent says of it, e.g. rack=a12."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInPool:
    """One job that waits or holds slots in a pool."""

    job: Job
    holds: bool
    """One of its allocations at least has its slots."""
