"""The job queue of a pool."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator

from master.api.access import Caller
from master.api.bodies import ApiRoute
from master.api.models import Paging, word
from master.api.paging import pagination
from master.api.replies import reply
from master.api.services import TheApi
from master.api.wire.jobs import job as job_json
from master.api.wire.jobs import jobs_of
from master.experiments.paging import cut

router = APIRouter(route_class=ApiRoute, tags=["job queue"])

STATES = ("QUEUED", "SCHEDULED", "SCHEDULED_BACKFILLED")
DEFAULT_LIMIT = 100
WORKSPACE = 1


class ListJobs(Paging):
    resource_pool: str = ""
    states: tuple[Annotated[str, AfterValidator(word("STATE_", STATES))], ...] = ()


@router.get("/api/v1/job-queues-v2")
async def list_jobs(
    query: Annotated[ListJobs, Query()], principal: Caller, api: TheApi
) -> Response:
    services = api.services
    pool = query.resource_pool or services.config.default_compute_pool
    queue = services.agents.queue(pool)
    settings = {view.name: view.settings for view in services.agents.pools_view()}[pool]
    live = {experiment.state.job_id: experiment for experiment in services.experiments.all_live()}
    wanted = {f"STATE_{state}" for state in query.states if state}
    jobs = [
        {"full": job_json(job, live[job.job_id], settings, WORKSPACE)}
        for job in jobs_of(queue)
        if job.job_id in live and (not wanted or job.state in wanted)
    ]
    if query.order_by == "DESC":
        jobs.reverse()
    page = cut(jobs, query.page(default_limit=DEFAULT_LIMIT))
    return reply({"jobs": page.rows, "pagination": pagination(page)})
