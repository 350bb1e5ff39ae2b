"""Machines, money and reasons, as they are shown: all of it our own."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.values import Timestamp, WaitingReason
from provisioner.types import Market


class Offer(TypedDict):
    provider: str
    region: str
    zone: str
    instanceType: str
    market: Market


class Instance(TypedDict):
    id: str
    pool: str
    offer: Offer
    slots: int
    usdPerHour: float
    usd: float
    state: str
    activity: str
    """booting, busy, idle, ending, lost, ..."""
    reason: str
    createdAt: Timestamp
    readyAt: Timestamp | None
    ageS: float
    idleS: float | None
    keptBecause: str
    """Why it is kept although it has no work."""
    keptUntil: Timestamp | None
    leavesAt: Timestamp | None
    leavesBecause: str
    """When it is ended if no work comes."""


class FleetCost(TypedDict):
    usd: float
    usdPerHour: float
    peakInstances: int
    peakUsdPerHour: float
    firstLaunchAt: Timestamp | None
    alwaysOnUsd: float
    """What a fleet of the same peak that never sleeps would have cost."""


class BlockedOffer(TypedDict):
    offer: Offer
    reason: str
    """What the provider said when it refused the last launch."""
    until: Timestamp | None
    """None: until its configuration is changed, or somebody asks to try it again."""


class FleetReply(FleetCost):
    instances: list[Instance]
    blockedOffers: list[BlockedOffer]


class WaitingInPool(TypedDict):
    allocationId: str
    taskId: str
    name: str
    slots: int
    since: Timestamp
    reason: WaitingReason | None


class Pool(TypedDict):
    name: str
    type: str
    elastic: bool
    agents: int
    slotsTotal: int
    slotsUsed: int
    slotsFree: int
    slotsLaunching: int
    instancesLaunching: int
    running: int
    waiting: list[WaitingInPool]


class PoolsReply(TypedDict):
    pools: list[Pool]


class ReasonsReply(TypedDict):
    reasons: dict[str, WaitingReason | None]
    """By the id of each trial that waits."""


class ReasonReply(TypedDict):
    reason: WaitingReason | None
    """Null if it does not wait."""


class RefusedAgent(TypedDict):
    """A connection that was refused. What it says of itself is not verified."""

    id: str
    pool: str
    address: str
    version: str
    reason: str
    firstAt: Timestamp
    lastAt: Timestamp
    times: int


class RefusedAgentsReply(TypedDict):
    refused: list[RefusedAgent]


class ForgottenAgentReply(TypedDict):
    lostAllocations: list[str]
    """What had resources on the agent."""
