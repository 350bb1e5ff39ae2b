"""Pools that are kept for some workspaces: who binds them, and what is refused from then on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rm_backends.base import RmEvents
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world
from tests.fakes.dispatch_backend import DispatchBackend, Site
from windlass.base.ids import Ids

POOL = "/api/v1/resource-pools/gpu/workspace-bindings"
IN_GPU = SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 1, resource_pool: gpu")


async def workspace(world: ApiWorld, name: str) -> int:
    return int((await world.ok("POST", "/api/v1/workspaces", {"name": name}))["workspace"]["id"])


def of(*names: str, ids: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"resourcePoolName": "gpu", "workspaceNames": list(names), "workspaceIds": list(ids)}


async def bound(world: ApiWorld) -> list[int]:
    return list((await world.ok("GET", POOL))["workspaceIds"])


async def pools_of(world: ApiWorld, id_: int) -> list[str]:
    found = await world.ok("GET", f"/api/v1/workspaces/{id_}/available-resource-pools")
    return list(found["resourcePools"])


@pytest.fixture
async def world(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """On both databases."""

    def site(events: RmEvents) -> DispatchBackend:
        return DispatchBackend(Site(automatic=False), events, Ids.seeded(2), pool="gpu")

    async with api_world(tmp_path, db_url=db_url, backends={"gpu": site}) as opened:
        await opened.login()
        yield opened


async def test_the_life_of_bindings(world: ApiWorld) -> None:
    lab, shop = await workspace(world, "lab"), await workspace(world, "shop")
    assert await bound(world) == []
    assert await pools_of(world, shop) == ["default", "gpu"]
    await world.ok("POST", POOL, of("LAB"))
    assert await bound(world) == [lab]
    assert await pools_of(world, shop) == ["default"]
    assert await pools_of(world, lab) == ["default", "gpu"]
    said = await world.refused(409, "POST", POOL, of("shop", ids=(lab,)))
    assert said == "resource pool 'gpu' is bound to workspace lab already"
    assert await bound(world) == [lab]
    await world.ok("PUT", POOL, of(ids=(shop,)))
    assert await bound(world) == [shop]
    said = await world.refused(404, "DELETE", POOL, of("lab"))
    assert said == "binding 'gpu to workspace lab' not found"
    await world.ok("DELETE", POOL, of("shop"))
    assert await pools_of(world, lab) == ["default", "gpu"]
    await world.ok("POST", POOL, of("lab"))
    await world.ok("DELETE", f"/api/v1/workspaces/{lab}")
    assert await bound(world) == []


async def test_what_is_wrong_is_named(world: ApiWorld) -> None:
    said = await world.refused(404, "POST", POOL, of("lab", ids=(77,)))
    assert said == "workspace '77, lab' not found"
    said = await world.refused(404, "POST", POOL.replace("gpu", "tpu"), of(ids=(1,)))
    assert said == "resource pool 'tpu' not found"
    said = await world.refused(400, "POST", POOL.replace("gpu", "default"), of(ids=(1,)))
    assert said.startswith("resource pool 'default' is a default pool, which stays everybody's")
    for method in ("POST", "DELETE"):
        assert "at least one" in await world.refused(400, method, POOL, of())
    user = {"user": {"username": "other", "active": True}, "password": PASSWORD, "isHashed": False}
    await world.ok("POST", "/api/v1/users", user)
    other = await world.login("other")
    for method in ("POST", "PUT", "DELETE"):
        await world.refused(403, method, POOL, of(ids=(1,)), token=other)


async def test_others_submit_and_move_nothing_to_a_bound_pool(world: ApiWorld) -> None:
    before = await world.create(IN_GPU)
    elsewhere = await world.create()
    await workspace(world, "lab")
    await world.ok("POST", POOL, of("lab"))
    words = 'there is no pool "gpu" for workspace 1; use one of default'
    assert words in await world.refused(400, "POST", "/api/v1/experiments", {"config": IN_GPU})
    command = {"config": {"entrypoint": ["true"], "resources": {"resource_pool": "gpu"}}}
    assert words in await world.refused(400, "POST", "/api/v1/commands", command)
    job = (await world.ok("GET", f"/api/v1/experiments/{elsewhere}"))["experiment"]["jobId"]
    update = {"updates": [{"jobId": job, "resourcePool": "gpu"}]}
    words = "resource pool 'gpu' does not exist or is not available to workspace 1"
    assert words in await world.refused(400, "POST", "/api/v1/job-queues", update)
    found = (await world.ok("GET", f"/api/v1/experiments/{before}"))["experiment"]
    assert found["state"] == "STATE_QUEUED"


async def test_what_has_not_ended_is_not_moved_to_where_its_pool_may_not_be_used(
    world: ApiWorld,
) -> None:
    made = await world.ok("POST", "/api/v1/workspaces/1/projects", {"name": "here"})
    here = made["project"]["id"]
    waiting = await world.create(IN_GPU, projectId=here)
    (shop, lab) = [await workspace(world, name) for name in ("shop", "lab")]
    made = await world.ok("POST", f"/api/v1/workspaces/{shop}/projects", {"name": "there"})
    there = made["project"]["id"]
    await world.ok("POST", POOL, of("lab", ids=(1,)))
    words = (
        f"workspace {shop} may not use the resource pools of experiments that have not ended: {waiting} ('gpu'): "
        "end them, give them one of default, or ask an administrator to bind the pools"
    )
    one, whole = f"/api/v1/experiments/{waiting}", f"/api/v1/projects/{here}"
    to_shop = {"destinationWorkspaceId": shop}
    assert await world.refused(400, "POST", f"{one}/move", {"destinationProjectId": there}) == words
    assert await world.refused(400, "POST", f"{whole}/move", to_shop) == words
    bulk = {"projectId": here, "destinationProjectId": there}
    several = {**bulk, "experimentIds": [waiting]}
    moved = await world.ok("POST", f"/api/v1/projects/{here}/experiments/move", several)
    assert [result["error"] for result in moved["results"]] == [words]
    trial = {**bulk, "sourceProjectId": here, "runIds": [world.trial_id(waiting)]}
    moved = await world.ok("POST", "/api/v1/runs/move", trial)
    assert [result["error"] for result in moved["results"]] == [words]
    assert (await world.ok("GET", one))["experiment"]["state"] == "STATE_QUEUED"
    # To where it may be used, and once it has ended to anywhere.
    await world.ok("POST", f"{whole}/move", {"destinationWorkspaceId": lab})
    assert (await world.ok("GET", one))["experiment"]["workspaceId"] == lab
    await world.ok("POST", f"{one}/kill")
    await world.ok("POST", f"{one}/move", {"destinationProjectId": there})
    await world.ok("POST", f"{whole}/move", to_shop)
