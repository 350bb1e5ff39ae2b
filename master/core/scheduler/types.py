"""What the scheduler sees and what it answers. One snapshot of one pool; all frozen.

Slots are counted here; which device of an agent is used is the pool's choice when it applies a decision.
Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

from pydantic import model_validator

from master.core.expconf.models.durations import DurationOrOff, NonNegativeDuration
from master.core.expconf.models.schema import DEFAULT_PRIORITY, Priority, Section
from master.core.machines import NO_FACTS, NO_REQUIREMENTS, MachineFacts, Requirements
from master.core.reasons import Reason

LEAVE_S = 300.0
"""How long before the end of its agent work is asked to leave at the most, unless leaving took it longer before."""


SchedulerType: TypeAlias = Literal["fair_share", "priority", "round_robin"]
FittingPolicy: TypeAlias = Literal["best", "worst"]


class SchedulerSettings(Section):
    """Who starts first, and where."""

    type: SchedulerType = "fair_share"
    """How the slots of a pool are divided."""
    fitting_policy: FittingPolicy = "best"
    """best: fill agents that are in use; worst: spread over agents."""
    allow_heterogeneous_fits: bool = False
    """Whether a gang may span agents of different sizes."""
    preemption: bool | None = None
    """Only for `priority`; fair_share always preempts."""
    default_priority: Priority | None = None
    """Only for `priority`: of jobs that name none. None: 42."""
    preempt_after: NonNegativeDuration = timedelta(minutes=10)
    """Our own key: running work is not disturbed for what new capacity can serve within this time."""
    reserve_after: DurationOrOff = timedelta(minutes=30)
    """Our own key: a gang that has waited this long gets a reservation. `off`, false or null: never."""

    @model_validator(mode="after")
    def _priority_only(self) -> SchedulerSettings:
        for key in ("preemption", "default_priority"):
            if self.type != "priority" and getattr(self, key) is not None:
                raise ValueError(f"{key} belongs to type priority, not to {self.type}")
        return self

    @classmethod
    def _drops_null(cls, key: str) -> bool:
        return key != "reserve_after" and super()._drops_null(key)

    @property
    def usual_priority(self) -> int:
        """Of jobs that name none."""
        return self.default_priority or DEFAULT_PRIORITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What shares are given to: an experiment, or one interactive task."""

    id: str
    submitted: float
    weight: float = 1.0
    max_slots: int | None = None
    priority: int | None = None
    position: Decimal | None = None
    """Where it was moved to in the queue of its priority, on the scale of `submitted`; None: where it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One allocation that wants slots, or has them. A gang: all or nothing."""

    id: str
    """The allocation id."""
    job_id: str
    slots: int
    """0 means a zero-slot (aux) task."""
    requested: float
    single_agent: bool = False
    preemptible: bool = True
    blocked_agents: frozenset[str] = frozenset()
    expected_run_s: float | None = None
    """How long it will probably hold its slots, known or learned; None: nobody knows."""
    leave_s: float = LEAVE_S
    """How long before the end of its agent it is asked to leave, if that gives time enough (`end_times.lead_s`)."""
    leave_least_s: float = 0.0
    """How long before at the least: learned from how long leaving took it."""
    requires: Requirements = NO_REQUIREMENTS
    """What it asks of its agents beside slots."""


Placement = Mapping[str, int]
"""agent id -> number of slots; a zero-slot task has one agent with 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A request that holds slots: granted, starting, running, or on its way out (`releasing`)."""

    request: Request
    placement: Placement
    started: float
    releasing: bool = False
    """It was already asked to stop: its slots come back by themselves."""
    last_checkpoint: float | None = None
    expected_end: float | None = None
    """When it will probably give its slots back by itself; None: nobody knows."""
    closing: Placement = field(default_factory=dict)
    """Of its slots those that are being taken out of service: they do not come back when it leaves."""

    @property
    def returning(self) -> Placement:
        """Of its slots those that come back when it leaves."""
        closing = self.closing
        if not closing:
            return self.placement
        return {
            agent: slots - closing.get(agent, 0)
            for agent, slots in self.placement.items()
            if slots > closing.get(agent, 0)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """One agent as capacity; what runs on it is told by `PoolState.running`.

    `slots` counts enabled slots, and those that were disabled while in use for as long as they are (`Running.closing`).
    """

    id: str
    slots: int
    aux_places: int = 100
    """How many zero-slot tasks it may hold at once."""
    slot_type: str = ""
    """cuda, rocm or cpu: the slots of one gang are all of one type."""
    schedulable: bool = True
    """False while disabled, draining, cordoned or reconnecting: it keeps its work and gets no more."""
    ends_at: float | None = None
    """When it goes (a walltime, a capacity block); None: nobody said so."""
    facts: MachineFacts = NO_FACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchable:
    """Capacity that is not there yet: instances booting (`booting`) or that the provisioner could launch now.

    Empty when limits, budget or blocked offers close that way.
    """

    slots_per_agent: int
    count: int
    ready_in_s: float
    booting: bool = False
    ends_at: float | None = None
    facts: MachineFacts = NO_FACTS


class Kept(NamedTuple):
    """Slots of one agent that are kept for reservations."""

    free: int
    """Of those that are free."""
    returning: int
    """Of those that others give back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """Everything `decide` may look at."""

    now: float
    settings: SchedulerSettings
    agents: tuple[AgentState, ...] = ()
    jobs: Mapping[str, Job] = field(default_factory=dict)
    waiting: tuple[Request, ...] = ()
    running: tuple[Running, ...] = ()
    launchable: tuple[Launchable, ...] = ()
    leases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Request id -> all agents of the batch job that was submitted for it, there or not."""
    kept: Mapping[str, Kept] = field(default_factory=dict)
    """By agent: a policy gives nothing of this to anybody. Filled by the starvation guard only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Give these slots to this request now."""

    request_id: str
    placement: Placement
    backfilled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Ask this running request to checkpoint and leave."""

    request_id: str
    why: str
    for_requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why a request is not started. `needs_capacity` marks it as demand for the provisioner; never both."""

    reason: Reason
    needs_capacity: bool = False
    in_turn: bool = False
    """Only room is missing: it would start now if it fitted, or if no work that cannot be preempted were in its way."""
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Every waiting request is in `start` or in `waiting`, never in both, never in neither."""

    start: tuple[Start, ...] = ()
    release: tuple[Release, ...] = ()
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
