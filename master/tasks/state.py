"""The state of one interactive task: frozen, complete, enough to go on after a restart.

    ACTIVE --> STOPPING (a kill was asked for) --> TERMINATED

It runs once. Only an allocation that ended before a process of the user's began is followed by another one. What can
be paused (`TaskKind.can_pause`) is followed by another one also when it had to leave, and has three phases more:

    ACTIVE --> PAUSING (asked to leave) --> PAUSED --> ACTIVE
    PAUSING --> RESUMING (unpaused, and has not left yet) --> ACTIVE with the next allocation
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from master.allocations.identities import TaskOwner
from master.allocations.machine import AllocationState
from master.allocations.start_failures import StartFailure
from master.core.expconf.interactive import TaskConfig
from master.core.jobs import JobType
from master.tasks.kinds import KINDS, TaskKind
from windlass.base.formats.json_types import JsonMapping

NO_PAUSE = "no_pause"
"""Of the details of what could be paused otherwise."""


class TaskPhase(StrEnum):
    """What users see of an ACTIVE one is the phase of its allocation."""

    ACTIVE = "ACTIVE"
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    RESUMING = "RESUMING"
    STOPPING = "STOPPING"
    TERMINATED = "TERMINATED"


class Ending(StrEnum):
    """How a task ended."""

    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    """By a kill."""
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    type: JobType
    id: str
    """Also the id of its task."""
    job_id: str
    owner_id: int
    workspace_id: int
    config: TaskConfig
    """Its `resources.priority` is the priority in effect."""
    pool: str
    created_at: datetime
    context: str | None = None
    """Blob id of the files that came with it."""
    details: JsonMapping = field(default_factory=dict)
    """What was made for it, or found out, when it was launched: the keys of a shell."""
    position: Decimal | None = None
    """Where its job was moved to in the queue (`rm_backends.base.JobOrder.position`)."""
    phase: TaskPhase = TaskPhase.ACTIVE
    not_before: datetime | None = None
    """After an allocation that could not be started: no new one before this. Not stored: a restart tries at once."""
    start_failure: StartFailure | None = None
    """Why a node refused its last allocations. Not stored."""
    active_at: datetime | None = None
    """The last activity that is written down, or when it began to run; None before."""
    ran_before: int = 0
    """Allocations before the last one that began to run, or the last pause: those after it could not be started.
    Not stored."""
    ending: Ending | None = None
    """None: it is not over, or it ended under a release that did not write this."""
    exit_status: str = ""
    """How it ended, for people; empty until then."""
    ended_at: datetime | None = None
    allocation: AllocationState | None = None
    """The current allocation, or the last one."""

    @property
    def owner(self) -> TaskOwner:
        return TaskOwner(self.owner_id, self.workspace_id)

    @property
    def kind(self) -> TaskKind:
        return KINDS[self.type]

    @property
    def experiment_id(self) -> int | None:
        """None for what users start: it belongs to no experiment."""
        return None if self.kind.interactive else int(self.id.partition(".")[0])

    @property
    def idle_timeout(self) -> timedelta | None:
        return self.kind.idle_timeout(self.config)

    @property
    def may_leave(self) -> bool:
        """It may be paused, and asked for its slots: it goes on later."""
        return self.kind.can_pause and not self.details.get(NO_PAUSE)

    @property
    def name(self) -> str:
        """For people, in errors."""
        return f"{self.kind.noun} {self.id}"

    @property
    def open_allocation(self) -> AllocationState | None:
        allocation = self.allocation
        return allocation if allocation is not None and allocation.is_open else None

    @property
    def is_ready(self) -> bool:
        """It runs, and serves its users: `TaskKind.readiness`."""
        allocation = self.open_allocation
        return allocation is not None and allocation.ready

    @property
    def is_over(self) -> bool:
        return self.phase is TaskPhase.TERMINATED
