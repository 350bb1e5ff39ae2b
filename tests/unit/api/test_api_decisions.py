"""The planner's journal and batch jobs as the API tells of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from master.core.visibility import Visibility
from master.store import tables
from master.store.repositories import decisions as repository
from master.store.unit_of_work import UnitOfWork
from provisioner.journal.records import Alternative, DecisionKind
from provisioner.leases.job_views import BatchJobView, JobPurpose, JobStage
from provisioner.types import OfferKey
from tests.fakes.api_world import ApiWorld, api_world
from tests.fakes.decisions import a_decision, write

PATH, BATCH_JOBS = "/api/v1/windlass/fleet/decisions", "/api/v1/windlass/fleet/batch-jobs"
OFFER = OfferKey(provider="cloud", zone="a", instance_type="gpu-4")
OTHER = OfferKey(provider="cloud", zone="b", instance_type="gpu-4")


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    async with api_world(tmp_path, security={"authz.type": "rbac"}, elastic=True) as world:
        await world.login()
        yield world


async def ids(world: ApiWorld, query: str = "", token: str | None = None) -> list[str]:
    found = await world.ok("GET", f"{PATH}?{query}", token=token or world.token)
    assert found["pagination"]["total"] >= len(found["decisions"])
    return [each["id"] for each in found["decisions"]]


async def test_a_decision_is_told_whole(world: ApiWorld) -> None:
    weighed = Alternative(
        offer=OTHER, machines=2, usd=None, usd_per_work_hour=None, launched=0, why_not="no capacity"
    )
    chosen = replace(weighed, offer=OFFER, usd=8.0, usd_per_work_hour=8.5, launched=2, why_not="")
    decision = a_decision(
        "d",
        at=60.0,
        kind=DecisionKind.LAUNCHED,
        reason="launching 2 x gpu-4 in a for 1 run",
        last_at=90.0,
        times=2,
        offer=OFFER,
        machines=2,
        slots=8,
        usd=8.0,
        runs=1,
        jobs=("gone",),
        instances=("i-1", "i-2"),
        weighed=3,
        alternatives=(chosen, weighed),
    )
    await write(world.services.store, decision)
    (found,) = (await world.ok("GET", PATH))["decisions"]
    alternatives = found.pop("alternatives")
    assert found == {
        "id": "d",
        "pool": "default",
        "kind": "launched",
        "reason": "launching 2 x gpu-4 in a for 1 run",
        "stands": False,
        "firstAt": "1970-01-01T00:01:00.000000Z",
        "lastAt": "1970-01-01T00:01:30.000000Z",
        "times": 2,
        "offer": "cloud/a/gpu-4/on_demand",
        "machines": 2,
        "slots": 8,
        "usdPerHour": 8.0,
        "runs": 1,
        "jobs": ["gone"],
        "instances": ["i-1", "i-2"],
        "said": "",
        "weighed": 3,
    }
    assert [each["whyNot"] for each in alternatives] == ["", "no capacity"]
    assert alternatives[1] == {
        "offer": "cloud/b/gpu-4/on_demand",
        "machines": 2,
        "usdPerHour": None,
        "usdPerWorkHour": None,
        "launched": 0,
        "whyNot": "no capacity",
    }


async def test_decisions_are_found_by_what_they_are_about(world: ApiWorld) -> None:
    await write(
        world.services.store,
        a_decision("old", at=10.0, kind=DecisionKind.ENDED, instances=("i-1",)),
        a_decision("new", at=20.0, jobs=("j",), runs=1),
        a_decision("long", at=5.0, last_at=30.0, pool="spare"),
    )
    assert await ids(world) == ["long", "new", "old"]
    assert await ids(world, "limit=1&offset=1") == ["new"]
    assert await ids(world, "id=new") == ["new"]
    assert await ids(world, "pool=default&kind=ended") == ["old"]
    assert await ids(world, "machine=i-1") == ["old"]
    assert await ids(world, "job=j") == ["new"]
    assert await ids(world, "machine=i-1&job=j") == []
    assert await ids(world, "since=1970-01-01T00:00:20Z") == ["long", "new"]
    assert await ids(world, "until=1970-01-01T00:00:10Z") == ["long"]
    await world.refused(400, "GET", f"{PATH}?kind=bought")
    await world.refused(400, "GET", f"{PATH}?since=yesterday")


async def test_nothing_is_told_of_pools_and_jobs_that_one_may_not_see(world: ApiWorld) -> None:
    mine = world.token
    hidden = (await world.ok("GET", f"/api/v1/experiments/{await world.create()}"))["experiment"]
    decision = a_decision("d", jobs=(hidden["jobId"],), runs=1)
    await write(world.services.store, decision)
    assert await ids(world, f"job={hidden['jobId']}") == ["d"]
    other = await world.login("determined")
    (found,) = (await world.ok("GET", PATH, token=other))["decisions"]
    assert (found["jobs"], found["runs"]) == ([], 1)
    assert await ids(world, f"job={hidden['jobId']}", other) == []
    await keep_default_pool(world, mine)
    assert await ids(world, token=other) == []
    assert await ids(world, token=mine) == ["d"]


async def test_jobs_of_a_page_are_looked_up_in_parts(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await world.create() for _ in range(3)]
    jobs = {
        (await world.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]["jobId"] for id_ in ids
    }
    monkeypatch.setattr(repository, "IDS_AT_ONCE", 2)
    reads = repository.DecisionQueries(world.services.store)
    here, elsewhere = Visibility(frozenset({1})), Visibility(frozenset({2}))
    assert await reads.visible_jobs({*jobs, "gone"}, here) == jobs
    assert await reads.visible_jobs(jobs, elsewhere) == set()


async def test_a_batch_job_names_the_work_that_one_may_see(world: ApiWorld) -> None:
    mine = world.token
    await world.create()
    (run,) = world.services.cluster.queue("default")
    view = BatchJobView(
        name="wl-1",
        system="slurm",
        job_id="17",
        pool="default",
        queue="gpu",
        purpose=JobPurpose.RUN,
        stage=JobStage.QUEUED,
        site_state="PENDING",
        reason="Slurm job 17 in partition gpu waits: Priority",
        nodes=2,
        slots=8,
        node_names=(),
        walltime_s=3600.0,
        created_at=60.0,
        starts_at=None,
        ends_at=None,
        allocation_id=run.allocation_id,
    )
    object.__setattr__(world.services, "batch_jobs", lambda: [view])
    (found,) = (await world.ok("GET", BATCH_JOBS))["jobs"]
    assert (found["jobId"], found["stage"], found["siteState"]) == ("17", "queued", "PENDING")
    assert (found["walltimeS"], found["startsAt"], found["runs"]) == (3600.0, None, 1)
    assert found["work"] == [
        {"jobId": run.job.id, "allocationId": run.allocation_id, "name": run.name}
    ]
    left = replace(view, name="wl-0", pool="taken out of master.yaml")
    object.__setattr__(world.services, "batch_jobs", lambda: [view, left])
    jobs = (await world.ok("GET", BATCH_JOBS))["jobs"]
    assert [(job["name"], job["runs"]) for job in jobs] == [("wl-1", 1), ("wl-0", 0)]
    object.__setattr__(world.services, "batch_jobs", lambda: [view])
    other = await world.login("determined")
    (found,) = (await world.ok("GET", BATCH_JOBS, token=other))["jobs"]
    assert (found["work"], found["runs"]) == ([], 1)
    await keep_default_pool(world, mine)
    assert (await world.ok("GET", BATCH_JOBS, token=other))["jobs"] == []


async def keep_default_pool(world: ApiWorld, token: str | None) -> None:
    """For a workspace of which only the administrator knows."""
    made = await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}, token=token)
    unit = UnitOfWork()
    unit.insert(tables.PoolBinding, {"pool": "default", "workspace_id": made["workspace"]["id"]})
    await world.services.store.commit(unit)
