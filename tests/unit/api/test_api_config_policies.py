"""Config policies over REST: who sets them, and what becomes of what is submitted, changed and activated."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world

URL = "/api/v1/config-policies"
CLUSTER, OF_TASKS = f"{URL}/global/EXPERIMENT", f"{URL}/global/NTSC"
EXPERIMENT = SINGLE.replace("resources: {slots_per_trial: 1}", "resources: {RESOURCES}")
SECRET: dict[str, Any] = {"environment": {"environment_variables": {"cpu": ["KEY=secret"]}}}


async def put(world: ApiWorld, path: str = CLUSTER, **policy: Any) -> dict[str, Any]:
    """JSON is YAML."""
    return dict(await world.ok("PUT", path, {"configPolicies": json.dumps(policy)}))


async def resources_of(world: ApiWorld, experiment: int) -> dict[str, Any]:
    found = await world.ok("GET", f"/api/v1/experiments/{experiment}")
    return dict(found["config"]["resources"])


async def login_other(world: ApiWorld) -> str:
    body = {"user": {"username": "other", "active": True}, "password": PASSWORD}
    await world.ok("POST", "/api/v1/users", {**body, "isHashed": False})
    mine, other = world.token, await world.login("other")
    world.token = mine
    return other


@pytest.fixture
async def stored(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """On both databases."""
    async with api_world(tmp_path, db_url=db_url) as opened:
        await opened.login()
        yield opened


async def test_the_life_of_a_policy(stored: ApiWorld) -> None:
    workspace = (await stored.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"]
    of_workspace = f"{URL}/workspaces/{workspace}/EXPERIMENT"
    assert await stored.ok("GET", CLUSTER) == {"configPolicies": {}}
    policy = {"constraints": {"priority_limit": 30}}
    assert await put(stored, CLUSTER, **policy) == {"configPolicies": policy, "affected": []}
    await put(stored, of_workspace, constraints={"resources": {"max_slots": 2}})
    assert await stored.ok("GET", CLUSTER) == {"configPolicies": policy}
    assert await stored.ok("GET", OF_TASKS) == {"configPolicies": {}}
    assert (await stored.ok("GET", of_workspace))["configPolicies"]["constraints"]["resources"]
    await put(stored, of_workspace, constraints={"priority_limit": 5})
    assert (await stored.ok("GET", of_workspace))["configPolicies"] == {
        "constraints": {"priority_limit": 5}
    }
    assert await stored.ok("DELETE", CLUSTER) == {}
    assert await stored.ok("DELETE", CLUSTER) == {}
    assert await stored.ok("GET", CLUSTER) == {"configPolicies": {}}
    await stored.ok("DELETE", f"/api/v1/workspaces/{workspace}")
    await stored.refused(404, "GET", of_workspace)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (CLUSTER, "", "no specified config policies"),
        (CLUSTER, "constraints: {priority: 1}", "<policy>.constraints: additionalProperties"),
        (
            f"{URL}/global/COMMAND",
            "constraints: {}",
            "should be 'EXPERIMENT' or 'NTSC'",
        ),
        (
            CLUSTER,
            "{invariant_config: {resources: {priority: 1}}, constraints: {priority_limit: 2}}",
            "priority: 1 is stronger than constraints.priority_limit of the cluster, 2",
        ),
    ],
)
async def test_what_is_wrong_is_named(world: ApiWorld, path: str, text: str, words: str) -> None:
    assert words in await world.refused(400, "PUT", path, {"configPolicies": text})


async def test_an_invariant_of_one_scope_keeps_the_constraints_of_the_other(
    world: ApiWorld,
) -> None:
    of_workspace = f"{URL}/workspaces/1/EXPERIMENT"
    await put(world, of_workspace, invariant_config={"resources": {"max_slots": 9}})
    body = {"configPolicies": "constraints: {resources: {max_slots: 8}}"}
    assert "of the cluster, 8" in await world.refused(400, "PUT", CLUSTER, body)
    await world.ok("DELETE", of_workspace)
    await world.ok("PUT", CLUSTER, body)
    body = {"configPolicies": "invariant_config: {resources: {slots_per_trial: 9}}"}
    assert "of the cluster, 8" in await world.refused(400, "PUT", of_workspace, body)


async def test_only_administrators_and_owners_set_them_and_see_their_secrets(
    world: ApiWorld,
) -> None:
    other = await login_other(world)
    await put(world, invariant_config=SECRET)
    seen = (await world.ok("GET", CLUSTER, token=other))["configPolicies"]["invariant_config"]
    assert seen["environment"]["environment_variables"] == {"cpu": ["KEY=********"]}
    body = {"configPolicies": "constraints: {priority_limit: 2}"}
    for path in (CLUSTER, f"{URL}/workspaces/1/EXPERIMENT"):
        await world.refused(403, "PUT", path, body, token=other)
        await world.refused(403, "DELETE", path, token=other)
    mine = (await world.ok("POST", "/api/v1/workspaces", {"name": "mine"}, token=other))[
        "workspace"
    ]
    await world.ok("PUT", f"{URL}/workspaces/{mine['id']}/NTSC", body, token=other)
    await world.refused(404, "PUT", f"{URL}/workspaces/77/NTSC", body)


async def test_an_experiment_is_stored_as_the_policy_says_and_its_user_is_told(
    world: ApiWorld,
) -> None:
    await put(
        world,
        invariant_config={"resources": {"priority": 50}},
        constraints={"resources": {"max_slots": 4}},
    )
    body = {
        "config": EXPERIMENT.replace("RESOURCES", "slots_per_trial: 1, priority: 10"),
        "activate": False,
    }
    created = await world.ok("POST", "/api/v1/experiments", body)
    assert created["config"]["resources"]["priority"] == 50
    assert created["config"]["resources"]["max_slots"] == 4
    assert [one for one in created["configWarnings"] if "config policy of the cluster" in one] == [
        "<config>.resources.priority is 50 instead of 10: set by the config policy of the cluster",
        "<config>.resources.max_slots is 4: set by the config policy of the cluster",
    ]
    id_ = created["experiment"]["id"]
    said = await world.refused(
        400, "PATCH", f"/api/v1/experiments/{id_}", {"resources": {"priority": 40}}
    )
    assert said.startswith("priority cannot be modified: the config policy of the cluster sets")
    await world.ok("PATCH", f"/api/v1/experiments/{id_}", {"resources": {"priority": 50}})
    job = created["experiment"]["jobId"]
    update = {"updates": [{"jobId": job, "priority": 40}]}
    assert "priority cannot be" in await world.refused(400, "POST", "/api/v1/job-queues", update)


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ("slots_per_trial: 3", "requested resources.slots [3] exceeds limit set by admin [2]"),
        ("max_slots: 3", "requested resources.slots [3] exceeds limit set by admin [2]"),
        ("priority: 49", "requested priority [49] exceeds limit set by admin [50]"),
    ],
)
async def test_what_exceeds_a_constraint_is_not_submitted(
    world: ApiWorld, resources: str, words: str
) -> None:
    await put(world, constraints={"resources": {"max_slots": 2}, "priority_limit": 50})
    for more in ({}, {"validateOnly": True}):
        body = {"config": EXPERIMENT.replace("RESOURCES", resources), **more}
        assert words in await world.refused(400, "POST", "/api/v1/experiments", body)
    experiment = await world.create(activate=False)
    assert (await resources_of(world, experiment))["priority"] == 50


async def test_what_ran_before_stays_and_is_told_of_and_looked_at_when_it_goes_on(
    world: ApiWorld,
) -> None:
    experiment = await world.create(EXPERIMENT.replace("RESOURCES", "priority: 10, max_slots: 2"))
    await world.ok("POST", f"/api/v1/experiments/{experiment}/pause")
    answer = await put(world, constraints={"priority_limit": 20})
    assert len(answer["affected"]) == 1
    assert answer["affected"][0].startswith(f"experiment {experiment} of admin: requested priority")
    activate = f"/api/v1/experiments/{experiment}/activate"
    assert "priority [10] exceeds" in await world.refused(400, "POST", activate)
    await world.ok("PATCH", f"/api/v1/experiments/{experiment}", {"resources": {"priority": 20}})
    await world.ok("POST", activate)


async def test_keep_counts_that_are_fixed_stay(world: ApiWorld) -> None:
    await put(world, invariant_config={"checkpoint_storage": {"save_trial_best": 2}})
    experiment = await world.create(activate=False)
    body = {
        "checkpointStorage": {"saveTrialBest": 1, "saveTrialLatest": 1, "saveExperimentBest": 0}
    }
    path = f"/api/v1/experiments/{experiment}"
    assert "save_trial_best cannot be" in await world.refused(400, "PATCH", path, body)


async def test_tasks_have_policies_of_their_own(world: ApiWorld) -> None:
    image = {"cpu": "registry/fixed:1", "cuda": "registry/fixed:1", "rocm": "registry/fixed:1"}
    await put(
        world,
        OF_TASKS,
        invariant_config={"environment": {"image": image}},
        constraints={"resources": {"max_slots": 1}, "priority_limit": 50},
    )
    body = {"config": {"entrypoint": ["true"], "resources": {"slots": 1}}}
    launched = await world.ok("POST", "/api/v1/commands", body)
    assert launched["config"]["environment"]["image"]["cpu"] == "registry/fixed:1"
    assert launched["config"]["resources"]["priority"] == 50
    body["config"]["resources"] = {"slots": 2}
    assert "exceeds limit" in await world.refused(400, "POST", "/api/v1/commands", body)
    path = f"/api/v1/commands/{launched['command']['id']}/set_priority"
    assert "priority [49] exceeds" in await world.refused(400, "POST", path, {"priority": 49})
    await world.create(EXPERIMENT.replace("RESOURCES", "priority: 1"))


async def test_what_goes_on_again_is_within_the_bounds(world: ApiWorld) -> None:
    experiment = await world.create(EXPERIMENT.replace("RESOURCES", "priority: 10, max_slots: 2"))
    await world.ok("POST", f"/api/v1/experiments/{experiment}/kill")
    await put(world, constraints={"priority_limit": 20})
    body = {"id": experiment, "overrideConfig": ""}
    path = "/api/v1/experiments/continue"
    assert "priority [10] exceeds" in await world.refused(400, "POST", path, body)
