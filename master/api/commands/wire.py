"""Commands: what is known of one, alive or over."""

from __future__ import annotations

from collections.abc import Mapping

from master.allocations.machine import AllocationPhase, AllocationState
from master.api.agents.replies import Container
from master.api.commands.replies import Command
from master.api.values import time
from master.auth.principal import Principal
from master.core.reasons import Reason
from master.tasks.interactive_queries import InteractiveRow
from master.tasks.service import Checked
from master.tasks.state import TaskPhase, TaskState

_STATES: Mapping[AllocationPhase, str] = {
    AllocationPhase.PENDING: "STATE_QUEUED",
    AllocationPhase.ASSIGNED: "STATE_QUEUED",
    AllocationPhase.PULLING: "STATE_PULLING",
    AllocationPhase.STARTING: "STATE_STARTING",
    AllocationPhase.RUNNING: "STATE_RUNNING",
    AllocationPhase.TERMINATING: "STATE_TERMINATING",
    AllocationPhase.TERMINATED: "STATE_QUEUED",
}
"""What users see of an active command, by the phase of its newest allocation."""


def command(row: InteractiveRow, live: TaskState | None, waiting: Reason | None = None) -> Command:
    """`row` with its owner's names; `live`: its state in memory, which may be newer."""
    allocation = live.open_allocation if live is not None else None
    return {
        "id": row.task.id,
        "description": row.task.description,
        "state": _state(TaskPhase(row.task.state) if live is None else live.phase, allocation),
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
    }


def preview(checked: Checked, owner: Principal, workspace_id: int) -> Command:
    """The reply to "preview": every key that the client needs, and no command."""
    return {
        "id": "",
        "description": checked.config.description,
        "state": "STATE_UNSPECIFIED",
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
    }


def _state(phase: TaskPhase, allocation: AllocationState | None) -> str:
    if phase is TaskPhase.TERMINATED:
        return "STATE_TERMINATED"
    if phase is TaskPhase.STOPPING:
        return "STATE_TERMINATING"
    return "STATE_QUEUED" if allocation is None else _STATES[allocation.phase]


def _container(allocation: AllocationState | None) -> Container | None:
    if allocation is None or not allocation.containers:
        return None
    state = allocation.containers[0]
    return {
        "id": state.container.container_id,
        "parent": allocation.id,
        "state": f"STATE_{state.phase}",
        "devices": [],
        "permissionDenied": False,
    }
