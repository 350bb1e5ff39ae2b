"""Actions on several runs at once: each is tried, each has its own answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from master.api.trials.run_actions import ACTIONS
from tests.fakes.api_world import ASHA, ApiWorld

RUNS = "/api/v1/runs"


async def act(world: ApiWorld, action: str, *ids: int, **body: Any) -> dict[int, str]:
    answer = await world.ok("POST", f"{RUNS}/{action}", {"runIds": ids, "projectId": 1, **body})
    return {one["id"]: one["error"] for one in answer["results"]}


async def state(world: ApiWorld, experiment: int) -> str:
    found = await world.ok("GET", f"/api/v1/experiments/{experiment}")
    return str(found["experiment"]["state"])


def of_experiment(id_: int) -> str:
    field = {"kind": "field", "columnName": "experimentId", "operator": "=", "value": id_}
    group = {"kind": "group", "conjunction": "and", "children": [field]}
    return json.dumps({"filterGroup": group, "showArchived": True})


async def test_a_run_is_paused_resumed_and_killed(world: ApiWorld) -> None:
    experiment = await world.create()
    run = world.trial_id(experiment)
    missing = {99: "Run with id '99' not found in project with id '1'"}
    assert await act(world, "pause", run, 99) == {run: "", **missing}
    assert await state(world, experiment) == "STATE_PAUSED"
    assert await act(world, "resume", 99, run, run) == {**missing, run: ""}
    assert await state(world, experiment) == "STATE_QUEUED"
    assert await act(world, "kill", run) == {run: ""}
    assert await state(world, experiment) == "STATE_CANCELED"
    assert await act(world, "kill", run) == {run: ""}
    late = await act(world, "pause", run)
    assert late == {run: f"Experiment {experiment} has already been canceled"}
    assert await act(world, "kill", 99, projectId=None) == {99: "Run with id '99' not found"}


async def test_a_run_is_archived_with_its_experiment(world: ApiWorld) -> None:
    experiment = await world.create()
    run = world.trial_id(experiment)
    early = {run: "Run is not in terminal state."}
    assert await act(world, "archive", run) == await act(world, "unarchive", run) == early
    await act(world, "kill", run)
    for _ in range(2):
        assert await act(world, "archive", run) == {run: ""}
    shown = await world.ok("GET", f"/api/v1/experiments/{experiment}")
    assert shown["experiment"]["archived"]
    assert await act(world, "pause", run) == {run: "Run is archived."}
    assert await act(world, "resume", run) == {run: "Run is archived."}
    for _ in range(2):
        assert await act(world, "unarchive", run) == {run: ""}
    shown = await world.ok("GET", f"/api/v1/experiments/{experiment}")
    assert not shown["experiment"]["archived"]


async def test_runs_of_a_search_are_paused_together_and_archived_alone(world: ApiWorld) -> None:
    experiment = await world.create(ASHA)
    runs = [world.trial_id(experiment, n) for n in range(4)]
    for action in ("pause", "resume"):
        refused = await act(world, action, *runs)
        assert refused == {
            id_: f"Cannot pause/unpause run '{id_}' (part of multi-trial)." for id_ in runs
        }
    assert await act(world, "kill", runs[0]) == {runs[0]: ""}
    assert await state(world, experiment) == "STATE_QUEUED"
    for _ in range(2):
        assert await act(world, "archive", runs[0]) == {runs[0]: ""}
        shown = await world.ok("POST", "/api/v1/runs", {"limit": 0})
        assert {run["id"]: run["archived"] for run in shown["runs"]} == dict.fromkeys(
            runs[1:], False
        )
    everything = json.dumps({"showArchived": True})
    shown = await world.ok("POST", "/api/v1/runs", {"limit": 0, "filter": everything})
    assert [run["id"] for run in shown["runs"] if run["archived"]] == [runs[0]]
    assert await act(world, "unarchive", runs[0]) == {runs[0]: ""}
    await world.ok("POST", f"/api/v1/experiments/{experiment}/kill")
    await world.ok("POST", f"/api/v1/experiments/{experiment}/archive")
    together = f"Run is part of archived Search (id: '{experiment}')."
    for action in ("archive", "unarchive"):
        assert await act(world, action, runs[0]) == {runs[0]: together}


async def test_a_filter_finds_what_is_meant(world: ApiWorld) -> None:
    first, second = await world.create(), await world.create()
    run, other = world.trial_id(first), world.trial_id(second)
    assert await act(world, "pause", filter=of_experiment(first)) == {run: ""}
    assert await state(world, second) == "STATE_QUEUED"
    assert await act(world, "kill", filter=of_experiment(77)) == {}
    everything = json.dumps({"showArchived": False})
    assert await act(world, "kill", filter=everything, projectId=0) == {run: "", other: ""}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, {}, "runIds: give either these or filter"),
        (400, {"runIds": [], "filter": ""}, "runIds: give either these or filter"),
        (
            400,
            {"runIds": [1], "filter": of_experiment(1)},
            "if filter is provided run id list must be empty",
        ),
        (400, {"filter": "{"}, "filter: is not JSON"),
        (404, {"filter": of_experiment(1), "projectId": 99}, "project"),
    ],
)
async def test_bad_requests_are_refused(
    world: ApiWorld, status: int, body: object, message: str
) -> None:
    assert message in await world.refused(status, "POST", f"{RUNS}/kill", body)


async def test_runs_of_others_and_of_other_projects_are_left_alone(world: ApiWorld) -> None:
    run = world.trial_id(await world.create())
    elsewhere = {run: f"Run with id '{run}' not found in project with id '7'"}
    assert await act(world, "kill", run, projectId=7) == elsewhere
    await world.login("determined")
    for action in ACTIONS:
        assert "belongs to admin" in (await act(world, action, run))[run], action
