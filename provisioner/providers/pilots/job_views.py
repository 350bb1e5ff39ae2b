"""Pilots as they are shown."""

from __future__ import annotations

from provisioner.batch.base import JobReport
from provisioner.leases.job_views import BatchJobView, JobPurpose, stage_of
from provisioner.providers.pilots.answers import DELIVERED, accepted
from provisioner.providers.pilots.book import Pilot


def job_view(pilot: Pilot, job: JobReport | None, stage: str) -> BatchJobView | None:
    """None: it is over. `job`: as the site last told. `stage`: how far its nodes are until its agents have joined."""
    if pilot.over_at is not None or pilot.ended_at is not None:
        return None
    shape, has_nodes = pilot.shape, job is not None and job.phase in DELIVERED
    waits = "" if has_nodes else accepted(pilot, job, shape.system).reason
    return BatchJobView(
        name=pilot.job_name,
        system=shape.system,
        job_id=pilot.job_id or "",
        pool=pilot.pool,
        queue=shape.queue,
        purpose=JobPurpose.MACHINES,
        stage=stage_of(
            None if job is None else job.phase,
            is_taken=pilot.job_id is not None,
            ends=pilot.cancelled,
        ),
        site_state="" if job is None else job.state,
        reason=pilot.refused or stage or waits,
        nodes=shape.nodes,
        slots=shape.nodes * shape.slots_per_node,
        node_names=() if job is None else job.nodes,
        walltime_s=shape.walltime_s,
        created_at=pilot.intent.created_at or pilot.written_at,
        starts_at=None if job is None else job.starts_at,
        ends_at=pilot.ends_at,
        user=shape.user,
        account="" if job is None else job.account,
        agents=pilot.agents,
    )
