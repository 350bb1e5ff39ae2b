"""Workspaces and projects over REST: every route, who may do what, what is put into them, how they are deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select

from master.core.actor import Actor
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.workspaces.deletion import Removals
from tests.fakes.api_world import ASHA, PASSWORD, SINGLE, ApiWorld, api_world

WORKSPACES, EXPERIMENTS = "/api/v1/workspaces", "/api/v1/experiments"


@pytest.fixture
async def stored(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """On both databases."""
    async with api_world(tmp_path, db_url=db_url) as opened:
        await opened.login()
        yield opened


async def workspace(world: ApiWorld, name: str = "lab", **more: Any) -> int:
    return int((await world.ok("POST", WORKSPACES, {"name": name, **more}))["workspace"]["id"])


async def project(world: ApiWorld, inside: int, name: str = "vision", **more: Any) -> int:
    made = await world.ok("POST", f"{WORKSPACES}/{inside}/projects", {"name": name, **more})
    return int(made["project"]["id"])


async def error(world: ApiWorld, status: int, method: str, url: str, body: Any = None) -> str:
    answer = await world.call(method, url, body)
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"]["error"])


async def names(world: ApiWorld, what: str, query: str) -> list[str]:
    return [one["name"] for one in (await world.ok("GET", query))[what]]


async def submit(world: ApiWorld, config: str = SINGLE, **more: Any) -> dict[str, Any]:
    body = {"config": config, "activate": False, **more}
    return dict((await world.ok("POST", EXPERIMENTS, body))["experiment"])


class NoSuchHost:
    """Deletes no experiment."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def delete_experiment(self, experiment_id: int, *, by: Actor) -> None:
        unit = UnitOfWork()
        failed = {"state": "DELETE_FAILED", "error": "no such host"}
        unit.update(tables.Experiment, {"id": experiment_id}, failed, expect=1)
        await self._store.commit(unit)


async def no_tasks(task_ids: Sequence[str]) -> None:
    raise AssertionError(task_ids)


async def other(world: ApiWorld) -> str:
    body = {"user": {"username": "other", "active": True}, "password": PASSWORD}
    await world.ok("POST", "/api/v1/users", {**body, "isHashed": False})
    mine, token = world.token, await world.login("other")
    world.token = mine
    return token


async def test_the_life_of_a_workspace(stored: ApiWorld) -> None:
    world = stored
    id_ = await workspace(world)
    seen = (await world.ok("GET", f"{WORKSPACES}/{id_}"))["workspace"]
    assert (seen["name"], seen["username"], seen["pinned"], seen["state"]) == (
        *("lab", "admin", True),
        "WORKSPACE_STATE_UNSPECIFIED",
    )
    for body in ({"name": "LAB"}, {"name": "lab"}, {"name": "uncategorized"}):
        assert "avoid names equal" in await error(world, 409, "POST", WORKSPACES, body)
    for name in ("", " ", "x" * 54):
        assert "name: must" in await error(world, 400, "POST", WORKSPACES, {"name": name})
    edited = await world.ok("PATCH", f"{WORKSPACES}/{id_}", {"name": "Lab Größe"})
    assert edited["workspace"]["name"] == "Lab Größe"
    assert await names(world, "workspaces", f"{WORKSPACES}?name=LAB GRÖSSE") == ["Lab Größe"]
    assert await names(world, "workspaces", f"{WORKSPACES}?nameCaseSensitive=LAB GRÖSSE") == []
    assert await names(world, "workspaces", f"{WORKSPACES}?pinned=true") == ["Lab Größe"]
    await world.ok("POST", f"{WORKSPACES}/{id_}/unpin")
    assert await names(world, "workspaces", f"{WORKSPACES}?pinned=true") == []
    await world.ok("POST", f"{WORKSPACES}/{id_}/archive")
    assert await names(world, "workspaces", f"{WORKSPACES}?archived=false") == ["Uncategorized"]
    assert "is archived" in await error(world, 400, "PATCH", f"{WORKSPACES}/{id_}", {"name": "n"})
    await world.ok("POST", f"{WORKSPACES}/{id_}/unarchive")
    assert await world.ok("DELETE", f"{WORKSPACES}/{id_}") == {"completed": True}
    assert await error(world, 404, "GET", f"{WORKSPACES}/{id_}") == f"workspace '{id_}' not found"


