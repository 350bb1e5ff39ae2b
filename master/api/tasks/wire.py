"""Tasks and their allocations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from master.allocations.machine import AllocationPhase, AllocationState, ContainerProgress
from master.allocations.persistence import allocation_from_document
from master.allocations.service import ServedPorts, service_name
from master.api.agents.wire import device
from master.api.enums import TaskState, TaskType
from master.api.tasks import replies
from master.api.tasks.replies import AllocationSummary, OldSummary, Resources
from master.api.values import time
from master.core.reasons import Reason
from master.store.repositories.leases import lease_from_document
from master.store.tables import Allocation, BatchLease, Task
from rm_backends.batch.leases import Lease, end_text
from rm_backends.views import AgentView, QueueEntry

_STATES: Mapping[AllocationPhase, TaskState] = {
    AllocationPhase.PENDING: TaskState.QUEUED,
    AllocationPhase.ASSIGNED: TaskState.STARTING,
    AllocationPhase.PULLING: TaskState.PULLING,
    AllocationPhase.STARTING: TaskState.STARTING,
    AllocationPhase.RUNNING: TaskState.RUNNING,
    AllocationPhase.TERMINATING: TaskState.TERMINATING,
    AllocationPhase.TERMINATED: TaskState.TERMINATED,
}


def task(
    row: Task, allocations: Sequence[Allocation], batch_jobs: Sequence[BatchLease]
) -> replies.Task:
    """`allocations`: its allocations, newest first; the client looks at the first."""
    return {
        "taskId": row.id,
        "taskType": TaskType[row.type],
        "startTime": time(row.created_at),
        "endTime": time(row.ended_at),
        "allocations": [allocation(one) for one in allocations],
        "batchJobs": [_batch_job(lease_from_document(one.document)) for one in batch_jobs],
    }


def _batch_job(lease: Lease) -> replies.BatchJob:
    shape, ran = lease.shape, bool(lease.node_names)
    return {
        "allocationId": lease.allocation_id,
        "name": lease.tag,
        "id": lease.job_id or "",
        "system": shape.system,
        "queue": shape.queue,
        "account": lease.account,
        "state": lease.site_state,
        "nodes": list(lease.node_names),
        "gpus": shape.nodes * shape.gpus_per_node,
        "startTime": time(_moment(lease.starts_at if ran else None)),
        "endTime": time(_moment(lease.ended_at)),
        "gpuHours": None if lease.gpu_s is None else round(lease.gpu_s / 3600, 4),
        "end": "" if lease.ended_at is None else end_text(lease),
    }


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def allocation(row: Allocation) -> replies.Allocation:
    state = allocation_from_document(row.document)
    return {
        "allocationId": state.id,
        "taskId": state.task_id,
        "state": _STATES[state.phase],
        "isReady": state.ready,
        "slots": state.slots,
        "startTime": time(state.started_at),
        "endTime": time(state.ended_at),
        "exitReason": row.exit_reason or None,
        "statusCode": row.status_code,
    }


def allocation_summary(
    state: AllocationState,
    entry: QueueEntry | None,
    agents: Mapping[str, AgentView],
    *,
    served: ServedPorts | None,
    scheduler: str,
    priority: int,
    waiting: Reason | None,
) -> AllocationSummary:
    """`entry` is its place in the queue of its pool, which also has its name."""
    return {
        "taskId": state.task_id,
        "allocationId": state.id,
        "name": entry.name if entry is not None else state.task_id,
        "registeredTime": time(state.requested_at),
        "resourcePool": entry.pool if entry is not None else state.current_pool,
        "slotsNeeded": state.slots,
        "schedulerType": scheduler,
        "priority": priority,
        "proxyPorts": _proxy_ports(state.task_id, served),
        "resources": [_resources(state.id, c, agents) for c in state.containers] or None,
        "state": _STATES[state.phase],
        "waitingReason": None if waiting is None else waiting.text,
        "endsAt": time(ends_at(state, agents)),
    }


def ends_at(state: AllocationState, agents: Mapping[str, AgentView]) -> datetime | None:
    """When the first of its machines ends; None: not as far as is known."""
    ids = {progress.container.agent_id for progress in state.containers}
    ends = (agents[id_].ends_at for id_ in ids if id_ in agents)
    return min(filter(None, ends), default=None)


def _proxy_ports(task_id: str, served: ServedPorts | None) -> list[replies.ProxyPortConfig]:
    return [
        {
            "serviceId": service_name(task_id, name),
            "port": port.port,
            "proxyTcp": port.tcp,
            "unauthenticated": port.unauthenticated,
        }
        for name, port in (served.ports if served is not None else {}).items()
    ]


def old_summary(summary: AllocationSummary) -> OldSummary:
    """The form from before `/api/v1`."""
    return {
        "task_id": summary["taskId"],
        "allocation_id": summary["allocationId"],
        "name": summary["name"],
        "registered_time": summary["registeredTime"],
        "resource_pool": summary["resourcePool"],
        "slots_needed": summary["slotsNeeded"],
        "scheduler_type": summary["schedulerType"],
        "priority": summary["priority"],
        "resources": [
            {
                "resources_id": resources["resourcesId"],
                "resources_type": resources["resourcesType"],
                "allocation_id": resources["allocationId"],
                "container_id": resources["containerId"],
                "agent_devices": {
                    agent: found["devices"] for agent, found in resources["agentDevices"].items()
                },
            }
            for resources in summary["resources"] or ()
        ],
    }


def _resources(
    allocation_id: str, state: ContainerProgress, agents: Mapping[str, AgentView]
) -> Resources:
    container = state.container
    agent = agents.get(container.agent_id)
    slots = [s for s in agent.slots if s.id in container.slot_ids] if agent is not None else []
    return {
        "resourcesId": container.container_id,
        "resourcesType": "docker-container",
        "allocationId": allocation_id,
        "containerId": container.container_id,
        "agentDevices": {container.agent_id: {"devices": [device(slot) for slot in slots]}},
    }
