"""Interactive tasks: what is known of one, alive or over."""

from __future__ import annotations

from collections.abc import Mapping

from master.allocations.machine import AllocationPhase, AllocationState
from master.api.agents.replies import Container
from master.api.enums import ContainerState, TaskState
from master.api.interactive.replies import Command
from master.api.values import time
from master.auth.principal import Principal
from master.core.reasons import Reason
from master.tasks import state
from master.tasks.interactive_queries import InteractiveRow
from master.tasks.machine import ends_idle_at
from master.tasks.service import CheckedTask

_STATES: Mapping[AllocationPhase, TaskState] = {
    AllocationPhase.PENDING: TaskState.QUEUED,
    AllocationPhase.ASSIGNED: TaskState.QUEUED,
    AllocationPhase.PULLING: TaskState.PULLING,
    AllocationPhase.STARTING: TaskState.STARTING,
    AllocationPhase.RUNNING: TaskState.RUNNING,
    AllocationPhase.TERMINATING: TaskState.TERMINATING,
    AllocationPhase.TERMINATED: TaskState.QUEUED,
}
"""What users see of an active task, by the phase of its newest allocation."""


def task(
    row: InteractiveRow, live: state.TaskState | None, waiting: Reason | None = None
) -> Command:
    """What all kinds have. `row` with its owner's names; `live`: its state in memory, which may be newer."""
    allocation = live.open_allocation if live is not None else None
    idle_end = None if live is None else ends_idle_at(live)
    return {
        "id": row.task.id,
        "description": row.task.description,
        "state": _state(
            state.TaskPhase(row.task.state) if live is None else live.phase, allocation
        ),
        "startTime": time(row.task.created_at),
        "endTime": time(row.task.ended_at if live is None else live.ended_at),
        "container": _container(allocation),
        "username": row.username,
        "displayName": row.display_name,
        "userId": row.task.owner_id,
        "resourcePool": row.task.resource_pool,
        "exitStatus": row.task.exit_status if live is None else live.exit_status,
        "jobId": row.task.job_id,
        "workspaceId": row.task.workspace_id,
        "waitingReason": waiting.text if waiting is not None else None,
        "lastActivity": time(live.active_at if live is not None and idle_end else None),
        "idleEndsAt": time(idle_end),
    }


def preview(checked: CheckedTask, owner: Principal, workspace_id: int) -> Command:
    """The reply to "preview": every key that the client needs, and no task."""
    return {
        "id": "",
        "description": checked.config.description,
        "state": TaskState.UNSPECIFIED,
        "startTime": None,
        "endTime": None,
        "container": None,
        "username": owner.name,
        "displayName": "",
        "userId": owner.user_id,
        "resourcePool": checked.pool,
        "exitStatus": "",
        "jobId": "",
        "workspaceId": workspace_id,
        "waitingReason": None,
        "lastActivity": None,
        "idleEndsAt": None,
    }


def _state(phase: state.TaskPhase, allocation: AllocationState | None) -> TaskState:
    if phase is state.TaskPhase.TERMINATED:
        return TaskState.TERMINATED
    if phase is state.TaskPhase.STOPPING:
        return TaskState.TERMINATING
    return TaskState.QUEUED if allocation is None else _STATES[allocation.phase]


def _container(allocation: AllocationState | None) -> Container | None:
    if allocation is None or not allocation.containers:
        return None
    first = allocation.containers[0]
    return {
        "id": first.container.container_id,
        "parent": allocation.id,
        "state": ContainerState[first.phase],
        "devices": [],
        "permissionDenied": False,
    }