async def test_lists_are_sorted_and_cut(stored: ApiWorld) -> None:
    world = stored
    for name in ("b", "A", "c"):
        await workspace(world, name)
    sorted_ = f"{WORKSPACES}?sortBy=SORT_BY_NAME&orderBy=ORDER_BY_DESC&limit=2&offset=1"
    found = await world.ok("GET", sorted_)
    assert [one["name"] for one in found["workspaces"]] == ["c", "b"]
    assert found["pagination"]["total"] == 4
    for sort in ("CREATION_TIME", "LAST_EXPERIMENT_START_TIME", "DESCRIPTION", "NAME", "ID"):
        url = f"{WORKSPACES}/0/projects?sortBy=SORT_BY_{sort}"
        assert await names(world, "projects", url) == ["Uncategorized"]


async def test_the_first_ones_cannot_be_changed(world: ApiWorld) -> None:
    for method, url, body in (
        ("PATCH", f"{WORKSPACES}/1", {"name": "n"}),
        ("POST", f"{WORKSPACES}/1/archive", None),
        ("DELETE", f"{WORKSPACES}/1", None),
        ("PATCH", "/api/v1/projects/1", {"name": "n"}),
        ("POST", "/api/v1/projects/1/archive", None),
        ("DELETE", "/api/v1/projects/1", None),
    ):
        assert "is immutable" in await error(world, 400, method, url, body)


async def test_the_life_of_a_project(world: ApiWorld) -> None:
    lab = await workspace(world)
    id_ = await project(world, lab, description="seeing")
    url = f"/api/v1/projects/{id_}"
    assert (await world.ok("GET", url))["project"]["key"] == "VISIO"
    for body in ({"name": "VISION"}, {"name": "n", "key": "visio"}, {"name": "n", "key": "uncat"}):
        await error(world, 409, "POST", f"{WORKSPACES}/{lab}/projects", body)
    assert "key: must" in await error(
        world, 400, "POST", f"{WORKSPACES}/{lab}/projects", {"name": "n", "key": "a-b"}
    )
    edited = await world.ok("PATCH", url, {"name": "speech", "key": "sp", "description": ""})
    assert (edited["project"]["key"], edited["project"]["description"]) == ("SP", "")
    again = await project(world, lab, "vision")
    assert (await world.ok("GET", f"/api/v1/projects/{again}"))["project"]["key"] == "VISI2"
    taken = await error(world, 409, "PATCH", f"/api/v1/projects/{again}", {"key": "visio"})
    assert "already in use in redirect table" in taken
    for key in ("SP", "visio"):
        found = await world.ok("GET", f"/api/v1/projects/key/{key}")
        assert found["project"]["id"] == id_
    note = {"name": "n", "contents": "c"}
    assert await world.ok("POST", f"{url}/notes", note) == {"notes": [note]}
    assert await world.ok("PUT", f"{url}/notes", {"notes": [note, note]}) == {"notes": [note, note]}
    assert (await world.ok("GET", url))["project"]["notes"] == [note, note]
    await world.ok("POST", f"{url}/archive")
    assert "is archived" in await error(world, 400, "PATCH", url, {"name": "n"})
    assert await names(world, "projects", f"{WORKSPACES}/{lab}/projects?archived=true") == [
        "speech"
    ]
    await world.ok("POST", f"{url}/unarchive")
    assert await world.ok("DELETE", url) == {"completed": True}
    await error(world, 404, "GET", url)
    await error(world, 409, "PATCH", f"/api/v1/projects/{again}", {"key": "sp"})


