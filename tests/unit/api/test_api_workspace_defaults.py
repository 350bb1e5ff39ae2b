"""Default pools and checkpoint storage of workspaces: who sets them, what they do to what is submitted there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rm_backends.base import RmEvents
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world
from tests.fakes.dispatch_backend import DispatchBackend, Site
from windlass.base.ids import Ids

WORKSPACES, EXPERIMENTS = "/api/v1/workspaces", "/api/v1/experiments"
POOL = "/api/v1/resource-pools/gpu/workspace-bindings"
BUCKET = {"type": "s3", "bucket": "lab", "access_key": "lab-id", "secret_key": "lab-secret"}
AT_SERVER = {**BUCKET, "endpoint_url": "https://s3.lab.example"}
"""An address that a user names: the master does not try it."""
NO_SLOTS = SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 0")


@pytest.fixture
async def world(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """On both databases."""

    def site(events: RmEvents) -> DispatchBackend:
        return DispatchBackend(Site(automatic=False), events, Ids.seeded(2), pool="gpu")

    async with api_world(tmp_path, db_url=db_url, backends={"gpu": site}) as opened:
        await opened.login()
        yield opened


async def workspace(world: ApiWorld, name: str = "lab", **more: Any) -> dict[str, Any]:
    return dict((await world.ok("POST", WORKSPACES, {"name": name, **more}))["workspace"])


async def patched(world: ApiWorld, id_: int, **change: Any) -> dict[str, Any]:
    return dict((await world.ok("PATCH", f"{WORKSPACES}/{id_}", change))["workspace"])


async def project(world: ApiWorld, workspace_id: int) -> int:
    made = await world.ok("POST", f"{WORKSPACES}/{workspace_id}/projects", {"name": "vision"})
    return int(made["project"]["id"])


async def submit(world: ApiWorld, project_id: int, config: str = SINGLE, **more: Any) -> Any:
    body = {"config": config, "activate": False, "projectId": project_id, **more}
    return await world.ok("POST", EXPERIMENTS, body)


async def pool_of(world: ApiWorld, project_id: int, config: str = SINGLE) -> str:
    return str((await submit(world, project_id, config))["experiment"]["resourcePool"])


async def storage_of(world: ApiWorld, project_id: int, config: str = SINGLE) -> dict[str, Any]:
    return dict((await submit(world, project_id, config))["config"]["checkpoint_storage"])


async def test_work_that_names_no_pool_goes_to_that_of_its_workspace(world: ApiWorld) -> None:
    lab = await workspace(world, defaultComputePool="gpu")
    inside = await project(world, lab["id"])
    assert (lab["defaultComputePool"], lab["defaultAuxPool"]) == ("gpu", "")
    assert await pool_of(world, inside) == "gpu"
    assert await pool_of(world, inside, NO_SLOTS) == "default"
    named = SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 1, resource_pool: default")
    assert await pool_of(world, inside, named) == "default"
    assert await pool_of(world, 1) == "default"

    async def command(slots: int) -> str:
        config = {"entrypoint": ["true"], "resources": {"slots": slots}}
        body = {"config": config, "workspaceId": lab["id"]}
        return str((await world.ok("POST", "/api/v1/commands", body))["command"]["resourcePool"])

    assert [await command(1), await command(0)] == ["gpu", "default"]
    # As `det workspace edit` writes it; what it does not name is null.
    change = {"defaultAuxResourcePool": "gpu", "defaultComputeResourcePool": None, "name": None}
    changed = await patched(world, lab["id"], **change)
    assert (changed["defaultComputePool"], changed["defaultAuxPool"]) == ("gpu", "gpu")
    assert await pool_of(world, inside, NO_SLOTS) == "gpu"
    cleared = await patched(world, lab["id"], defaultComputePool="", defaultAuxPool="")
    assert (cleared["defaultComputePool"], cleared["defaultAuxPool"]) == ("", "")
    assert await pool_of(world, inside) == "default"


async def test_a_default_pool_must_be_usable_and_gives_way_when_it_is_not(world: ApiWorld) -> None:
    lab = await workspace(world, defaultComputePool="gpu")
    inside = await project(world, lab["id"])
    other = await workspace(world, "other")
    await world.ok("POST", POOL, {"resourcePoolName": "gpu", "workspaceIds": [other["id"]]})
    told = (await submit(world, inside))["configWarnings"]
    assert await pool_of(world, inside) == "default"
    assert any("'gpu', the default compute pool of workspace" in line for line in told)
    for change in ({"defaultComputePool": "gpu"}, {"defaultAuxPool": "gpu"}):
        said = await world.refused(400, "PATCH", f"{WORKSPACES}/{lab['id']}", change)
        assert "'gpu' does not exist or is not available to workspace" in said
        await world.refused(400, "POST", WORKSPACES, {"name": "new", **change})
    absent = {"defaultAuxPool": "tpu"}
    gone = await world.refused(400, "PATCH", f"{WORKSPACES}/{lab['id']}", absent)
    assert gone == said.replace("gpu", "tpu")


async def test_the_storage_of_a_workspace_lies_between_the_cluster_and_an_experiment(
    world: ApiWorld,
) -> None:
    lab = await workspace(world, checkpointStorageConfig={**AT_SERVER, "save_trial_best": 3})
    inside = await project(world, lab["id"])
    found = await storage_of(world, inside)
    assert {**found, **AT_SERVER, "save_trial_best": 3} == found
    own = "\ncheckpoint_storage: {type: s3, bucket: mine, save_trial_latest: 5}"
    merged = await storage_of(world, inside, SINGLE + own)
    assert merged["bucket"] == "mine"
    assert merged["secret_key"] == "lab-secret"
    assert (merged["save_trial_best"], merged["save_trial_latest"]) == (3, 5)
    folder = "\ncheckpoint_storage: {type: shared_fs, host_path: /tmp}"
    other = await storage_of(world, inside, SINGLE + folder)
    assert (other["type"], other["save_trial_best"]) == ("shared_fs", 3)
    assert "bucket" not in other
    unmanaged = "{name: u, searcher: {name: single, metric: loss}}"
    outside = (await submit(world, inside, unmanaged, unmanaged=True))["config"]
    assert outside["checkpoint_storage"]["bucket"] == "lab"
    assert (await patched(world, lab["id"], checkpointStorageConfig={}))[
        "checkpointStorageConfig"
    ] is None
    assert (await storage_of(world, inside))["type"] == "shared_fs"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"type": "s3"}, "<workspace>.checkpointStorageConfig: bucket is a required property"),
        ({"bucket": "b"}, "<workspace>.checkpointStorageConfig"),
        ({"type": "s3", "bucket": "b", "buket": "c"}, 'did you mean "bucket"?'),
        ({**BUCKET, "secret_key": "********"}, "a secret is ********"),
        (
            {"type": "s3", "bucket": "no bucket"},
            "<workspace>.checkpointStorageConfig.bucket: 'no bucket'",
        ),
        ({"type": "shared_fs", "host_path": "/proc"}, "host_path: /proc is in /proc"),
    ],
)
async def test_storage_that_no_experiment_could_use_is_refused(
    world: ApiWorld, given: dict[str, Any], problem: str
) -> None:
    body = {"checkpointStorageConfig": given}
    assert problem in await world.refused(400, "POST", WORKSPACES, {"name": "n", **body})
    lab = await workspace(world)
    assert problem in await world.refused(400, "PATCH", f"{WORKSPACES}/{lab['id']}", body)


async def test_keys_are_shown_to_those_who_may_change_them(world: ApiWorld) -> None:
    lab = await workspace(world, checkpointStorageConfig=AT_SERVER)
    url = f"{WORKSPACES}/{lab['id']}"
    assert lab["checkpointStorageConfig"] == AT_SERVER
    user = {"user": {"username": "other", "active": True}, "password": PASSWORD, "isHashed": False}
    await world.ok("POST", "/api/v1/users", user)
    await world.login("other")
    hidden = {**AT_SERVER, "access_key": "********", "secret_key": "********"}
    assert (await world.ok("GET", url))["workspace"]["checkpointStorageConfig"] == hidden
    listed = (await world.ok("GET", WORKSPACES))["workspaces"]
    assert [one["checkpointStorageConfig"] for one in listed] == [None, hidden]
    for change in ({"checkpointStorageConfig": {}}, {"defaultAuxPool": "default"}):
        await world.refused(403, "PATCH", url, change)
