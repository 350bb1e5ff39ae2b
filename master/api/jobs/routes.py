"""The job queues of the pools: look, change, understand."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from master.api import request_models
from master.api.access import Caller, Visible, require
from master.api.enums import JobType
from master.api.jobs import wire
from master.api.jobs.replies import (
    ExplanationReply,
    FullJob,
    FullJobsReply,
    HiddenJob,
    Job,
    JobReply,
    JobsReply,
    QueueStatisticsReply,
)
from master.api.paging import pagination
from master.api.permits import CLUSTER, IN_BODY, VISIBLE, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Paging, Priority, Text, Word
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.auth.actions import Action
from master.auth.permissions import allowed
from master.auth.principal import Principal
from master.core.visibility import EVERYTHING, Visibility
from master.jobs.changes import JobUpdate
from master.jobs.queue import QueuedJob
from master.store.paging import Paged, cut
from provisioner.batch.base import ForeignJob
from windlass.base.errors import InvalidArgument, NotFound

router = APIRouter(route_class=ApiRoute, tags=["job queue"])

STATES = ("QUEUED", "SCHEDULED", "SCHEDULED_BACKFILLED")
DEFAULT_LIMIT = 100
MAX_UPDATES = 1000
"""Of one call: each is a commit of its own."""


class ListJobs(Paging):
    resource_pool: str = ""
    states: tuple[Annotated[str, Word("STATE_", STATES)], ...] = ()


class JobQueueStats(request_models.Query):
    resource_pools: tuple[str, ...] = ()


class QueueControl(Body):
    """The words of the published API, where an empty one is none."""

    job_id: Text = ""
    priority: Priority | None = None
    weight: float | None = None
    resource_pool: Text = ""
    ahead_of: Text = ""
    behind_of: Text = ""

    def update(self) -> JobUpdate:
        return JobUpdate(
            job_id=self.job_id,
            priority=self.priority,
            weight=self.weight,
            resource_pool=self.resource_pool or None,
            ahead_of=self.ahead_of or None,
            behind_of=self.behind_of or None,
        )


class UpdateJobQueue(Body):
    updates: tuple[QueueControl, ...] = Field((), max_length=MAX_UPDATES)


@router.get("/api/v1/job-queues")
@permit(Action.VIEW_JOBS, VISIBLE)
async def list_jobs(
    query: Annotated[ListJobs, Query()], visible: Visible, principal: Caller, api: TheApi
) -> Reply[JobsReply]:
    page = await _page(query, visible, api, principal)
    return reply({"jobs": list(page.rows), "pagination": pagination(page)})


@router.get("/api/v1/job-queues-v2")
@permit(Action.VIEW_JOBS, VISIBLE)
async def list_jobs_v2(
    query: Annotated[ListJobs, Query()], visible: Visible, principal: Caller, api: TheApi
) -> Reply[FullJobsReply]:
    """Those that the caller may not see are `limited`: they say only what they take of the pool."""
    page = await _page(query, visible, api, principal, limited=True)
    jobs: list[FullJob | HiddenJob] = [
        {"limited": wire.limited(job)} if _is_hidden(job, visible) else {"full": job}
        for job in page.rows
    ]
    return reply({"jobs": jobs, "pagination": pagination(page)})


@router.post("/api/v1/job-queues")
@permit(Action.UPDATE_JOB, IN_BODY)
async def update(body: UpdateJobQueue, principal: Caller, api: TheApi) -> Reply[Empty]:
    updates = [control.update() for control in body.updates]
    await api.services.jobs.update_all(
        updates, by=principal, require=partial(require, api, principal)
    )
    return reply()


@router.get("/api/v1/job-queues/stats")
@permit(Action.VIEW_JOBS, CLUSTER)
async def stats(
    query: Annotated[JobQueueStats, Query()], by: Caller, api: TheApi
) -> Reply[QueueStatisticsReply]:
    hidden = await hidden_pools(api, by)
    for pool in hidden.intersection(query.resource_pools):
        raise NotFound("resource pool", pool)
    found = await api.services.jobs.statistics(query.resource_pools)
    pools = [one for one in found if one.pool not in hidden]
    return reply({"results": [wire.statistics(pool) for pool in pools]})


@router.get("/api/v1/windlass/jobs/{job_id}")
@permit(Action.VIEW_JOBS, VISIBLE)
async def get_job(job_id: str, visible: Visible, api: TheApi) -> Reply[JobReply]:
    """By its id, or by how its id begins."""
    jobs = api.services.jobs
    facts = jobs.find(job_id, visible)
    queued = jobs.in_queue(facts.job_id)
    return reply({"job": wire.any_job(facts, queued, jobs.waiting_reason(queued))})


@router.get("/api/v1/windlass/jobs/{job_id}/explain")
@permit(Action.VIEW_JOBS, VISIBLE)
async def explain(job_id: str, visible: Visible, api: TheApi) -> Reply[ExplanationReply]:
    """By its id, or by how its id begins."""
    jobs = api.services.jobs
    explained = await jobs.explain(jobs.find(job_id, visible).job_id)
    return reply(wire.explanation(explained, jobs.waiting_reason(explained.queued)))


async def _page(
    query: ListJobs,
    visible: Visibility,
    api: ApiContext,
    by: Principal,
    *,
    limited: bool = False,
) -> Paged[Job]:
    """Ours in the order of the queue, then those that others have where the pool submits to a batch system.

    `limited`: ours with those that are hidden.
    """
    named = by.admin if by.rules is None else allowed(by, Action.VIEW_EXTERNAL_JOBS)
    wanted = {state for state in query.states if state}
    pool = query.resource_pool or api.services.config.default_compute_pool
    if pool is None:
        raise InvalidArgument("resourcePool: must be given: this cluster has no default pool")
    jobs = api.services.jobs
    # Work that was there before the pool was kept for others stays, and its owner sees the queue.
    if pool in await hidden_pools(api, by) and not jobs.queue(pool, visible):
        raise NotFound("resource pool", pool)
    entries: list[QueuedJob | ForeignJob] = [*jobs.queue(pool, EVERYTHING if limited else visible)]
    entries += await api.services.jobs_of_others(pool)
    entries = [one for one in entries if not wanted or _state(one) in wanted]
    if query.order_by == "DESC":
        entries.reverse()
    page = cut(entries, query.page(default_limit=DEFAULT_LIMIT))
    shown = [
        wire.job_of_others(one, pool, named=named)
        if isinstance(one, ForeignJob)
        else wire.job(one, jobs.waiting_reason(one))
        for one in page.rows
    ]
    return Paged(rows=shown, total=page.total, offset=page.offset, limit=page.limit)


def _is_hidden(job: Job, visible: Visibility) -> bool:
    if job["type"] is JobType.EXTERNAL:
        return False
    of_experiment = job["type"] is JobType.EXPERIMENT
    return job["workspaceId"] not in (visible if of_experiment else visible.of_interactive)


def _state(entry: QueuedJob | ForeignJob) -> str:
    if isinstance(entry, QueuedJob):
        return entry.state.name
    return "QUEUED" if entry.waits else "SCHEDULED"
