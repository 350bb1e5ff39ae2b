"""Resource pools, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.enums import DeviceType, FittingPolicy, PoolType, SchedulerType
from master.api.paging import Pagination
from master.api.resource_pools.clouds import AwsDetail, GcpDetail
from windlass.base.formats.json_types import JsonObject


class BoundWorkspacesReply(TypedDict):
    workspaceIds: list[int]
    """None: the pool is everybody's."""
    pagination: Pagination


class PriorityScheduler(TypedDict):
    preemption: bool
    defaultPriority: int
    k8Priorities: list[JsonObject]


class PoolDetails(TypedDict):
    aws: AwsDetail | None
    gcp: GcpDetail | None
    priorityScheduler: PriorityScheduler


class ResourcePool(TypedDict):
    """Those that the published client requires and that say nothing here are empty, from `masterUrl` on."""

    name: str
    description: str
    type: PoolType
    numAgents: int
    slotsAvailable: int
    slotsUsed: int
    slotType: DeviceType
    accelerator: str
    slotsPerAgent: int
    """-1 if they differ."""
    auxContainerCapacity: int
    auxContainersRunning: int
    auxContainerCapacityPerAgent: int
    defaultComputePool: bool
    defaultAuxPool: bool
    preemptible: bool
    """Some machines that it buys are spot."""
    minAgents: int
    maxAgents: int
    maxIdleAgentPeriod: float
    maxAgentStartingPeriod: float
    location: str
    clusterName: str
    resourceManagerName: str
    resourceManagerMetadata: dict[str, str]
    schedulerType: SchedulerType
    schedulerFittingPolicy: FittingPolicy
    details: PoolDetails
    imageId: str
    """What its machines boot; several with commas, as the next."""
    instanceType: str
    masterUrl: str
    masterCertName: str
    startupScript: str
    containerStartupScript: str
    agentDockerNetwork: str
    agentDockerRuntime: str
    agentDockerImage: str
    agentFluentImage: str


class ResourcePoolsReply(TypedDict):
    resourcePools: list[ResourcePool]
    pagination: Pagination
