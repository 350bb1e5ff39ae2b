"""Dispatched jobs as they are shown."""

from __future__ import annotations

from provisioner.batch.base import JobPhase
from provisioner.leases.job_views import BatchJobView, JobPurpose, stage_of
from rm_backends.batch.leases import Lease, LeaseState, explain

_OVER = (LeaseState.OVER, LeaseState.SETTLED)


def job_view(lease: Lease, joined: int, now: float) -> BatchJobView | None:
    """None: it is over, or there is no job. `joined`: how many of its agents are connected."""
    if lease.state in (*_OVER, LeaseState.HALTED):
        return None
    ends = lease.state is LeaseState.ENDING
    runs = lease.phase is JobPhase.RUNNING and joined >= lease.shape.nodes
    shape = lease.shape
    return BatchJobView(
        name=lease.job_name,
        system=shape.system,
        job_id=lease.job_id or "",
        pool=lease.pool,
        queue=shape.queue,
        purpose=JobPurpose.RUN,
        stage=stage_of(lease.phase, is_taken=lease.job_id is not None, ends=ends),
        site_state=lease.site_state,
        reason=lease.end_why if ends else "" if runs else explain(lease, joined, now).text,
        nodes=shape.nodes,
        slots=shape.nodes * shape.slots_per_node,
        node_names=lease.node_names,
        walltime_s=shape.walltime_s,
        created_at=lease.created_at,
        starts_at=lease.starts_at,
        ends_at=lease.ends_at,
        user=shape.user,
        account=lease.account,
        allocation_id=lease.allocation_id,
        agents=lease.agents,
    )
