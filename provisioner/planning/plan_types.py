"""What planning reads and what it answers, as frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from master.core.reasons import Reason
from master.core.scheduler.types import Running
from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind, Unseen
from provisioner.money.budgets import NO_BUDGETS, ClusterBudget, Spending
from provisioner.types import Offer, OfferKey, PoolAvailability, PoolDemand, PoolSettings, Scope


class MachinePhase(StrEnum):
    COMING = "coming"
    """Asked for or booting: capacity soon."""
    UP = "up"
    """Its agent is a node of the pool."""
    OUT = "out"
    """Counts against limits, is no capacity: lost, orphaned, being ended."""


class Machine(NamedTuple):
    """One instance, or one that was asked for, as planning sees it.

    A tuple, because each pass makes one of every machine: frozen dataclasses take three times as long.
    """

    name: str
    offer: Offer
    phase: MachinePhase
    group: str = ""
    """The intent it belongs to."""
    age_s: float = 0.0
    ready_in_s: float = 0.0
    asking: bool = False
    """The provider has not answered yet."""
    unanswered_s: float = 0.0
    """How long ago the provider was asked for it, if it has not answered yet. A restart begins anew."""
    queued: bool = False
    """The provider has accepted it and delivers later: nothing exists, and nothing is billed."""
    unmade: bool = False
    """The provider has certainly not made it, nor accepted it: the call for it can be left out."""
    starts_at: float | None = None
    """When the provider expects to deliver it."""
    note: str = ""
    """What its provider says about it."""
    trouble: BlockKind | None = None
    """Of what kind that is, if the provider did not answer the call for it."""
    next_try_at: float | None = None
    """When that call is made again; None: now."""
    idle_s: float | None = None
    """How long it has been connected without work; None while it has any, or is not up."""
    ends_at: float | None = None
    """When it will end; of one that is coming: as its offer says."""
    claims: tuple[str, ...] = ()
    """Gangs it was bought for that may still count on it."""
    fingerprint: str = ""
    """Of what its launch was made of; empty: unknown."""
    moving: bool = False
    """It was decided to move its work away."""
    replaces: str = ""
    """The machine in whose place it was launched."""
    in_pool: bool = True
    """False: it costs money, and is no machine of the pool: one that becomes an image."""
    replacement_tried_s: float | None = None
    """How long ago another was last launched in its place."""
    stopping: bool = False
    """It is being stopped."""
    stops: int = 0
    """How often it was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedMachine:
    """A machine that is stopped: nothing but a disk until it is started."""

    name: str
    offer: Offer
    """As it was launched."""
    stopped_s: float
    """For how long."""
    fingerprint: str = ""
    """Of what its launch was made of; empty: unknown."""
    may_start: bool = True
    """False while its agent seems to be connected still, or nobody knows what exists there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInput:
    settings: PoolSettings
    offers: tuple[Offer, ...]
    demand: PoolDemand
    machines: tuple[Machine, ...] = ()
    stopped: tuple[StoppedMachine, ...] = ()
    """Not among `machines`: they count for nothing but their disks."""
    gaps_s: tuple[float, ...] = ()
    """How long machines that exist were stopped, each time until they were started."""
    running: tuple[Running, ...] = ()
    """What runs in it, where machines that work may be disrupted."""
    fingerprints: Mapping[OfferKey, str] = field(default_factory=dict)
    """Of what a launch would be made of now."""
    hold: str | None = None
    """Why nothing may be launched now (its machines are unknown, the pool is closing)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """One immutable snapshot of everything a plan may look at."""

    now: float
    pools: tuple[PoolInput, ...]
    memory: CapacityMemory = field(default_factory=CapacityMemory)
    unseen: Mapping[Scope, Unseen] = field(default_factory=dict)
    """Where it is not known what exists, and why: nothing is launched there."""
    budget: ClusterBudget = NO_BUDGETS
    spending: Spending = field(default_factory=Spending)

    def unseen_because(self, offer: Offer) -> tuple[Scope, Unseen] | None:
        """What could not be listed and covers the offer."""
        return next((pair for pair in self.unseen.items() if pair[0].covers(offer)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One group of machines to ask for, all or nothing."""

    pool: str
    offer: Offer
    claims: tuple[tuple[str, ...], ...]
    """For each machine the gangs it is bought for; a gang over several machines is in each of theirs."""
    replaces: str = ""
    """The machine in whose place it is bought: its work moves when this one is up."""
    starts: tuple[str, ...] = ()
    """The stopped machines that are started, in that order; empty: machines are bought."""

    @property
    def count(self) -> int:
        return len(self.claims)

    @property
    def is_of_one_gang(self) -> bool:
        """Its machines run one gang together."""
        first = self.claims[0][:1]
        return len(self.claims) > 1 and bool(first) and self.claims[1][:1] == first


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    pool: str
    instance_id: str
    why: str
    stop: bool = False
    """It is only stopped, and can be started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A machine whose work is to move to others where it fits; then it is ended."""

    instance_id: str
    requests: frozenset[str]
    """All that may run there by then: nothing moves if anything else does."""
    why: str


class KeepReason(NamedTuple):
    """Why a machine without work is kept."""

    why: str
    until: float | None = None
    """It is ended then if nothing changes. None: as long as that is so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """A launch that was not delivered, and that nobody waits for any more."""

    intent_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    launches: tuple[Launch, ...] = ()
    terminations: tuple[Termination, ...] = ()
    cancellations: tuple[Cancellation, ...] = ()
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """request id -> why it waits; every gang of the input has one."""
    availabilities: tuple[PoolAvailability, ...] = ()
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Coming machine -> the gangs that claim it from now on."""
    leaving: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """Machine -> until when the work on it is to leave, and why."""
    moves: tuple[Move, ...] = ()
    kept: Mapping[str, KeepReason] = field(default_factory=dict)
    """Machines without work that stay."""
