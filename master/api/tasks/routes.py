"""Tasks: their files, their state, and all allocations that live now."""

from __future__ import annotations

import base64

from fastapi import APIRouter

from master.api.access import Visible
from master.api.experiments.replies import FilesReply
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.tasks import generic_wire, wire
from master.api.tasks.replies import (
    AcceleratorsReply,
    AllocationReply,
    AllocationSummary,
    LiveTasksReply,
    OldSummary,
    TaskCountsReply,
    TaskReply,
)
from master.auth.actions import Action
from master.core.jobs import JobType
from master.core.visibility import Visibility

router = APIRouter(route_class=ApiRoute, tags=["tasks"])


@router.get("/api/v1/tasks/{task_id}/context_directory")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def context_directory(task_id: str, visible: Visible, api: TheApi) -> Reply[FilesReply]:
    blob = await api.reads.tasks.context_of_task(task_id, visible)
    content = await api.services.blobs.get(blob) if blob else b""
    return reply({"b64Tgz": base64.b64encode(content).decode()})


@router.get("/api/v1/tasks/count")
@permit(Action.VIEW_INTERACTIVE, VISIBLE)
async def count(visible: Visible, api: TheApi) -> Reply[TaskCountsReply]:
    counts = await api.reads.interactive.active_counts(visible)
    return reply(
        {
            "commands": counts.get(JobType.COMMAND, 0),
            "notebooks": counts.get(JobType.NOTEBOOK, 0),
            "shells": counts.get(JobType.SHELL, 0),
            "tensorboards": counts.get(JobType.TENSORBOARD, 0),
        }
    )


@router.get("/api/v1/allocations/{allocation_id}")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def get_allocation(
    allocation_id: str, visible: Visible, api: TheApi
) -> Reply[AllocationReply]:
    row = await api.reads.tasks.allocation(allocation_id, visible)
    return reply({"allocation": wire.allocation(row)})


@router.get("/api/v1/tasks/{task_id}/acceleratorData")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def accelerators(task_id: str, visible: Visible, api: TheApi) -> Reply[AcceleratorsReply]:
    await api.reads.tasks.task(task_id, visible)
    pools = {
        row.id: row.granted_pool or row.pool for row in await api.reads.tasks.allocations(task_id)
    }
    rows = await api.reads.tasks.accelerators(task_id)
    return reply(
        {
            "acceleratorData": [
                {
                    "taskId": task_id,
                    "allocationId": row.allocation_id,
                    "containerId": row.container_id,
                    "nodeName": row.node_name,
                    "resourcePool": pools.get(row.allocation_id, ""),
                    "acceleratorType": row.accelerator_type,
                    "acceleratorUuids": row.accelerator_uuids,
                }
                for row in rows
            ]
        }
    )


@router.get("/api/v1/tasks/{task_id}")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def get(task_id: str, visible: Visible, api: TheApi) -> Reply[TaskReply]:
    row = await api.reads.tasks.task(task_id, visible)
    reads = api.reads.tasks
    allocations, jobs = await reads.allocations(task_id), await reads.batch_jobs(task_id)
    shown = wire.task(row, allocations, jobs)
    if row.type != JobType.GENERIC:
        return reply({"task": shown})
    state = await api.services.generic.state(task_id, visible)
    waiting = api.services.tasks.waiting_reason(state)
    return reply({"task": {**shown, **generic_wire.generic(state, visible, waiting)}})


@router.get("/api/v1/tasks")
@permit(Action.VIEW_CLUSTER, VISIBLE)
async def list_live(visible: Visible, api: TheApi) -> Reply[LiveTasksReply]:
    return reply({"allocationIdToSummary": _summaries(api, visible)})


@router.get("/tasks")
@permit(Action.VIEW_CLUSTER, VISIBLE)
async def list_live_for_old_scripts(visible: Visible, api: TheApi) -> Reply[dict[str, OldSummary]]:
    return reply(
        {id_: wire.old_summary(summary) for id_, summary in _summaries(api, visible).items()}
    )


def _summaries(api: ApiContext, visible: Visibility) -> dict[str, AllocationSummary]:
    """By id of the allocation."""
    cluster = api.services.cluster
    by_id = {agent.id: agent for agent in cluster.agents()}
    settings = {view.name: view.settings for view in cluster.pools_view()}
    entries = {e.allocation_id: e for pool in cluster.pools() for e in cluster.queue(pool)}
    summaries = {}
    for id_, state in sorted(api.services.allocations.open_states().items()):
        entry = entries.get(id_)
        scheduler = settings.get(entry.pool if entry is not None else state.current_pool)
        if not api.services.jobs.is_visible(entry.job.id if entry else "", visible):
            continue
        default = scheduler.usual_priority if scheduler else 0
        priority = entry.job.priority if entry is not None else None
        summaries[id_] = wire.allocation_summary(
            state,
            entry,
            by_id,
            served=api.services.allocations.served(state.task_id),
            scheduler=scheduler.type if scheduler else "",
            priority=default if priority is None else priority,
            waiting=api.services.allocations.rm.explain(id_) if state.started_at is None else None,
        )
    return summaries
