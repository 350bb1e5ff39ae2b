"""Tasks and their allocations, as they are shown."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from master.api.agents.replies import Device
from master.api.enums import GenericTaskState, LaunchWarning, TaskState, TaskType
from master.api.paging import Pagination
from master.api.values import Timestamp


class Allocation(TypedDict):
    allocationId: str
    taskId: str
    state: TaskState
    isReady: bool
    slots: int
    startTime: Timestamp | None
    endTime: Timestamp | None
    exitReason: str | None
    statusCode: int | None


class BatchJob(TypedDict):
    """The job of Slurm or PBS on which an allocation ran, or waited to run."""

    allocationId: str
    name: str
    id: str
    """At the site; empty until it was submitted."""
    system: str
    """slurm or pbs."""
    queue: str
    account: str
    """Empty: the site has not said it, which it may do only at the end."""
    state: str
    """In the site's word."""
    nodes: list[str]
    gpus: int
    startTime: Timestamp | None
    endTime: Timestamp | None
    gpuHours: float | None
    """Null: it has not ended, or never ran."""
    end: str
    """How it ended, in words; empty before that."""


class Task(TypedDict):
    taskId: str
    taskType: TaskType
    startTime: Timestamp
    endTime: Timestamp | None
    allocations: list[Allocation]
    """Newest first."""
    batchJobs: list[BatchJob]
    """Our own key: in the order of their submission."""
    taskState: NotRequired[GenericTaskState]
    """This, and what follows, only of generic tasks."""
    config: NotRequired[str]
    """As it was submitted, a JSON text."""
    forkedFrom: NotRequired[str | None]
    parentId: NotRequired[str | None]
    noPause: NotRequired[bool]
    exitStatus: NotRequired[str]
    """Our own: how it ended, in words; empty before that."""
    waitingReason: NotRequired[str | None]
    """Our own: why it waits."""


class TaskReply(TypedDict):
    task: Task


class AllocationReply(TypedDict):
    allocation: Allocation


class TaskCountsReply(TypedDict):
    """Of those that have not ended."""

    commands: int
    notebooks: int
    shells: int
    tensorboards: int


class ListedGenericTask(TypedDict):
    taskId: str
    name: str
    username: str
    taskState: GenericTaskState
    resourcePool: str
    slotsNeeded: int
    registeredTime: Timestamp
    endTime: Timestamp | None
    parentId: str | None
    exitStatus: str
    waitingReason: str | None


class GenericTasksReply(TypedDict):
    tasks: list[ListedGenericTask]
    pagination: Pagination


class CreatedGenericTask(TypedDict):
    taskId: str
    warnings: list[LaunchWarning]
    configWarnings: list[str]
    """Our own: in sentences."""


class GenericConfigReply(TypedDict):
    config: str
    """A JSON text."""


class AgentDevices(TypedDict):
    devices: list[Device]


class Resources(TypedDict):
    resourcesId: str
    resourcesType: str
    allocationId: str
    containerId: str
    agentDevices: dict[str, AgentDevices]


class ProxyPortConfig(TypedDict):
    serviceId: str
    """What comes after `/proxy/`."""
    port: int
    proxyTcp: bool
    unauthenticated: bool


class AllocationSummary(TypedDict):
    taskId: str
    allocationId: str
    name: str
    registeredTime: Timestamp
    resourcePool: str
    slotsNeeded: int
    schedulerType: str
    priority: int
    proxyPorts: list[ProxyPortConfig]
    resources: list[Resources] | None
    state: TaskState
    """Our own, as what follows."""
    waitingReason: str | None
    """Why it waits."""
    endsAt: Timestamp | None
    """When the time of the machines that it runs on is over, such as that of its batch job."""


class OldResources(TypedDict):
    resources_id: str
    resources_type: str
    allocation_id: str
    container_id: str
    agent_devices: dict[str, list[Device]]


class OldSummary(TypedDict):
    task_id: str
    allocation_id: str
    name: str
    registered_time: Timestamp
    resource_pool: str
    slots_needed: int
    scheduler_type: str
    priority: int
    resources: list[OldResources]


class LiveTasksReply(TypedDict):
    allocationIdToSummary: dict[str, AllocationSummary]


class AcceleratorData(TypedDict):
    """What one container said of itself."""

    taskId: str
    allocationId: str
    containerId: str
    nodeName: str
    resourcePool: str
    acceleratorType: str
    acceleratorUuids: list[str]


class AcceleratorsReply(TypedDict):
    acceleratorData: list[AcceleratorData]
