"""Agents, slots and containers, as they are shown."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from master.api.enums import ContainerState, DeviceType
from master.api.paging import Pagination
from master.api.values import Timestamp


class Device(TypedDict):
    id: int
    brand: str
    uuid: str
    type: DeviceType


class Container(TypedDict):
    id: str
    parent: str
    state: ContainerState
    devices: list[Device]
    permissionDenied: bool


class Slot(TypedDict):
    id: str
    device: Device
    enabled: bool
    draining: bool
    container: Container | None


class SlotCounts(TypedDict):
    states: dict[str, int]
    total: int
    draining: int
    disabled: int


class SlotStats(TypedDict):
    typeStats: dict[str, SlotCounts]
    brandStats: dict[str, SlotCounts]


class Agent(TypedDict):
    id: str
    registeredTime: Timestamp
    addresses: list[str]
    resourcePools: list[str]
    enabled: bool
    draining: bool
    version: str
    labels: list[str]
    slots: dict[str, Slot]
    containers: dict[str, Container]
    slotStats: SlotStats
    connected: bool
    """Our own."""
    instanceId: str | None
    """Our own: the machine of a provider that it is on."""
    notes: list[str]
    """Our own: what an operator should know."""
    leavesAt: Timestamp | None
    """Our own: the machine goes then, and gets no more work."""
    isolation: Literal["bubblewrap", "namespaces", "containers", "directory", "unknown"]
    """Our own: what keeps tasks apart there."""
    containerRuntime: str
    """Our own: what runs its tasks, with the version of an engine."""
    oneUser: bool
    """Our own: all tasks run as the agent's own user, which is not root."""


class AgentReply(TypedDict):
    agent: Agent


class AgentsReply(TypedDict):
    agents: list[Agent]
    pagination: Pagination


class SlotReply(TypedDict):
    slot: Slot


class SlotsReply(TypedDict):
    slots: list[Slot]


class AgentStatusReply(TypedDict):
    """What the master tells an agent about that agent."""

    agentId: str
    pool: str
    member: bool
    """False: it has left."""
    connected: bool
    slots: int
    containers: int
    """How many run there."""
    refused: str
    """Why its last connection was refused; empty if it was not, or was taken since."""
    clusterId: str
    clusterName: str
    masterVersion: str