async def test_an_archived_workspace_takes_nothing_new(world: ApiWorld) -> None:
    lab = await workspace(world)
    id_ = await project(world, lab)
    await submit(world, projectId=id_)
    await world.ok("POST", f"{WORKSPACES}/{lab}/archive")
    assert (await world.ok("GET", f"/api/v1/projects/{id_}"))["project"]["archived"] is True
    body = {"config": SINGLE, "projectId": id_}
    for method, url, given in (
        ("POST", f"{WORKSPACES}/{lab}/projects", {"name": "n"}),
        ("POST", EXPERIMENTS, body),
        ("POST", f"/api/v1/projects/{id_}/unarchive", None),
        ("POST", f"/api/v1/projects/{id_}/move", {"destinationWorkspaceId": 1}),
    ):
        assert f"workspace {lab} (lab) is archived" in await error(world, 400, method, url, given)
    command = {"config": {"entrypoint": ["true"]}, "workspaceId": lab}
    assert "archived" in await error(world, 404, "POST", "/api/v1/commands", command)
    listed = f"{EXPERIMENTS}?archived=false"
    assert await names(world, "experiments", listed) == []
    assert len(await names(world, "experiments", f"{listed}&projectId={id_}")) == 1


async def test_experiments_are_put_where_the_submission_says(world: ApiWorld) -> None:
    lab = await workspace(world)
    id_ = await project(world, lab)
    config = yaml.safe_load(SINGLE)
    named = yaml.safe_dump({**config, "workspace": "LAB", "project": "Vision"})
    for seen in (await submit(world, named), await submit(world, named, projectId=1)):
        assert (seen["projectId"], seen["workspaceName"], seen["projectName"]) == (
            *(id_, "lab", "vision"),
        )
    assert (await submit(world, projectId=id_))["workspaceId"] == lab
    assert (await submit(world))["projectId"] == 1
    other = await project(world, lab, "other")
    assert (await submit(world, named, projectId=other))["projectId"] == other
    for names_, status in (
        ({"workspace": "lab"}, 400),
        ({"workspace": "none", "project": "vision"}, 404),
        ({"workspace": "lab", "project": "none"}, 404),
    ):
        text = yaml.safe_dump({**config, **names_})
        await error(world, status, "POST", EXPERIMENTS, {"config": text})
    await error(world, 404, "POST", EXPERIMENTS, {"config": SINGLE, "projectId": 99})
    await world.ok("POST", f"/api/v1/projects/{id_}/archive")
    refused = await error(world, 400, "POST", EXPERIMENTS, {"config": named, "validateOnly": True})
    assert f"project {id_} (vision) is archived" in refused
    inside = await world.ok("GET", f"{EXPERIMENTS}?projectId={id_}")
    fork = {"config": SINGLE, "parentId": inside["experiments"][0]["id"]}
    refused = await error(world, 400, "POST", EXPERIMENTS, fork)
    assert f"project {id_} (vision) is archived" in refused
    counted = (await world.ok("GET", f"{WORKSPACES}/{lab}"))["workspace"]
    assert (counted["numProjects"], counted["numExperiments"]) == (2, 4)


async def test_a_project_moves_to_another_workspace(world: ApiWorld) -> None:
    lab, club = await workspace(world), await workspace(world, "club")
    id_ = await project(world, lab)
    experiment = await submit(world, projectId=id_)
    await world.ok("POST", f"/api/v1/projects/{id_}/move", {"destinationWorkspaceId": club})
    seen = await world.ok("GET", f"{EXPERIMENTS}/{experiment['id']}")
    assert seen["experiment"]["workspaceName"] == "club"
    live = world.services.experiments.live(experiment["id"])
    assert live is not None
    assert live.workspace_id == club
    await project(world, lab)
    move = {"destinationWorkspaceId": lab}
    assert "has a project" in await error(world, 409, "POST", f"/api/v1/projects/{id_}/move", move)
    move = {"destinationWorkspaceId": 99}
    await error(world, 404, "POST", f"/api/v1/projects/{id_}/move", move)


