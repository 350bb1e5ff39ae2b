"""What one allocation has in a pool: a place in the queue, or parts (containers) on agents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from master.core.scheduler.end_times import least_s
from master.core.scheduler.types import LEAVE_S, Request, Running
from rm_backends.base import (
    AllocationHint,
    AllocationRequest,
    Container,
    ContainerPhase,
    LaunchSpec,
)

PHASE_ORDER: dict[ContainerPhase, int] = {phase: n for n, phase in enumerate(ContainerPhase)}


class Stage(StrEnum):
    """Only ever moves forward; an entry is forgotten after its last part ended."""

    WAITING = "waiting"
    RESERVED = "reserved"
    STARTED = "started"


LEAD_FACTOR = 2.0
"""Work is asked so many times earlier than leaving took it: the next checkpoint may be slower."""


@dataclass(slots=True)
class Part:
    """One container of a grant. It holds its slots until `ended`."""

    container: Container
    phase: ContainerPhase = ContainerPhase.ASSIGNED
    confirmed: bool = False
    """The agent has told of it: if the agent no longer lists it, it is not started a second time."""
    ending: bool = False
    """Its end is on the way to the master."""
    lost: bool = False
    """Its agent is gone: nothing of it is expected back."""
    ended: bool = False
    """The master has committed its end."""
    stopped_because: str | None = None
    """An operator took the agent away from it: its exit is the agent's failure, not the task's."""
    closing: int = 0
    """How many of its slots were taken out of service: they do not come back when it ends."""

    @property
    def is_live(self) -> bool:
        """It should be on its agent."""
        return not (self.ending or self.lost or self.ended)


@dataclass(slots=True)
class PoolEntry:
    """One allocation in one pool. Mutable: owned by the pool, changed only on its event loop."""

    request: AllocationRequest
    stage: Stage = Stage.WAITING
    parts: dict[str, Part] = field(default_factory=dict)
    granted_at: float = 0.0
    backfilled: bool = False
    releasing: bool = False
    leave_by: datetime | None = None
    """It was told that an agent of its goes then."""
    grant_committed: bool = False
    """The master counts on the reservation: it must hear if it is gone."""
    killed: bool = False
    lost: bool = False
    lost_committed: bool = False
    refused: bool = False
    """The master is told that it waits for nothing."""
    spec: LaunchSpec | None = None
    last_checkpoint: float | None = None
    expected_end: float | None = None
    """As its owner told; else its job's usual run time counts."""
    as_request: Request = field(init=False)
    least_s: float = field(init=False)
    """How long an agent must last at the least to be of use to it."""
    _running: Running | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        request = self.request
        timeout = request.preemption_timeout_s
        self.as_request = Request(
            id=request.allocation_id,
            job_id=request.job.job_id,
            slots=request.slots,
            requested=request.requested.timestamp(),
            single_agent=request.single_agent,
            preemptible=request.preemptible,
            blocked_agents=request.blocked_agents,
            requires=request.requires,
            leave_s=min(LEAVE_S, LEAVE_S if timeout is None else timeout),
            leave_least_s=_least_lead_s(request.leave_took_s, timeout),
        )
        self.least_s = least_s(self.as_request)

    @property
    def id(self) -> str:
        return self.request.allocation_id

    def holding(self) -> Iterator[Part]:
        """Parts that hold slots."""
        return (part for part in self.parts.values() if not part.ended)

    def live(self) -> Iterator[Part]:
        """Parts that should be on their agents."""
        return (part for part in self.parts.values() if part.is_live)

    def note(self, note: AllocationHint) -> None:
        if note.last_checkpoint is not None:
            self.last_checkpoint = note.last_checkpoint.timestamp()
        if note.expected_end is not None:
            self.expected_end = note.expected_end.timestamp()
        self.touched()

    def with_run_time(self, run_time_s: float | None) -> Request:
        """The request as the scheduler sees it; `run_time_s` is how long its job's runs take."""
        if self.as_request.expected_run_s != run_time_s:
            self.as_request = replace(self.as_request, expected_run_s=run_time_s)
            self.least_s = least_s(self.as_request)
        return self.as_request

    def touched(self) -> None:
        """What `as_running` tells has changed."""
        self._running = None

    def as_running(self, run_time_s: float | None = None) -> Running | None:
        """What the scheduler sees of it; None when all it holds is on agents that are gone.

        Kept between decisions: thousands of these do not change from one to the next.
        """
        if self.as_request.expected_run_s != run_time_s:
            self.with_run_time(run_time_s)
            self._running = None
        if self._running is None:
            placement = {
                part.container.agent_id: len(part.container.slot_ids)
                for part in self.holding()
                if not part.lost
            }
            if not placement:
                return None
            self._running = Running(
                request=self.as_request,
                placement=placement,
                started=self.granted_at,
                releasing=self.releasing or self.killed or self.lost,
                last_checkpoint=self.last_checkpoint,
                expected_end=self._expected_end(run_time_s),
                closing={
                    part.container.agent_id: part.closing
                    for part in self.holding()
                    if part.closing and not part.lost
                },
            )
        return self._running

    def _expected_end(self, run_time_s: float | None) -> float | None:
        if self.expected_end is not None:
            return self.expected_end
        return None if run_time_s is None else self.granted_at + run_time_s


def _least_lead_s(took_s: float | None, timeout_s: float | None) -> float:
    least = LEAD_FACTOR * (took_s or 0.0)
    return least if timeout_s is None else min(least, timeout_s)
