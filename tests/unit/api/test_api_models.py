"""The model registry over REST: models, versions, who may do what, and checkpoints that stay because of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from sqlalchemy import select

from master.core.names import MAX_NAME
from master.experiments.lifecycle.garbage import EVERYTHING, GcKind, gc_row
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world

CLUSTER = "cluster"
"""A folder by which the master sees that it has the storage."""
MODELS, CHECKPOINTS = "/api/v1/models", "/api/v1/checkpoints"


@pytest.fixture
async def stored(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """On both databases."""
    async with api_world(tmp_path, db_url=db_url) as opened:
        await opened.login()
        yield opened


async def model(world: ApiWorld, name: str = "vision", **more: Any) -> int:
    return int((await world.ok("POST", MODELS, {"name": name, **more}))["model"]["id"])


async def names(world: ApiWorld, query: str = "") -> list[str]:
    found = await world.ok("GET", f"{MODELS}?{query}")
    assert found["pagination"]["total"] >= len(found["models"])
    return [one["name"] for one in found["models"]]


async def register(world: ApiWorld, uuid: str, of: object = "vision", **more: Any) -> int:
    body = {"checkpointUuid": uuid, "modelName": str(of), **more}
    answer = await world.ok("POST", f"{MODELS}/{of}/versions", body)
    return int(answer["modelVersion"]["version"])


async def trained(world: ApiWorld, *uuids: str) -> int:
    """An experiment that has completed with these checkpoints, of which all but the first are not kept."""
    if not world.agents:
        await world.add_agent()
    experiment = await world.create()
    run = await world.run_of(experiment)
    for steps, uuid in enumerate(uuids):
        await world.report(world.trial_id(experiment), "validation", steps, loss=0.1 + steps)
        await world.checkpoint(run, uuid, steps)
    await world.finish(run)
    return experiment


def there(folder: Path) -> list[str]:
    """The checkpoints that have their files."""
    return sorted(path.parent.name for path in folder.glob("*/a.txt"))


async def other(world: ApiWorld) -> str:
    body = {"user": {"username": "other", "active": True}, "password": PASSWORD}
    await world.ok("POST", "/api/v1/users", {**body, "isHashed": False})
    mine, token = world.token, await world.login("other")
    world.token = mine
    return token


async def test_the_life_of_a_model(stored: ApiWorld) -> None:
    world = stored
    lab = (await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"]
    unset = {"labels": None, "metadata": None, "notes": None, "workspaceName": None}
    made = (await world.ok("POST", MODELS, {"name": " vision ", **unset}))["model"]
    assert (made["name"], made["workspaceId"], made["username"]) == ("vision", 1, "admin")
    assert (made["labels"], made["metadata"], made["numVersions"]) == ([], {}, 0)
    taken = await world.refused(409, "POST", MODELS, {"name": "vision"})
    assert "avoid names equal to other models (case-sensitive)" in taken
    await model(world, "Vision", workspaceName="lab")
    world.clock.advance(60)
    url = f"{MODELS}/{made['id']}"
    edited = await world.ok(
        "PATCH",
        url,
        {"name": "sight", "description": "sees", "labels": ["b", "a", "b"], "metadata": {"k": 1}},
    )
    assert edited["model"]["labels"] == ["b", "a"]
    assert edited["model"]["lastUpdatedTime"] > made["lastUpdatedTime"]
    assert edited["model"]["creationTime"] == made["creationTime"]
    await world.ok("PATCH", f"{MODELS}/sight", {"notes": "n"})
    kept = (await world.ok("GET", f"{MODELS}/sight"))["model"]
    assert [kept[key] for key in ("description", "notes", "metadata")] == ["sees", "n", {"k": 1}]
    cleared = await world.ok("PATCH", url, {"labels": [], "metadata": {}, "description": ""})
    assert [cleared["model"][key] for key in ("labels", "metadata", "description")] == [[], {}, ""]
    assert "is taken" in await world.refused(409, "PATCH", url, {"name": "Vision"})
    await world.ok("POST", f"{url}/archive")
    for body in ({"name": "n"}, {"notes": ""}, {"workspaceName": "lab"}):
        assert "is archived: unarchive it" in await world.refused(400, "PATCH", url, body)
    body = {"destinationWorkspaceId": lab}
    assert "is archived" in await world.refused(400, "POST", f"{url}/move", body)
    assert await names(world, "archived=false") == ["Vision"]
    assert await names(world, "archived=true") == ["sight"]
    await world.ok("POST", f"{url}/unarchive")
    await world.ok("POST", f"{url}/move", body)
    assert (await world.ok("GET", url))["model"]["workspaceId"] == lab
    back = await world.ok("PATCH", url, {"workspaceName": "Uncategorized"})
    assert back["model"]["workspaceId"] == 1
    both = {"workspaceName": "lab", "workspaceId": 1}
    assert "workspaceId: 1 is not" in await world.refused(400, "PATCH", url, both)
    unknown = await world.refused(404, "PATCH", url, {"workspaceName": "none"})
    assert unknown == "workspace 'none' not found"
    await world.ok("DELETE", f"{MODELS}/sight")
    assert await world.refused(404, "GET", url) == f"model '{made['id']}' not found"


async def test_lists_are_filtered_sorted_and_cut(stored: ApiWorld) -> None:
    world = stored
    await world.ok("POST", "/api/v1/workspaces", {"name": "lab"})
    await model(world, "Beta", description="Sees 100%", labels=["x", "y"])
    world.clock.advance(1)
    await model(world, "alpha", description="hears", labels=["y"], workspaceName="lab")
    world.clock.advance(1)
    third = await model(world, "gamma_é", labels=["z"])
    await world.ok("PATCH", f"{MODELS}/Beta", {"notes": "newest"})
    for query, expected in {
        "": ["Beta", "alpha", "gamma_é"],
        "name=A": ["Beta", "alpha", "gamma_é"],
        "name=BET": ["Beta"],
        "name=%25": [],
        "name=a_%C3%A9": ["gamma_é"],
        "description=0%25": ["Beta"],
        "description=E": ["Beta", "alpha"],
        "labels=x&labels=z": ["Beta", "gamma_é"],
        "labels=none": [],
        f"id={third}": ["gamma_é"],
        "workspaceNames=lab": ["alpha"],
        "workspaceIds=1": ["Beta", "gamma_é"],
        "users=admin": ["Beta", "alpha", "gamma_é"],
        "users=determined": [],
        "userIds=2": [],
        "sortBy=SORT_BY_NAME": ["alpha", "Beta", "gamma_é"],
        "sortBy=SORT_BY_NAME&orderBy=ORDER_BY_DESC&limit=1&offset=1": ["Beta"],
        "sortBy=SORT_BY_DESCRIPTION": ["gamma_é", "alpha", "Beta"],
        "sortBy=SORT_BY_CREATION_TIME&orderBy=ORDER_BY_DESC": ["gamma_é", "alpha", "Beta"],
        "sortBy=SORT_BY_LAST_UPDATED_TIME": ["alpha", "Beta", "gamma_é"],
        "sortBy=SORT_BY_WORKSPACE": ["alpha", "Beta", "gamma_é"],
        "sortBy=SORT_BY_NUM_VERSIONS": ["Beta", "alpha", "gamma_é"],
    }.items():
        assert await names(world, query) == expected, query
    assert await world.ok("GET", "/api/v1/model/labels") == {"labels": ["y", "x", "z"]}
    lab = "/api/v1/model/labels?workspaceId=2"
    assert await world.ok("GET", lab) == {"labels": ["y"]}


@pytest.mark.parametrize(
    "name", ["100%", "a%2Fb", "größe 🐘", "a?b#c", "cafe\u0301", "x" * MAX_NAME, "a.b"]
)
async def test_a_model_of_any_name_is_found_by_it(world: ApiWorld, name: str) -> None:
    id_ = await model(world, name)
    url = f"{MODELS}/{quote(name, safe='')}"
    assert (await world.ok("GET", url))["model"]["id"] == id_
    assert (await world.ok("GET", f"{url}/versions"))["modelVersions"] == []
    await world.refused(409, "POST", MODELS, {"name": name})


async def test_what_is_wrong_is_named(world: ApiWorld) -> None:
    await model(world)
    for body, words in (
        ({"name": ""}, "name: must not be blank"),
        ({"name": "7"}, "name: '7' has only digits"),
        ({"name": "a/b"}, "name: must not contain a slash"),
        ({"name": "a", "labels": ["x"] * 1001}, "labels: "),
        ({"name": "a", "notes": "x" * 65_537}, "notes: "),
        ({"name": "a", "metadata": []}, "metadata: "),
        ({}, "name: Field required"),
    ):
        assert words in await world.refused(400, "POST", MODELS, body)
    url = f"{MODELS}/vision/versions"
    missing = await world.refused(404, "POST", url, {"checkpointUuid": "none"})
    assert missing == "checkpoint 'none' not found"
    gone = await world.refused(404, "GET", f"{url}/1")
    assert gone == "version of model 'vision' '1' not found"
    assert "model 'none' not found" in await world.refused(404, "GET", f"{MODELS}/none/versions")
    await world.refused(400, "POST", f"{MODELS}/vision/move", {"destinationWorkspaceId": 0})


async def test_the_life_of_versions(stored: ApiWorld) -> None:
    world = stored
    await trained(world, "one")
    created = (await world.ok("POST", MODELS, {"name": "vision"}))["model"]
    world.clock.advance(60)
    body = {"checkpointUuid": "one", "modelName": "vision", "comment": "c", "labels": ["l"]}
    answer = (await world.ok("POST", f"{MODELS}/vision/versions", body))["modelVersion"]
    assert (answer["version"], answer["comment"], answer["labels"]) == (1, "c", ["l"])
    assert (answer["model"]["numVersions"], answer["username"]) == (1, "admin")
    assert answer["model"]["lastUpdatedTime"] > created["lastUpdatedTime"]
    shown = answer["checkpoint"]
    assert shown == (await world.ok("GET", f"{CHECKPOINTS}/one"))["checkpoint"]
    assert shown["training"]["searcherMetric"] == 0.1
    assert await register(world, "one", created["id"]) == 2
    url = f"{MODELS}/vision/versions"
    newest = await world.ok("GET", f"{url}?limit=1&orderBy=ORDER_BY_DESC&sortBy=SORT_BY_VERSION")
    assert [one["version"] for one in newest["modelVersions"]] == [2]
    assert (newest["pagination"]["total"], newest["model"]["name"]) == (2, "vision")
    edited = await world.ok("PATCH", f"{url}/2", {"name": "v2", "notes": "n", "metadata": {"a": 1}})
    kept = (await world.ok("GET", f"{url}/2"))["modelVersion"]
    assert kept == edited["modelVersion"]
    assert (kept["name"], kept["notes"], kept["metadata"], kept["comment"]) == (
        *("v2", "n", {"a": 1}),
        "",
    )
    another = {"checkpoint": {"uuid": "two"}}
    assert "does not change" in await world.refused(400, "PATCH", f"{url}/2", another)
    await world.ok("DELETE", f"{url}/2")
    await world.refused(404, "GET", f"{url}/2")
    assert await register(world, "one") == 3, "a number is not given again"
    await world.ok("POST", f"{MODELS}/vision/archive")
    for method, where, body in (
        ("POST", url, {"checkpointUuid": "one"}),
        ("PATCH", f"{url}/1", {"name": "n"}),
    ):
        assert "is archived" in await world.refused(400, method, where, body)
    await world.ok("DELETE", f"{MODELS}/vision")
    assert (await world.ok("GET", f"{CHECKPOINTS}/one"))["checkpoint"]["state"] == "STATE_COMPLETED"


async def test_numbers_of_fifty_registrations_at_once(stored: ApiWorld) -> None:
    world = stored
    await trained(world, "one")
    await model(world)
    numbers = await asyncio.gather(*(register(world, "one") for _ in range(50)))
    assert sorted(numbers) == list(range(1, 51))
    stored_ = await world.ok("GET", f"{MODELS}/vision/versions")
    assert [one["version"] for one in stored_["modelVersions"]] == list(range(1, 51))


async def test_one_of_many_creations_of_a_name_wins(world: ApiWorld) -> None:
    calls = (world.call("POST", MODELS, {"name": "same"}) for _ in range(20))
    statuses = [answer.status_code for answer in await asyncio.gather(*calls)]
    assert sorted(statuses) == [200] + [409] * 19


async def test_only_a_complete_checkpoint_is_registered(world: ApiWorld, tmp_path: Path) -> None:
    (tmp_path / CLUSTER).mkdir()
    experiment = await trained(world, "best", "worse", "latest")
    await world.collected()
    await model(world)
    url = f"{MODELS}/vision/versions"
    refusal = await world.refused(400, "POST", url, {"checkpointUuid": "worse"})
    assert refusal == "checkpoint worse is DELETED: only one that is COMPLETED can be registered"
    # Asked for, but not yet done: as after a crash.
    unit = UnitOfWork()
    row = gc_row(
        GcKind.FILES,
        experiment,
        task=UUID(int=1),
        by=1,
        now=world.clock.now(),
        checkpoints=["best"],
        globs=EVERYTHING,
    )
    unit.insert(tables.CheckpointGc, row)
    await world.services.store.commit(unit)
    refusal = await world.refused(400, "POST", url, {"checkpointUuid": "best"})
    assert refusal == "checkpoint best is being deleted"


async def test_a_registered_checkpoint_stays(world: ApiWorld, tmp_path: Path) -> None:
    await world.add_agent()
    experiment = await world.create()
    run = await world.run_of(experiment)
    await model(world)
    for steps, uuid in enumerate(("best", "kept", "worse")):
        (tmp_path / uuid).mkdir()
        (tmp_path / uuid / "a.txt").write_text("12345")
        await world.report(world.trial_id(experiment), "validation", steps, loss=0.1 + steps)
        await world.checkpoint(run, uuid, steps)
        if uuid == "kept":
            await register(world, "kept")
    url = f"/api/v1/experiments/{experiment}"
    none = {"saveExperimentBest": 0, "saveTrialBest": 0, "saveTrialLatest": 0}
    await world.finish(run)
    await world.ok("PATCH", url, {"checkpointStorage": none})
    await world.collected()
    assert there(tmp_path) == ["kept"]
    named = "kept (version 1 of model 'vision')"
    for method, where, body in (
        ("DELETE", CHECKPOINTS, {"checkpointUuids": ["kept"]}),
        ("POST", f"{CHECKPOINTS}/rm", {"checkpointUuids": ["kept"], "checkpointGlobs": ["*"]}),
        ("DELETE", url, None),
    ):
        refusal = await world.refused(400, method, where, body)
        assert f"in the model registry: {named}: delete these versions first" in refusal
    remaining = {"checkpoints": [{"uuid": "kept", "resources": {"resources": {}}}]}
    refusal = await world.refused(400, "PATCH", CHECKPOINTS, remaining)
    assert "checkpoint kept is in the model registry" in refusal
    bulk = "/api/v1/projects/1/experiments/delete"
    them = {"experimentIds": [experiment], "projectId": 1}
    (result,) = (await world.ok("DELETE", bulk, them))["results"]
    assert named in result["error"]
    await world.ok("DELETE", f"{MODELS}/vision/versions/1")
    await world.ok("DELETE", url)
    await world.collected()
    assert there(tmp_path) == []
    await world.refused(404, "GET", url)


async def test_a_workspace_with_models_is_not_deleted(world: ApiWorld) -> None:
    made = await world.ok("POST", "/api/v1/workspaces", {"name": "lab"})
    url = f"/api/v1/workspaces/{made['workspace']['id']}"
    await model(world, workspaceName="lab")
    refusal = await world.refused(400, "DELETE", url)
    assert refusal.endswith("(lab) contains models; move or delete models first")
    await world.ok("POST", f"{url}/archive")
    for method, where, body in (
        ("POST", MODELS, {"name": "a", "workspaceName": "lab"}),
        ("PATCH", f"{MODELS}/vision", {"notes": "n"}),
        ("POST", f"{MODELS}/vision/archive", None),
    ):
        assert "(lab) is archived" in await world.refused(400, method, where, body)
    await world.ok("POST", f"{url}/unarchive")
    await world.ok("PATCH", f"{MODELS}/vision", {"workspaceId": 1})
    assert await world.ok("DELETE", url) == {"completed": True}


async def test_models_and_versions_are_changed_by_their_owners(world: ApiWorld) -> None:
    await trained(world, "one")
    await model(world)
    await register(world, "one")
    mine, theirs = world.token, await other(world)
    world.token = theirs
    url = f"{MODELS}/vision"
    for method, where, body in (
        ("PATCH", url, {"name": "stolen"}),
        ("POST", f"{url}/archive", None),
        ("POST", f"{url}/move", {"destinationWorkspaceId": 1}),
        ("POST", f"{url}/versions", {"checkpointUuid": "one"}),
        ("PATCH", f"{url}/versions/1", {"name": "stolen"}),
        ("DELETE", f"{url}/versions/1", None),
        ("DELETE", url, None),
    ):
        refusal = await world.refused(403, method, where, body)
        assert "belongs to admin: only they and administrators" in refusal
    await model(world, "hearing")
    assert await register(world, "one", "hearing") == 1
    assert (await world.ok("GET", url))["model"]["numVersions"] == 1
    world.token = mine
    await world.ok("DELETE", f"{MODELS}/hearing/versions/1")


async def test_in_a_cluster_of_common_work_all_edit_and_owners_delete(tmp_path: Path) -> None:
    async with api_world(tmp_path, others_change_work=True) as world:
        await world.login()
        await trained(world, "one")
        await model(world)
        await register(world, "one")
        mine, world.token = world.token, await other(world)
        await world.ok("PATCH", f"{MODELS}/vision", {"notes": "ours"})
        assert await register(world, "one") == 2
        await world.refused(403, "DELETE", f"{MODELS}/vision/versions/1")
        await world.ok("DELETE", f"{MODELS}/vision/versions/2")
        await world.refused(403, "DELETE", f"{MODELS}/vision")
        world.token = mine
        await world.ok("DELETE", f"{MODELS}/vision")


async def test_metrics_of_trials_that_use_a_version(stored: ApiWorld, tmp_path: Path) -> None:
    world = stored
    (tmp_path / CLUSTER).mkdir()
    await trained(world, "one")
    id_ = await model(world)
    await register(world, "one")
    await register(world, "one")
    using = await world.create()
    run = await world.run_of(using)
    trial, token = world.trial_id(using), world.task_token(run)
    await world.report(trial, "inference", 1, accuracy=0.5)
    await world.report(trial, "validation", 1, loss=0.5)

    def info(**more: Any) -> dict[str, Any]:
        kind = "TRIAL_SOURCE_INFO_TYPE_INFERENCE"
        body = {"checkpointUuid": "one", "trialId": trial, "trialSourceInfoType": kind, **more}
        return {"trialSourceInfo": body}

    async def metrics(url: str, kind: str = "INFERENCE", group: str = "") -> list[str]:
        query = f"trialSourceInfoType=TRIAL_SOURCE_INFO_TYPE_{kind}&metricGroup={group}"
        found = await world.ok("GET", f"{url}/metrics?{query}")
        assert all(report["trialId"] == trial for report in found["metrics"])
        return [report["group"] for report in found["metrics"]]

    source, first = "/api/v1/trial-source-info", f"{MODELS}/vision/versions/1"
    said = await world.ok("POST", source, info(), token=token)
    assert said == {"trialId": trial, "checkpointUuid": "one"}
    assert sorted(await metrics(f"{CHECKPOINTS}/one")) == ["inference", "validation"]
    assert await metrics(first) == []
    await world.ok("POST", source, info(modelId=id_, modelVersion=1), token=token)
    assert await metrics(first, group="inference") == ["inference"]
    assert await metrics(f"{CHECKPOINTS}/one", group="validation") == ["validation"]
    assert await metrics(f"{MODELS}/{id_}/versions/2") == []
    assert await metrics(first, "FINE_TUNING") == []
    for status, body, words in (
        (400, info(modelId=id_), "modelId and modelVersion: both must be given"),
        (404, info(modelId=id_, modelVersion=9), f"version of model {id_} '9' not found"),
        (404, info(modelId=99, modelVersion=1), "model '99' not found"),
        (404, info(checkpointUuid="none"), "checkpoint 'none' not found"),
        (400, info(trialSourceInfoType=None), "trialSourceInfoType: "),
        (403, info(trialId=1), "only what is its own"),
    ):
        assert words in await world.refused(status, "POST", source, body, token=token)
    tuned = info(trialSourceInfoType="TRIAL_SOURCE_INFO_TYPE_FINE_TUNING")
    await world.ok("POST", source, tuned, token=token)
    assert len(await metrics(f"{CHECKPOINTS}/one", "FINE_TUNING")) == 2
    assert await metrics(f"{CHECKPOINTS}/one") == []
    await world.ok("POST", source, info(modelId=id_, modelVersion=2), token=token)
    await world.ok("DELETE", f"{MODELS}/vision")
    rows = await world.services.store.read(select(tables.TrialSource))
    assert [(row.model_id, row.model_version) for row in rows] == [(None, None)]
    await world.finish(run)
    await world.ok("DELETE", f"/api/v1/experiments/{using}")
    await world.collected()
    assert await world.services.store.read(select(tables.TrialSource)) == []


async def test_a_trial_that_began_with_a_checkpoint_fine_tunes_it(world: ApiWorld) -> None:
    await trained(world, "one")
    config = SINGLE.replace("searcher: {", "searcher: {source_checkpoint_uuid: one, ")
    experiment = await world.create(config)
    run = await world.run_of(experiment)
    trial = world.trial_id(experiment)
    await world.report(trial, "validation", 1, loss=0.5)
    kind = "TRIAL_SOURCE_INFO_TYPE_FINE_TUNING"
    body = {"checkpointUuid": "one", "trialId": trial, "trialSourceInfoType": kind}
    token = world.task_token(run)
    await world.ok("POST", "/api/v1/trial-source-info", {"trialSourceInfo": body}, token=token)
    found = await world.ok("GET", f"{CHECKPOINTS}/one/metrics?trialSourceInfoType={kind}")
    assert [report["trialId"] for report in found["metrics"]] == [trial], "each report once"
