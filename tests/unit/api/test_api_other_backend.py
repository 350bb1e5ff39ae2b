"""The API over a resource manager that is no pool of agents: it knows Protocols only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rm_backends.base import RmEvents
from tests.fakes.api_world import SINGLE, ApiWorld, api_world
from tests.fakes.dispatch_backend import DispatchBackend, Site
from tests.fakes.transports_world import until
from windlass.base.ids import Ids

GANG = SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 8, resource_pool: site")


@pytest.fixture
def site() -> Site:
    return Site(automatic=False)


@pytest.fixture
async def both(tmp_path: Path, site: Site) -> AsyncIterator[ApiWorld]:
    """A pool `default` of agents, and a pool `site` whose queue is somebody else's."""

    def dispatch(events: RmEvents) -> DispatchBackend:
        return DispatchBackend(site, events, Ids.seeded(2), pool="site")

    async with api_world(tmp_path, backends={"site": dispatch}) as opened:
        await opened.login()
        yield opened


async def test_pools_of_both_backends_are_listed(both: ApiWorld) -> None:
    pools = (await both.ok("GET", "/api/v1/resource-pools"))["resourcePools"]
    assert [(pool["name"], pool["schedulerType"], pool["location"]) for pool in pools] == [
        ("default", "SCHEDULER_TYPE_FAIR_SHARE", "on-prem"),
        ("site", "SCHEDULER_TYPE_SLURM", "cloud"),
    ]


async def test_work_waits_in_the_queue_of_others_until_all_its_nodes_have_come(
    both: ApiWorld, site: Site
) -> None:
    await both.add_agent("node-1")
    id_ = await both.create(GANG)
    job_id = (await both.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]["jobId"]
    (queued,) = (await both.ok("GET", "/api/v1/job-queues-v2?resourcePool=site"))["jobs"]
    assert queued["full"]["waitingReason"].endswith("Priority, 0 jobs ahead, 0 of 2 nodes")
    assert queued["full"]["isPreemptible"] is False
    explained = await both.ok("GET", f"/api/v1/windlass/jobs/{job_id}/explain")
    (waiting,) = explained["waiting"]
    assert waiting["expectedStart"] == "2026-01-02T12:00:00.000000Z"
    assert waiting["advice"] == "wait: the queue of slurm decides when it starts"

    site.give()
    agents = (await both.ok("GET", "/api/v1/agents"))["agents"]
    assert [(agent["id"], agent["resourcePools"]) for agent in agents] == [
        ("n1", ["site"]),
        ("node-1", ["default"]),
    ]
    (queued,) = (await both.ok("GET", "/api/v1/job-queues-v2?resourcePool=site"))["jobs"]
    assert queued["full"]["allocatedSlots"] == 0
    site.give()
    run = await both.run_of(id_)
    assert [state.container.agent_id for state in run.containers] == ["n1", "n2"]
    explained = await both.ok("GET", f"/api/v1/windlass/jobs/{job_id}/explain")
    assert (explained["waiting"], explained["text"]) == ([], "holds 8 slots")


async def test_a_request_that_waits_elsewhere_is_withdrawn(both: ApiWorld, site: Site) -> None:
    id_ = await both.create(GANG)
    assert len(site.jobs) == 1
    await both.ok("POST", f"/api/v1/experiments/{id_}/kill")
    await until(lambda: not site.jobs)


async def test_nodes_of_others_are_not_operated_from_here(both: ApiWorld, site: Site) -> None:
    await both.create(GANG)
    site.give()
    said = await both.refused(400, "POST", "/api/v1/agents/n1/disable", {})
    assert "agent 'n1' of resource pool 'site' cannot be enabled, disabled or removed here" in said
    said = await both.refused(400, "POST", "/api/v1/job-queues", {"updates": [await _moved(both)]})
    assert "pool site has its queue elsewhere" in said
    await both.add_agent("node-1")
    await both.ok("POST", "/api/v1/agents/node-1/disable", {})


async def _moved(both: ApiWorld) -> dict[str, str]:
    other = await both.create(GANG)
    jobs = [
        (await both.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]["jobId"]
        for id_ in (1, other)
    ]
    return {"jobId": jobs[1], "aheadOf": jobs[0]}
