"""Pools that are kept for workspaces which somebody may not see are not there for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from master.core.roles.catalogue import RoleId
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from provisioner.planning.preview import PlannedLaunch, Preview
from provisioner.types import Offer, OfferKey
from rm_backends.base import RmEvents
from tests.fakes.api_world import SINGLE, ApiWorld, api_world
from tests.fakes.dispatch_backend import DispatchBackend, Site
from tests.fakes.one_instance import OneInstance
from windlass.base.ids import Ids

POOLS, ASSIGN = "/api/v1/resource-pools", "/api/v1/roles/add-assignments"
IN_GPU = SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 1, resource_pool: gpu")


@pytest.fixture
async def rbac(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    """Pool gpu is the lab's. `determined` edits workspace 1, and sees no other."""

    def site(events: RmEvents) -> DispatchBackend:
        return DispatchBackend(Site(automatic=False), events, Ids.seeded(2), pool="gpu")

    authz = {"authz.type": "rbac"}
    async with api_world(tmp_path, security=authz, backends={"gpu": site}) as world:
        await world.login()
        lab = (await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"]
        bound = {"resourcePoolName": "gpu", "workspaceIds": [lab]}
        await world.ok("POST", f"{POOLS}/gpu/workspace-bindings", bound)
        await give(world, RoleId.EDITOR, 1)
        yield world


async def give(world: ApiWorld, role: RoleId, workspace: int | None) -> None:
    one = {"role": {"roleId": int(role)}, "scopeWorkspaceId": workspace}
    await world.ok("POST", ASSIGN, {"userRoleAssignments": [{"userId": 2, "roleAssignment": one}]})


async def names(world: ApiWorld, query: str = "", **options: str) -> list[str]:
    found = await world.ok("GET", f"{POOLS}{query}", **options)
    assert found["pagination"]["total"] == len(found["resourcePools"])
    return [pool["name"] for pool in found["resourcePools"]]


async def test_a_pool_of_a_hidden_workspace_is_not_there(rbac: ApiWorld) -> None:
    assert await names(rbac) == ["default", "gpu"]
    assert await names(rbac, "?unbound=true") == ["default"]
    mine = rbac.token
    other = await rbac.login("determined")
    rbac.token = mine

    async def is_seen() -> list[bool]:
        ours = await rbac.ok("GET", "/api/v1/windlass/pools", token=other)
        stats = await rbac.ok("GET", "/api/v1/job-queues/stats", token=other)
        return [
            "gpu" in await names(rbac, token=other),
            "gpu" in [pool["name"] for pool in ours["pools"]],
            "gpu" in [pool["resourcePool"] for pool in stats["results"]],
        ]

    assert await is_seen() == [False] * 3

    async def told(pool: str) -> list[str]:
        config = {"config": IN_GPU.replace("gpu", pool)}
        run = {"config": {"entrypoint": ["true"], "resources": {"resource_pool": pool}}}
        job = (await rbac.ok("POST", "/api/v1/commands", {"config": {"entrypoint": ["true"]}}))[
            "command"
        ]["jobId"]
        move = {"updates": [{"jobId": job, "resourcePool": pool}]}
        said = [
            await rbac.refused(400, "POST", "/api/v1/experiments", config, token=other),
            await rbac.refused(400, "POST", "/api/v1/commands", run, token=other),
            await rbac.refused(400, "POST", "/api/v1/job-queues", move, token=other),
            *[
                await rbac.refused(404, "GET", f"/api/v1/{path}={pool}", token=other)
                for path in ("job-queues?resourcePool", "job-queues-v2?resourcePool")
            ],
            await rbac.refused(
                404, "GET", f"/api/v1/job-queues/stats?resourcePools={pool}", token=other
            ),
        ]
        bound = await rbac.ok("GET", f"{POOLS}/{pool}/workspace-bindings", token=other)
        return [*said, str(bound)]

    assert [line.replace("gpu", "tpu") for line in await told("gpu")] == await told("tpu")
    await give(rbac, RoleId.VIEWER, 2)
    assert await is_seen() == [True] * 3


async def test_agents_and_machines_do_not_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = Offer(key=OfferKey(provider="site"), slots=8, usd_per_hour=2.0, boot_s=60.0)
    launch = PlannedLaunch(pool="default", offer=offer, count=1, ready_in_s=0.0, request_ids=())

    async def planned(*_: object) -> Preview:
        return Preview(launches=(launch,), reasons={}, considered=())

    monkeypatch.setattr(OneInstance, "preview", planned)
    authz = {"authz.type": "rbac"}
    async with api_world(tmp_path, security=authz, elastic=True) as world:
        await world.login()
        await world.add_agent()
        made = await world.ok("POST", "/api/v1/workspaces", {"name": "lab"})
        unit = UnitOfWork()
        row = {"pool": "default", "workspace_id": made["workspace"]["id"]}
        unit.insert(tables.PoolBinding, row)
        await world.services.store.commit(unit)
        mine = world.token
        for token, pools, count in (
            (mine, ["default"], 1),
            (await world.login("determined"), ["********"], 0),
        ):
            (agent,) = (await world.ok("GET", "/api/v1/agents", token=token))["agents"]
            assert agent["resourcePools"] == pools
            fleet = await world.ok("GET", "/api/v1/windlass/fleet", token=token)
            offers = await world.ok("GET", "/api/v1/windlass/fleet/offers", token=token)
            assert (len(fleet["instances"]) > 0, len(offers["offers"]) > 0) == (count, count)
            bakes = await world.ok("GET", "/api/v1/windlass/fleet/bakes", token=token)
            plan = await world.ok("GET", "/api/v1/windlass/fleet/plan", token=token)
            assert (len(bakes["bakes"]), len(plan["launches"])) == (count, count)
            assert plan["usdPerHour"] == 2.0 * count


async def test_work_that_was_there_before_shows_its_owner_the_queue(rbac: ApiWorld) -> None:
    await rbac.ok("PUT", f"{POOLS}/gpu/workspace-bindings", {"resourcePoolName": "gpu"})
    mine = rbac.token
    other = await rbac.login("determined")
    await rbac.create(IN_GPU)
    bound = {"resourcePoolName": "gpu", "workspaceIds": [2]}
    await rbac.ok("PUT", f"{POOLS}/gpu/workspace-bindings", bound, token=mine)
    assert await names(rbac, token=other) == ["default"]
    queue = await rbac.ok("GET", "/api/v1/job-queues-v2?resourcePool=gpu", token=other)
    assert [list(job) for job in queue["jobs"]] == [["full"]]
