"""The jobs of Slurm and PBS on which a task ran, as they are kept with it and shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.store.repositories.leases import LeaseRepository
from master.wiring.batch.pools import JobProjects
from provisioner.batch.base import EndCause, ForeignJob, JobPhase
from provisioner.batch.job_files import JobShape
from provisioner.sections.batch import SlurmSection
from rm_backends.batch.leases import Lease, LeaseState
from tests.fakes.api_world import SINGLE, ApiWorld
from tests.fakes.pools import resolved_pool

DONE = Lease(
    tag="wl-1-a",
    pool="default",
    allocation_id="",
    shape=JobShape(queue="gpu", nodes=2, slots_per_node=4, gpus_per_node=4),
    created_at=1_800_000_000.0,
    state=LeaseState.SETTLED,
    phase=JobPhase.ENDED,
    site_state="TIMEOUT",
    job_id="71",
    account="research",
    node_names=("n1", "n2"),
    starts_at=1_800_000_100.0,
    ended_at=1_800_003_700.0,
    cause=EndCause.TIMEOUT,
)


async def test_jobs_of_a_task_are_shown_with_what_they_used(world: ApiWorld) -> None:
    """Those that are over, too; one that never ran used nothing."""
    await world.add_agent("node-1", slots=2)
    run = await world.run_of(await world.create(SINGLE))
    old = replace(DONE, allocation_id=run.id)
    never = replace(
        old, tag="wl-1-b", created_at=old.created_at + 9, job_id=None, node_names=(), ended_at=None
    )
    await LeaseRepository(world.services.store).save([never, old])
    shown = (await world.ok("GET", f"/api/v1/tasks/{run.task_id}"))["task"]["batchJobs"]
    assert [job["name"] for job in shown] == ["wl-1-a", "wl-1-b"]
    assert shown[0] == {
        "allocationId": run.id,
        "name": "wl-1-a",
        "id": "71",
        "system": "slurm",
        "queue": "gpu",
        "account": "research",
        "state": "TIMEOUT",
        "nodes": ["n1", "n2"],
        "gpus": 8,
        "startTime": "2027-01-15T08:01:40.000000Z",
        "endTime": "2027-01-15T09:01:40.000000Z",
        "gpuHours": 8.0,
        "end": "job 71 on n1, n2 reached its time limit",
    }
    assert (shown[1]["id"], shown[1]["gpuHours"], shown[1]["end"]) == ("", None, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "project"),
    [("project", "Uncategorized"), ("label:pay:", "lab_7"), ("label:none", ""), ("", "")],
)
async def test_a_job_is_booked_on_what_its_experiment_says(
    world: ApiWorld, source: str, project: str
) -> None:
    await world.add_agent("node-1", slots=2)
    run = await world.run_of(await world.create(SINGLE.replace("[first]", "['pay:lab 7', b]")))
    section = SlurmSection(type="slurm", job_project_source=source)
    projects = JobProjects(world.services.store, [resolved_pool("default", section)])
    assert await projects.of(replace(DONE, allocation_id=run.id)) == project
    assert await projects.of(replace(DONE, allocation_id="nobody.1")) == ""


async def test_jobs_of_others_stand_in_the_queue_behind_ours(world: ApiWorld) -> None:
    """As external ones, in both listings; states and pages count them."""
    await world.create(SINGLE)

    async def others(pool: str) -> list[ForeignJob]:
        assert pool == "default"
        known = {"system": "slurm", "user": "eve", "submitted": 1_800_000_000.0}
        return [
            ForeignJob(job_id="71", name="vasp", waits=False, nodes=4, **known),
            ForeignJob(job_id="72_[1-9]", name="md", waits=True, **known),
        ]

    object.__setattr__(world.services, "jobs_of_others", others)
    url = "/api/v1/job-queues?resourcePool=default"
    listed = await world.ok("GET", url)
    assert [job["type"] for job in listed["jobs"]] == ["TYPE_EXPERIMENT", *["TYPE_EXTERNAL"] * 2]
    assert listed["pagination"]["total"] == 3
    first, second = listed["jobs"][1:]
    assert (first["jobId"], first["username"], first["name"]) == ("slurm-71", "eve", "vasp")
    assert first["summary"] == {"state": "STATE_SCHEDULED", "jobsAhead": -1}
    assert second["summary"]["state"] == "STATE_QUEUED"
    again = await world.ok("GET", url.replace("queues", "queues-v2") + "&limit=1&offset=1")
    assert [job["full"]["jobId"] for job in again["jobs"]] == ["slurm-71"]
    waiting = await world.ok("GET", f"{url}&states=STATE_SCHEDULED")
    assert [job["jobId"] for job in waiting["jobs"]] == ["slurm-71"]
    await world.login("determined")
    seen = (await world.ok("GET", url))["jobs"][1]
    assert (seen["jobId"], seen["username"], seen["name"]) == ("slurm-71", "", "4 nodes")
