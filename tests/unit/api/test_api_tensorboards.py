"""TensorBoards over REST: what they show, who may start one, and what their task is given."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from master.core.expconf import ClusterDefaults
from master.core.words import three_words
from rm_backends.base import LaunchSpec
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world
from tests.unit.api.test_api_interactive import live_of, running, user

URL = "/api/v1/tensorboards"
S3 = """
checkpoint_storage: {type: s3, bucket: theirs, access_key: AK, secret_key: SK, endpoint_url: "http://127.0.0.1:9"}
"""


def stored_at(folder: Path) -> str:
    folder.mkdir()
    return SINGLE + f"\ncheckpoint_storage: {{type: shared_fs, host_path: {folder}}}\n"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    storage = {"type": "shared_fs", "host_path": str(tmp_path)}
    defaults = ClusterDefaults(checkpoint_storage=storage, tensorboard_timeout_s=300)
    async with api_world(tmp_path, defaults=defaults) as world:
        await world.login()
        yield world


async def spec_of(world: ApiWorld, task_id: str) -> LaunchSpec:
    """What its agent was given."""
    run = await running(world, task_id)
    return live_of(world, task_id).launch_spec(run, "token")


async def launched(world: ApiWorld, **body: Any) -> dict[str, Any]:
    return dict((await world.ok("POST", URL, {"config": {}, **body}))["tensorboard"])


async def test_it_shows_experiments_by_the_request_of_the_published_client(world: ApiWorld) -> None:
    experiment = await world.create()
    request = {
        "config": {},
        "experimentIds": [experiment],
        "files": [],
        "trialIds": None,
        "workspaceId": None,
    }
    reply = await world.ok("POST", URL, request)
    shown = reply["tensorboard"]
    assert shown["description"] == f"TensorBoard ({three_words(shown['id'])})"
    assert (shown["experimentIds"], shown["trialIds"]) == ([experiment], [])
    assert shown["serviceAddress"] == f"/proxy/{shown['id']}/"
    assert reply["config"]["resources"]["slots"] == 0
    assert reply["config"]["idle_timeout"] == "5m"
    listed = (await world.ok("GET", URL))["tensorboards"]
    assert [one["experimentIds"] for one in listed] == [[experiment]]
    assert (await world.ok("GET", f"{URL}/{shown['id']}"))["tensorboard"] == listed[0]


@pytest.mark.slow
async def test_its_task_is_told_the_folders_and_sees_the_storages(
    world: ApiWorld, tmp_path: Path
) -> None:
    await world.add_agent()
    ids = [await world.create(stored_at(tmp_path / name)) for name in ("a", "b")]
    trial = world.trial_id(ids[0])
    shown = await launched(world, experimentIds=[ids[1]], trialIds=[trial])
    assert (shown["experimentIds"], shown["trialIds"]) == ([ids[1]], [trial])
    spec = await spec_of(world, shown["id"])
    cluster = world.services.info.cluster_id
    (file,) = (file for file in spec.files if file.path.endswith("/sources.json"))
    told = json.loads(file.content)["sources"]
    assert [(one["name"], one["folder"]) for one in told] == [
        (f"experiment/{ids[1]}", f"{cluster}/tensorboard/experiment/{ids[1]}"),
        (
            f"experiment/{ids[0]}/trial/{trial}",
            f"{cluster}/tensorboard/experiment/{ids[0]}/trial/{trial}",
        ),
    ]
    assert [(b.source, b.target, b.read_only) for b in spec.binds] == [
        (str(tmp_path / "b"), "/determined_shared_fs", True),
        (str(tmp_path / "a"), "/determined_shared_fs.2", True),
    ]
    assert spec.environment["TENSORBOARD_PORT"] == "2600"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 400, "experimentIds, trialIds: say which experiments or trials to show"),
        ({"experimentIds": [77, 78], "trialIds": [9]}, 404, "'77' not found, nor experiment '78'"),
        ({"filters": {"name": "nothing is called so"}}, 400, "no experiment matches"),
        ({"filters": {}, "experimentIds": [1]}, 400, "either these or filters"),
        ({"experimentIds": ["one"]}, 400, "experimentIds"),
        ({"experimentIds": [1], "workspaceId": 99}, 404, "workspace"),
    ],
)
async def test_what_shows_nothing_is_refused(
    world: ApiWorld, body: dict[str, Any], status: int, says: str
) -> None:
    await world.create()
    assert says in await world.refused(status, "POST", URL, {"config": {}, **body})


async def test_all_problems_of_its_configuration_are_told_at_once(world: ApiWorld) -> None:
    experiment = await world.create()
    config = {"idle_timeout": "soon", "tensorbord_args": [], "resources": {"priority": 100}}
    body = {"config": config, "experimentIds": [experiment]}
    refused = await world.refused(400, "POST", URL, body)
    for key in ("idle_timeout", "tensorbord_args", "priority", "TensorBoard configuration"):
        assert key in refused


async def test_filters_find_experiments(world: ApiWorld) -> None:
    ids = [await world.create(), await world.create()]
    shown = await launched(world, filters={"excludedExperimentIds": [ids[0]]})
    assert shown["experimentIds"] == [ids[1]]


@pytest.mark.slow
async def test_more_trials_than_it_can_show_are_refused_with_the_way_out(world: ApiWorld) -> None:
    ids = [await world.create() for _ in range(101)]
    body = {"config": {}, "experimentIds": ids}
    refused = await world.refused(400, "POST", URL, body)
    assert "up to 100 trials, and these are 101" in refused
    assert "--trial-ids" in refused
    assert (await launched(world, experimentIds=ids[:100]))["experimentIds"] == ids[:100]


async def test_keys_of_a_configuration_are_for_its_owner(world: ApiWorld) -> None:
    await world.add_agent()
    experiment = await world.create(SINGLE + S3)
    body = {"config": {}, "experimentIds": [experiment]}
    eve = await user(world, "eve")
    refused = await world.refused(403, "POST", URL, body, token=eve)
    assert f"experiment {experiment}: its checkpoint_storage has keys" in refused
    shown = await launched(world, experimentIds=[experiment])
    spec = await spec_of(world, shown["id"])
    assert {name: spec.environment[name] for name in ("AWS_SECRET_ACCESS_KEY", "S3_ENDPOINT")} == {
        "AWS_SECRET_ACCESS_KEY": "SK",
        "S3_ENDPOINT": "127.0.0.1:9",
    }
    assert spec.binds == ()


async def test_keys_of_a_workspace_are_for_all_who_work_in_it(world: ApiWorld) -> None:
    section = yaml.safe_load(S3)["checkpoint_storage"]
    lab = {"name": "lab", "checkpointStorageConfig": section}
    id_ = (await world.ok("POST", "/api/v1/workspaces", lab))["workspace"]["id"]
    project = await world.ok("POST", f"/api/v1/workspaces/{id_}/projects", {"name": "p"})
    body = {"experimentIds": [await world.create(projectId=project["project"]["id"])]}
    eve = await user(world, "eve")
    await world.ok("POST", URL, {"config": {}, **body}, token=eve)
    other = {"checkpointStorageConfig": {**section, "secret_key": "new"}}
    await world.ok("PATCH", f"/api/v1/workspaces/{id_}", other)
    await world.refused(403, "POST", URL, {"config": {}, **body}, token=eve)


async def test_it_has_the_image_of_the_newest_experiment_unless_it_names_one(
    world: ApiWorld,
) -> None:
    login = "registry_auth: {username: u, password: p}"
    environment = "environment: {image: %s, python: /opt/%s, " + login + "}\n"
    ids = [await world.create(f"{SINGLE}\n{environment % (name, name)}") for name in ("old", "new")]
    body: dict[str, Any] = {"config": {}, "experimentIds": ids}
    taken = (await world.ok("POST", URL, body))["config"]["environment"]
    assert (taken["image"]["cpu"], taken["python"]) == ("new", "/opt/new")
    assert taken["registry_auth"]["password"] == "p"
    theirs = await world.ok("POST", URL, body, token=await user(world, "eve"))
    taken = theirs["config"]["environment"]
    assert (taken["image"]["cpu"], taken["python"], taken["registry_auth"]) == ("new", None, None)
    body["config"] = {"environment": {"image": "mine"}}
    taken = (await world.ok("POST", URL, body))["config"]["environment"]
    assert (taken["image"]["cpu"], taken["registry_auth"]) == ("mine", None)


async def test_what_has_no_effect_on_it_is_told(world: ApiWorld) -> None:
    experiment = await world.create()
    config = {"description": "mine", "entrypoint": ["ls"], "resources": {"slots": 2}}
    reply = await world.ok("POST", URL, {"config": config, "experimentIds": [experiment]})
    told = [line.partition(" has no effect")[0] for line in reply["configWarnings"]]
    assert sorted(told) == ["description", "entrypoint", "resources.slots"]
    assert reply["tensorboard"]["description"].startswith("TensorBoard (")


async def test_nobody_is_warned_of_an_image_that_only_the_experiment_names(world: ApiWorld) -> None:
    await world.add_agent(container_runtime="process")
    experiment = await world.create(SINGLE + "environment: {image: theirs, python: python3}\n")
    body = {"config": {}, "experimentIds": [experiment]}
    reply = await world.ok("POST", URL, body)
    assert reply["config"]["environment"]["image"]["cpu"] == "theirs"
    assert reply["configWarnings"] == []
    named = {**body, "config": {"environment": {"image": "mine"}}}
    warnings = (await world.ok("POST", URL, named))["configWarnings"]
    assert [line.partition(" has no effect")[0] for line in warnings] == ["environment.image"]


async def test_an_open_page_keeps_it_alive_and_five_minutes_without_end_it(world: ApiWorld) -> None:
    await world.add_agent()
    shown = await launched(world, experimentIds=[await world.create()])
    await running(world, shown["id"])
    tick = world.services.tasks.roots.tick
    world.clock.advance(299)
    world.services.tasks.note_activity(shown["id"])
    world.clock.advance(299)
    await tick()
    assert live_of(world, shown["id"]).state.phase.value == "ACTIVE"
    world.clock.advance(1)
    await tick()
    assert live_of(world, shown["id"]).state.phase.value == "STOPPING"


@pytest.mark.slow
@pytest.mark.parametrize("many", ["notebooks", "shells", "tensorboards"])
async def test_a_port_may_not_take_the_name_of_the_service(world: ApiWorld, many: str) -> None:
    ports = [{"proxy_port": 80}, {"proxy_port": 81, "default_service_id": True}]
    body: dict[str, Any] = {"config": {"environment": {"proxy_ports": ports}}}
    if many == "tensorboards":
        body["experimentIds"] = [await world.create()]
    refused = await world.refused(400, "POST", f"/api/v1/{many}", body)
    assert "<config>.environment.proxy_ports[1].default_service_id: true, but the" in refused
    await world.ok("POST", "/api/v1/commands", {"config": {**body["config"], "entrypoint": ["ls"]}})


async def test_whoever_may_not_see_it_does_not_change_it(world: ApiWorld) -> None:
    shown = await launched(world, experimentIds=[await world.create()])
    eve = await user(world, "eve")
    await world.refused(403, "POST", f"{URL}/{shown['id']}/kill", token=eve)
    killed = await world.ok("POST", f"{URL}/{shown['id']}/kill")
    assert killed["tensorboard"]["state"] == "STATE_TERMINATED"
    assert PASSWORD not in json.dumps(killed)
