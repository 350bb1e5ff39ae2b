"""Actions on several experiments at once: each is tried, each has its own answer."""

from __future__ import annotations

import pytest

from master.api.experiments.bulk import ACTS
from tests.fakes.api_world import SINGLE, ApiWorld


async def act(world: ApiWorld, action: str, body: object, project: int = -1) -> dict[int, str]:
    url = f"/api/v1/projects/{project}/experiments/{action}"
    method = "DELETE" if action == "delete" else "POST"
    answer = await world.ok(method, url, body)
    return {one["id"]: one["error"] for one in answer["results"]}


async def state(world: ApiWorld, id_: int) -> str:
    return str((await world.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]["state"])


@pytest.mark.slow
@pytest.mark.parametrize("project", [-1, 0, 1])
async def test_each_is_tried_whatever_becomes_of_the_others(world: ApiWorld, project: int) -> None:
    first, second = await world.create(), await world.create()
    body = {"experimentIds": [first, 99, second], "projectId": project}
    done = await act(world, "pause", body, project)
    assert done == {first: "", 99: "experiment '99' not found", second: ""}
    assert await state(world, first) == await state(world, second) == "STATE_PAUSED"
    assert set((await act(world, "activate", body, project)).values()) == {done[99], ""}
    assert set((await act(world, "kill", body, project)).values()) == {done[99], ""}
    again = await act(world, "pause", {"experimentIds": [first]}, project)
    assert "already been canceled" in again[first]


async def test_filters_find_what_is_meant(world: ApiWorld) -> None:
    blue = await world.create(SINGLE.replace("name: tiny", "name: blue"))
    other, spared = await world.create(), await world.create()
    assert await act(world, "kill", {"filters": {"name": "blue"}}) == {blue: ""}
    filters = {"excludedExperimentIds": [spared, blue], "states": ["STATE_ACTIVE"]}
    everything = await act(world, "cancel", {"filters": {"excludedExperimentIds": [spared, blue]}})
    assert everything == {other: ""}
    assert await act(world, "cancel", {"filters": {**filters, "labels": ["none"]}}) == {}


@pytest.mark.slow
async def test_archive_and_unarchive(world: ApiWorld) -> None:
    id_ = await world.create()
    body = {"experimentIds": [id_]}
    assert (await act(world, "archive", body))[
        id_
    ] == f"Experiment {id_} has not ended yet: it is ACTIVE"
    await act(world, "kill", body)
    assert await act(world, "archive", body) == {id_: ""}
    assert (await act(world, "archive", body))[id_] == f"Experiment {id_} is already archived"
    assert await act(world, "unarchive", body) == {id_: ""}


async def test_experiments_of_another_project_are_not_found(world: ApiWorld) -> None:
    id_ = await world.create()
    found = await act(world, "kill", {"experimentIds": [id_]}, project=7)
    assert found == {id_: f"experiment '{id_}' not found"}


@pytest.mark.parametrize("body", [{}, {"experimentIds": [1], "filters": {}}])
async def test_ids_and_filters_exclude_each_other(world: ApiWorld, body: object) -> None:
    message = await world.refused(400, "POST", "/api/v1/projects/-1/experiments/kill", body)
    assert message == "experimentIds: give either these or filters"


async def test_what_belongs_to_others_is_left_alone(world: ApiWorld) -> None:
    id_ = await world.create()
    await world.login("determined")
    for action in ACTS:
        refused = await act(world, action, {"experimentIds": [id_]})
        assert "belongs to admin" in refused[id_], action


async def test_a_task_may_end_its_own_experiment_among_others(world: ApiWorld) -> None:
    await world.add_agent()
    mine, other = await world.create(), await world.create()
    world.token = world.task_token(await world.run_of(mine))
    done = await act(world, "cancel", {"experimentIds": [mine, other]})
    assert done[mine] == ""
    assert "a task may change only what is its own" in done[other]
