"""Jobs of ours at Slurm and PBS: our own addition to the API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import Timestamp, epoch
from master.auth.actions import Action
from master.core.visibility import Visibility
from provisioner.leases.job_views import BatchJobView, JobPurpose, JobStage
from rm_backends.views import QueueEntry

router = APIRouter(
    prefix="/api/v1/windlass/fleet/batch-jobs", route_class=ApiRoute, tags=["windlass"]
)


class BatchJobRun(TypedDict):
    jobId: str
    """Of the cluster's queue."""
    allocationId: str
    name: str


class FleetBatchJob(TypedDict):
    name: str
    """At the site."""
    system: str
    """slurm or pbs."""
    jobId: str
    """Of the site; empty: it has not said that it took it."""
    pool: str
    queue: str
    """The partition or queue; empty: the site's default."""
    purpose: JobPurpose
    stage: JobStage
    siteState: str
    """In the site's own word."""
    reason: str
    """Why it waits, or is being ended; empty: it runs."""
    nodes: int
    slots: int
    """Of all its nodes."""
    nodeNames: list[str]
    """Empty: it has none yet."""
    walltimeS: float | None
    """null: the site's default."""
    createdAt: Timestamp
    startsAt: Timestamp | None
    """When it started, or as the site expects."""
    endsAt: Timestamp | None
    """When its time limit ends it."""
    user: str
    """Of the site; empty: the master's own."""
    account: str
    """Which pays, where the site says that."""
    runs: int
    """So many it was asked for, or use its nodes now."""
    work: list[BatchJobRun]
    """Those that the caller may see."""


class BatchJobsReply(TypedDict):
    jobs: list[FleetBatchJob]


@router.get("")
@permit(Action.VIEW_CLUSTER, VISIBLE)
async def batch_jobs(by: Caller, visible: Visible, api: TheApi) -> Reply[BatchJobsReply]:
    """Those that are not over, of pools that the caller is shown: the newest first."""
    hidden = await hidden_pools(api, by)
    views = [view for view in api.services.batch_jobs() if view.pool not in hidden]
    views.sort(key=lambda view: (view.created_at, view.name), reverse=True)
    # A job may outlive its pool, which was taken out of master.yaml.
    known = {view.pool for view in views}.intersection(api.services.cluster.pools())
    pools = {pool: _work(api.services.cluster.queue(pool)) for pool in known}
    return reply(
        {"jobs": [_job(api, view, pools.get(view.pool, _NONE), visible) for view in views]}
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """Of a pool."""

    by_id: Mapping[str, QueueEntry]
    by_agent: Mapping[str, Sequence[QueueEntry]]

    def of(self, view: BatchJobView) -> Sequence[QueueEntry]:
        """The run that it was asked for, and those that use its nodes; each once."""
        own = self.by_id.get(view.allocation_id)
        found = [] if own is None else [own]
        for agent in view.agents:
            found += self.by_agent.get(agent, ())
        return list({entry.allocation_id: entry for entry in found}.values())


_NONE = _Work({}, {})


def _work(queue: Sequence[QueueEntry]) -> _Work:
    by_agent: defaultdict[str, list[QueueEntry]] = defaultdict(list)
    for entry in queue:
        for agent in entry.placement:
            by_agent[agent].append(entry)
    return _Work({entry.allocation_id: entry for entry in queue}, by_agent)


def _job(api: ApiContext, view: BatchJobView, work: _Work, visible: Visibility) -> FleetBatchJob:
    runs = work.of(view)
    return {
        "name": view.name,
        "system": view.system,
        "jobId": view.job_id,
        "pool": view.pool,
        "queue": view.queue,
        "purpose": view.purpose,
        "stage": view.stage,
        "siteState": view.site_state,
        "reason": view.reason,
        "nodes": view.nodes,
        "slots": view.slots,
        "nodeNames": list(view.node_names),
        "walltimeS": view.walltime_s,
        "createdAt": epoch(view.created_at),
        "startsAt": epoch(view.starts_at),
        "endsAt": epoch(view.ends_at),
        "user": view.user,
        "account": view.account,
        "runs": len(runs),
        "work": [
            {"jobId": entry.job.id, "allocationId": entry.allocation_id, "name": entry.name}
            for entry in runs
            if api.services.jobs.is_visible(entry.job.id, visible)
        ],
    }