async def test_an_experiment_follows_a_project_that_moves_while_it_is_submitted(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, club = await workspace(world), await workspace(world, "club")
    id_ = await project(world, lab)
    checks = world.services.experiments.storage_checks
    require = checks.require

    async def while_it_moves(section: dict[str, Any]) -> None:
        await world.ok("POST", f"/api/v1/projects/{id_}/move", {"destinationWorkspaceId": club})
        await require(section)

    monkeypatch.setattr(checks, "require", while_it_moves)
    experiment = await submit(world, projectId=id_)
    live = world.services.experiments.live(experiment["id"])
    assert live is not None
    assert live.workspace_id == club


async def local_ids(world: ApiWorld) -> dict[int, str]:
    found = await world.ok("POST", "/api/v1/runs", {"limit": 0, "filter": '{"showArchived": true}'})
    return {run["id"]: run["localId"] for run in found["runs"]}


async def test_runs_are_numbered_anew_where_their_experiment_moves(stored: ApiWorld) -> None:
    world = stored
    lab = await workspace(world)
    id_ = await project(world, lab)
    first, search = (await submit(world))["id"], (await submit(world, ASHA))["id"]
    runs = [world.trial_id(search, n) for n in range(4)]
    single = world.trial_id(first)
    there = {single: "UNCAT-1", **{run: f"UNCAT-{n}" for n, run in enumerate(runs, 2)}}
    assert await local_ids(world) == there
    move = {"experimentId": search, "destinationProjectId": id_}
    for _ in range(2):
        await world.ok("POST", f"{EXPERIMENTS}/{search}/move", move)
        moved = {run: f"VISIO-{n}" for n, run in enumerate(runs, 1)}
        assert await local_ids(world) == {single: "UNCAT-1", **moved}
    live = world.services.experiments.live(search)
    assert live is not None
    assert live.workspace_id == lab
    # No number is given twice, neither after a move nor for what is made later.
    await world.ok("POST", f"{EXPERIMENTS}/{search}/move", {**move, "destinationProjectId": 1})
    later = world.trial_id((await submit(world))["id"])
    back = {run: f"UNCAT-{n}" for n, run in enumerate(runs, 6)}
    assert await local_ids(world) == {single: "UNCAT-1", **back, later: "UNCAT-10"}
    await world.ok("PATCH", f"/api/v1/projects/{id_}", {"key": "V"})
    await world.ok("POST", f"{EXPERIMENTS}/{first}/move", {**move, "experimentId": first})
    assert (await local_ids(world))[single] == "V-5"


async def test_what_is_archived_does_not_move(world: ApiWorld) -> None:
    lab = await workspace(world)
    id_, closed = await project(world, lab), await project(world, lab, "closed")
    inside = (await submit(world, projectId=closed))["id"]
    await world.ok("POST", f"/api/v1/projects/{closed}/archive")
    here = (await submit(world))["id"]
    for experiment, target in ((inside, id_), (here, closed)):
        url, move = f"{EXPERIMENTS}/{experiment}/move", {"destinationProjectId": target}
        assert f"project {closed} (closed) is archived" in await error(
            world, 400, "POST", url, move
        )
    url = f"{EXPERIMENTS}/{here}/move"
    await error(world, 404, "POST", url, {"destinationProjectId": 99})
    await world.ok("POST", f"{EXPERIMENTS}/{here}/kill")
    await world.ok("POST", f"{EXPERIMENTS}/{here}/archive")
    assert await error(world, 400, "POST", url, {"destinationProjectId": id_}) == (
        "Experiment is archived."
    )


async def test_experiments_and_runs_move_in_bulk(world: ApiWorld) -> None:
    lab = await workspace(world)
    id_ = await project(world, lab)
    first, second, search = [
        (await submit(world, config))["id"] for config in (SINGLE, SINGLE, ASHA)
    ]
    target = {"destinationProjectId": id_}

    async def results(url: str, **body: Any) -> dict[int, str]:
        found = await world.ok("POST", f"/api/v1/{url}/move", {**target, **body})
        return {one["id"]: one["error"] for one in found["results"]}

    async def where(experiment: int) -> int:
        shown = await world.ok("GET", f"{EXPERIMENTS}/{experiment}")
        return int(shown["experiment"]["projectId"])

    bulk = "projects/1/experiments"
    moved = await results(bulk, experimentIds=[first, 99], projectId=1)
    assert moved == {first: "", 99: "experiment '99' not found"}
    assert await results(bulk, filters={"excludedExperimentIds": [search]}) == {second: ""}
    run, single = world.trial_id(search, 1), world.trial_id(first)
    asked: dict[str, Any] = {"sourceProjectId": 1, "runIds": [run, single]}
    gone = f"Run with id '{single}' not found in project with id '1'"
    assert await results("runs", **asked, skipMultitrial=True) == {
        run: f"Skipping run '{run}' (part of multi-trial).",
        single: gone,
    }
    assert await where(search) == 1
    everything = '{"showArchived": true}'
    by_filter = await results("runs", sourceProjectId=1, filter=everything)
    assert by_filter == {world.trial_id(search, n): "" for n in range(4)}
    assert [await where(one) for one in (first, second, search)] == [id_, id_, id_]
    await world.ok("POST", f"{EXPERIMENTS}/{first}/kill")
    await world.ok("POST", "/api/v1/runs/archive", {"runIds": [single]})
    back = {"destinationProjectId": 1, "runIds": [single], "sourceProjectId": id_}
    assert await results("runs", **back) == {single: "Run is archived."}


async def test_who_may_change_them(world: ApiWorld) -> None:
    stranger = await other(world)
    lab = await workspace(world)
    id_ = await project(world, lab)
    for method, url, body in (
        ("PATCH", f"{WORKSPACES}/{lab}", {"name": "n"}),
        ("POST", f"{WORKSPACES}/{lab}/archive", None),
        ("DELETE", f"{WORKSPACES}/{lab}", None),
        ("PATCH", f"/api/v1/projects/{id_}", {"name": "n"}),
        ("DELETE", f"/api/v1/projects/{id_}", None),
        ("POST", WORKSPACES, {"name": "mine", "agentUserGroup": {"agentUid": 5}}),
    ):
        answer = await world.call(method, url, body, token=stranger)
        assert answer.status_code == 403, answer.text
    mine, world.token = world.token, stranger
    theirs = await workspace(world, "theirs")
    await world.ok("POST", f"{WORKSPACES}/{lab}/pin")
    world.token = mine
    inside = await project(world, theirs, "of admin")
    # Who owns a workspace may change the projects in it.
    answer = await world.call("DELETE", f"/api/v1/projects/{inside}", token=stranger)
    assert answer.status_code == 200, answer.text


async def test_as_whom_tasks_of_a_workspace_run(world: ApiWorld) -> None:
    given = {"agentUid": 5, "agentUser": "u", "agentGid": 6, "agentGroup": "g"}
    lab = await workspace(world, agentUserGroup=given)
    patch = {"agentUserGroup": {"agentUser": "v", "agentGroup": None}}
    changed = await world.ok("PATCH", f"{WORKSPACES}/{lab}", patch)
    assert changed["workspace"]["agentUserGroup"] == {**given, "agentUser": "v", "agentGroup": None}
    nobody = {"agentUserGroup": dict.fromkeys(given)}
    cleared = await world.ok("PATCH", f"{WORKSPACES}/{lab}", nobody)
    assert cleared["workspace"]["agentUserGroup"] is None
    bad = {"agentUserGroup": {"agentUid": -1}}
    await error(world, 400, "PATCH", f"{WORKSPACES}/{lab}", bad)


async def test_what_is_not_there_yet_is_said(world: ApiWorld) -> None:
    more = {"clusterNamespaceMeta": {"": {"namespace": "n"}}}
    await error(world, 400, "POST", WORKSPACES, {"name": "n", **more})
    pools = await world.ok("GET", f"{WORKSPACES}/1/available-resource-pools")
    assert pools["resourcePools"] == ["default"]
    bindings = await world.ok("GET", f"{WORKSPACES}/1/list-namespace-bindings")
    assert bindings == {"namespaceBindings": {}}
    assert "Kubernetes" in await error(
        world, 400, "POST", f"{WORKSPACES}/1/set-resource-quota", {"id": 1}
    )


async def test_a_workspace_is_deleted_with_all_that_is_in_it(stored: ApiWorld) -> None:
    world = stored
    lab = await workspace(world)
    id_ = await project(world, lab)
    experiment = (await submit(world, projectId=id_))["id"]
    command = {"config": {"entrypoint": ["true"]}, "workspaceId": lab}
    task = (await world.ok("POST", "/api/v1/commands", command))["command"]["id"]
    running = await error(world, 400, "DELETE", f"{WORKSPACES}/{lab}")
    assert f"have not ended: {experiment}: kill or move them" in running
    assert "have not ended" in await error(world, 400, "DELETE", f"/api/v1/projects/{id_}")
    await world.ok("POST", f"{EXPERIMENTS}/{experiment}/kill")
    assert await world.ok("DELETE", f"{WORKSPACES}/{lab}") == {"completed": False}
    for noun, url in (("workspace", f"{WORKSPACES}/{lab}"), ("project", f"/api/v1/projects/{id_}")):
        assert (await world.ok("GET", url))[noun]["state"] == "WORKSPACE_STATE_DELETING"
    refused = await error(world, 400, "POST", EXPERIMENTS, {"config": SINGLE, "projectId": id_})
    assert "is being deleted" in refused
    await world.removals.step()
    seen = await world.ok("GET", f"{EXPERIMENTS}/{experiment}")
    assert seen["experiment"]["state"] == "STATE_DELETING"
    await world.collected()
    for _ in range(3):
        await world.removals.step()
    await error(world, 404, "GET", f"{WORKSPACES}/{lab}")
    await error(world, 404, "GET", f"/api/v1/commands/{task}")
    assert await world.services.store.read(select(tables.ProjectKey.key)) == ["UNCAT", "VISIO"]


async def test_a_deletion_that_fails_says_why_and_may_be_tried_again(world: ApiWorld) -> None:
    lab = await workspace(world)
    id_ = await project(world, lab)
    experiment = (await submit(world, projectId=id_))["id"]
    await world.ok("POST", f"{EXPERIMENTS}/{experiment}/kill")
    await world.ok("DELETE", f"{WORKSPACES}/{lab}")
    store = world.services.store
    failing = Removals(
        store,
        experiments=NoSuchHost(store),
        tasks=world.services.tasks,
        remove_tasks=no_tasks,
        removed=world.services.roles.forget_workspace,
    )
    await failing.step()
    await failing.step()
    for noun, url in (("workspace", f"{WORKSPACES}/{lab}"), ("project", f"/api/v1/projects/{id_}")):
        seen = (await world.ok("GET", url))[noun]
        assert seen["state"] == "WORKSPACE_STATE_DELETE_FAILED"
        assert seen["errorMessage"].endswith(f"experiment {experiment}: no such host")
    await world.ok("DELETE", f"{WORKSPACES}/{lab}")
    await world.removals.step()
    seen = await world.ok("GET", f"{EXPERIMENTS}/{experiment}")
    assert seen["experiment"]["state"] == "STATE_DELETING"
