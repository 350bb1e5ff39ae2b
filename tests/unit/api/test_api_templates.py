"""Templates over REST: every route, who may do what, and what is launched with one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import select

from master.core.names import MAX_NAME
from master.store import tables
from master.templates import service
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world

URL, RENAME = "/api/v1/templates", "/api/v1/template/rename"
CONFIG: dict[str, Any] = {"resources": {"slots_per_trial": 2}}
SECRET: dict[str, Any] = {"environment": {"environment_variables": {"cpu": ["KEY=secret"]}}}
NAMES = (
    "team/gpu",
    "100%",
    "a%2Fb",
    "a b?c=d#e",
    "x" * MAX_NAME,
    "größe",
    "🐘" * 500,
    "rename",
    "-",
    "a\\b",
    "'; DROP TABLE template; --",
)
INTERACTIVE = ("command", "notebook", "shell")


def path_of(name: str) -> str:
    return f"{URL}/{quote(name, safe='')}"


async def create(
    world: ApiWorld, name: str = "mine", config: Any = None, **options: Any
) -> dict[str, Any]:
    body = {"name": name, "config": CONFIG if config is None else config, "workspaceId": 0}
    return dict(await world.ok("POST", path_of(name), body, **options))


async def names(world: ApiWorld, query: str = "") -> list[str]:
    found = await world.ok("GET", f"{URL}{query}")
    return [one["name"] for one in found["templates"]]


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


async def test_the_life_of_a_template(stored: ApiWorld) -> None:
    assert await stored.ok("GET", URL) == {
        "templates": [],
        "pagination": {"offset": 0, "limit": 0, "startIndex": 0, "endIndex": 0, "total": 0},
    }
    created = await create(stored)
    assert created == {
        "template": {
            "name": "mine",
            "config": CONFIG,
            "workspaceId": 1,
            "userId": 1,
            "username": "admin",
            "modifiedAt": created["template"]["modifiedAt"],
        },
        "configWarnings": [],
    }
    assert (await stored.ok("GET", f"{URL}/mine"))["template"] == created["template"]
    changed = {"labels": ["a"], "max_restarts": 0}
    patched = await stored.ok("PATCH", f"{URL}/mine", changed)
    assert list(patched["template"]["config"].items()) == list(changed.items())
    put = await stored.ok("PUT", f"{URL}/mine", {"config": CONFIG, "name": "x", "workspaceId": 1})
    assert put["template"]["config"] == CONFIG
    put = await stored.ok("PUT", f"{URL}/second", {"config": {}, "name": "second"})
    assert put["template"]["name"] == "second"
    renamed = await stored.ok("PATCH", RENAME, {"oldName": "mine", "newName": "third"})
    assert renamed["template"] == {**created["template"], "name": "third"}
    assert await names(stored) == ["second", "third"]
    assert await stored.ok("DELETE", f"{URL}/third") == {}
    assert await names(stored) == ["second"]
    for method in ("GET", "PATCH", "DELETE"):
        said = await stored.refused(404, method, f"{URL}/third", {})
        assert said == "template 'third' not found"


async def test_a_name_belongs_to_one(stored: ApiWorld) -> None:
    await create(stored)
    await create(stored, "second")
    said = await stored.refused(409, "POST", f"{URL}/mine", {"config": {}})
    assert "template 'mine' already exists" in said
    rename = {"oldName": "second", "newName": "mine"}
    assert "already exists" in await stored.refused(409, "PATCH", RENAME, rename)
    await stored.ok("PATCH", RENAME, {"oldName": "mine", "newName": "mine"})
    assert (await stored.ok("GET", f"{URL}/mine"))["template"]["config"] == CONFIG


@pytest.mark.slow
async def test_of_those_who_create_it_at_once_one_does(stored: ApiWorld) -> None:
    """As two people do who call `det template set`: the published client asks first, and then creates it."""
    bodies = [{"config": {"max_restarts": number}} for number in range(20)]
    tried = await asyncio.gather(*(stored.call("POST", f"{URL}/mine", body) for body in bodies))
    assert sorted(response.status_code for response in tried) == [200] + [409] * 19
    (won,) = [at for at, response in enumerate(tried) if response.status_code == 200]
    found = await stored.ok("GET", f"{URL}/mine")
    assert found["template"]["config"] == bodies[won]["config"]
    await asyncio.gather(*(stored.ok("PUT", f"{URL}/put", body) for body in bodies))
    await asyncio.gather(*(stored.ok("PATCH", f"{URL}/put", body["config"]) for body in bodies))
    rows = await stored.services.store.read(select(tables.Template.name))
    assert sorted(rows) == ["mine", "put"]


@pytest.mark.slow
async def test_names_of_any_kind_lead_to_their_template(stored: ApiWorld) -> None:
    for name in NAMES:
        assert (await create(stored, name))["template"]["name"] == name
        assert (await stored.ok("GET", path_of(name)))["template"]["name"] == name
        # As the published client writes them.
        path = f"{URL}/{quote(name)}"
        assert (await stored.ok("PATCH", path, {"labels": []}))["template"]["name"] == name
        rename = {"oldName": name, "newName": "plain"}
        assert (await stored.ok("PATCH", RENAME, rename))["template"]["name"] == "plain"
        rename = {"oldName": "plain", "newName": name}
        assert (await stored.ok("PATCH", RENAME, rename))["template"]["name"] == name
        assert await names(stored) == [name]
        await stored.ok("DELETE", path)
        assert await names(stored) == []


@pytest.mark.slow
async def test_names_that_look_alike_are_others_unless_they_are_the_same(stored: ApiWorld) -> None:
    await create(stored, "cafe\u0301")
    assert await names(stored) == ["café"]
    assert await names(stored, "?name=" + quote("fe\u0301")) == ["café"]
    await stored.ok("GET", path_of("café"))
    await stored.refused(409, "POST", path_of("café"), {"config": {}})
    for other in ("Café", "cafe", "саfé"):  # the last one begins with a Cyrillic letter
        await create(stored, other)
    assert len(await names(stored)) == 4


@pytest.mark.slow
async def test_the_list_is_filtered_sorted_and_cut(stored: ApiWorld) -> None:
    for name in ("beta", "alpha", "a_c", "a%c"):
        await create(stored, name)
    assert set(await names(stored)) == {"a%c", "a_c", "alpha", "beta"}
    assert await names(stored, "?name=ALPH") == ["alpha"]
    assert await names(stored, "?name=a_c") == ["a_c"]
    assert await names(stored, "?name=" + quote("a%c")) == ["a%c"]
    assert await names(stored, "?workspaceIds=1&workspaceIds=7&name=bet") == ["beta"]
    assert await names(stored, "?workspaceIds=7") == []
    found = await names(stored)
    down = await names(stored, "?orderBy=ORDER_BY_DESC&sortBy=SORT_BY_NAME")
    assert down == found[::-1]
    paged = await stored.ok("GET", f"{URL}?offset=1&limit=2")
    assert [one["name"] for one in paged["templates"]] == found[1:3]
    assert paged["pagination"]["total"] == 4
    assert paged["pagination"]["endIndex"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "name", "body", "words"),
    [
        (400, "a", {"name": "a"}, "config: Field required"),
        (400, "a", {"config": None}, "config: Field required"),
        (400, "a", {"config": [1]}, "config: Input should be a valid dictionary"),
        (400, "a", {"config": {"resources": {"slots": -1}}}, "resources.slots: must be >= 0"),
        (400, "a", {"config": {"environment": "x"}}, "environment: expected object or null"),
        (400, "x" * (MAX_NAME + 1), {"config": {}}, "name: has 1001 characters, more than 1000"),
        (400, "a/../b", {"config": {}}, "are no names"),
        (400, " a", {"config": {}}, "name: must neither be empty nor begin or end with a blank"),
        (400, "a\u200bb", {"config": {}}, "characters that cannot be seen"),
        (404, "a", {"config": {}, "workspaceId": 7}, "workspace '7' not found"),
        (400, "a", {"config": {}, "workspaceId": -1}, "workspaceId: "),
        (400, "a", {"config": {"data": {"x": "y" * 1_100_000}}}, "characters once aliases"),
    ],
)
async def test_what_is_wrong_is_named(
    world: ApiWorld, status: int, name: str, body: dict[str, Any], words: str
) -> None:
    assert words in await world.refused(status, "POST", path_of(name), body)
    assert words in await world.refused(status, "PUT", path_of(name), body)
    assert await names(world) == []


async def test_a_change_that_is_wrong_changes_nothing(world: ApiWorld) -> None:
    await create(world)
    for body in ([1], "x", {"resources": 3}):
        await world.refused(400, "PATCH", f"{URL}/mine", body)
    for new in ("", "a/", "x" * 1001):
        said = await world.refused(400, "PATCH", RENAME, {"oldName": "mine", "newName": new})
        assert said.startswith("newName: ")
    rename = {"oldName": "other", "newName": "x"}
    assert await world.refused(404, "PATCH", RENAME, rename) == "template 'other' not found"
    await world.refused(400, "GET", f"{URL}?sortBy=SORT_BY_SIZE")
    assert (await world.ok("GET", f"{URL}/mine"))["template"]["config"] == CONFIG


async def test_there_is_an_end_to_their_number(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_TEMPLATES", 1)
    await create(world)
    said = await world.refused(400, "POST", f"{URL}/second", {"config": {}})
    assert said == "there are 1 templates already: remove some"
    await world.ok("PUT", f"{URL}/mine", {"config": {}})


async def test_who_cannot_use_it_is_told(world: ApiWorld) -> None:
    answer = await create(world, config={"idle_timeout": "1h"})
    (told,) = answer["configWarnings"]
    assert told.startswith("experiments cannot use this template: <config>: ")
    assert (await world.ok("PATCH", f"{URL}/mine", {"entrypoint": []}))["configWarnings"]


async def test_everybody_reads_and_owners_and_administrators_change(world: ApiWorld) -> None:
    other = await login_other(world)
    await create(world, config=SECRET)
    await create(world, "theirs", token=other)
    seen = (await world.ok("GET", f"{URL}/mine", token=other))["template"]
    assert seen["config"]["environment"]["environment_variables"] == {"cpu": ["KEY=********"]}
    body = {"config": {}}
    for method, path, content in (
        ("PATCH", f"{URL}/mine", {}),
        ("PUT", f"{URL}/mine", body),
        ("DELETE", f"{URL}/mine", None),
        ("PATCH", RENAME, {"oldName": "mine", "newName": "stolen"}),
    ):
        said = await world.refused(403, method, path, content, token=other)
        assert said == "template mine belongs to admin: only they and administrators may change it"
    await world.ok("PATCH", f"{URL}/theirs", {"labels": []})
    assert (await world.ok("GET", f"{URL}/mine"))["template"]["config"] == SECRET
    # What others see of it cannot be stored in its place.
    said = await world.refused(400, "PUT", f"{URL}/copy", {"config": seen["config"]}, token=other)
    assert "a secret is ********" in said


async def test_where_work_is_everybodys_templates_are(tmp_path: Path) -> None:
    async with api_world(tmp_path, others_change_work=True) as world:
        await world.login()
        await create(world)
        other = await login_other(world)
        await world.ok("PATCH", f"{URL}/mine", {}, token=other)
        await world.ok("DELETE", f"{URL}/mine", token=other)


# What is launched with one


async def test_an_experiment_is_stored_as_merged(world: ApiWorld) -> None:
    config = {
        "labels": ["of-the-template"],
        "max_restarts": 4,
        "bind_mounts": [
            {"host_path": "/its", "container_path": "a"},
            {"host_path": "/its", "container_path": "b"},
        ],
        "searcher": {"smaller_is_better": False},
        "resources": {"slots_per_trial": 3, "priority": 7},
    }
    await create(world, config=config)
    text = SINGLE + "bind_mounts: [{host_path: /mine, container_path: a}]\n"
    experiment = await world.create(text, template="mine", activate=False)
    found = (await world.ok("GET", f"/api/v1/experiments/{experiment}"))["experiment"]
    merged = found["config"]
    assert merged["labels"] == ["first", "of-the-template"]
    assert merged["max_restarts"] == 2
    assert [mount["host_path"] for mount in merged["bind_mounts"]] == ["/mine", "/its"]
    assert merged["searcher"]["smaller_is_better"] is True
    assert merged["resources"]["slots_per_trial"] == 1
    assert merged["resources"]["priority"] == 7
    assert found["originalConfig"] == text
    # What was launched stays as it is, whatever becomes of the template.
    await world.ok("PATCH", RENAME, {"oldName": "mine", "newName": "renamed"})
    await world.ok("DELETE", f"{URL}/renamed")
    again = (await world.ok("GET", f"/api/v1/experiments/{experiment}"))["experiment"]
    assert again["config"] == merged


async def test_a_template_may_say_all_that_an_experiment_needs(world: ApiWorld) -> None:
    searcher = {"name": "single", "metric": "loss"}
    await create(world, config={"searcher": searcher, "resources": {"slots_per_trial": 0}})
    body = {"config": "entrypoint: python3 train.py", "template": "mine"}
    assert "searcher" in await world.refused(
        400, "POST", "/api/v1/experiments", {**body, "template": None}
    )
    checked = await world.ok("POST", "/api/v1/experiments", {**body, "validateOnly": True})
    assert checked["experiment"]["id"] == 0
    created = await world.ok("POST", "/api/v1/experiments", body)
    assert created["config"]["searcher"]["metric"] == "loss"
    assert created["config"]["resources"]["slots_per_trial"] == 0
    fork = {**body, "parentId": created["experiment"]["id"]}
    forked = await world.ok("POST", "/api/v1/experiments", fork)
    assert forked["experiment"]["forkedFrom"] == created["experiment"]["id"]
    assert forked["config"]["searcher"]["metric"] == "loss"


@pytest.mark.parametrize("more", [{}, {"validateOnly": True}])
async def test_an_experiment_needs_a_template_that_is_there_and_fits(
    world: ApiWorld, more: dict[str, Any]
) -> None:
    await create(world, config={"resources": {"slots": 1}})
    await create(world, "grid", {"searcher": {"name": "grid"}, "max_restarts": 0})
    path, body = "/api/v1/experiments", {"config": SINGLE, **more}
    said = await world.refused(404, "POST", path, {**body, "template": "none"})
    assert said == "template 'none' not found"
    said = await world.refused(400, "POST", path, {**body, "template": "mine"})
    assert said.startswith('invalid template "mine": <config>.resources: additionalProperties')
    config = "entrypoint: x\nhyperparameters: {a: {type: int, minval: 1, maxval: 4}}\n"
    said = await world.refused(400, "POST", path, {**body, "config": config, "template": "grid"})
    assert said.startswith('invalid experiment configuration with template "grid": ')
    assert (await world.ok("GET", path))["experiments"] == []


@pytest.mark.parametrize("kind", INTERACTIVE)
async def test_a_task_lies_over_its_template(world: ApiWorld, kind: str) -> None:
    """What it does not know is left out; its pool is chosen by the request, and slots of the template count."""
    config = {
        "searcher": {"name": "single"},
        "resources": {"slots": 2, "slots_per_trial": 1, "resource_pool": "none", "weight": 2},
        "environment": {"environment_variables": ["A=its"]},
        "description": "of the template",
    }
    await create(world, config=config)
    variables = {"environment_variables": {"cpu": ["A=mine"]}}
    body = {"config": {"environment": variables}, "templateName": "mine", "preview": True}
    found = await world.ok("POST", f"/api/v1/{kind}s", body)
    assert found["config"]["description"] == "of the template"
    assert found["config"]["resources"]["slots"] == 2
    assert found["config"]["resources"]["weight"] == 2.0
    assert found["config"]["resources"]["resource_pool"] == "default"
    assert found["config"]["environment"]["environment_variables"]["cpu"] == ["A=its", "A=mine"]
    assert found["configWarnings"] == [
        "resources.resource_pool of the template has no effect: the task itself chooses its pool, here 'default'"
    ]
    body = {**body, "config": {"resources": {"slots": 0}, "entrypoint": ["x"]}, "preview": False}
    launched = await world.ok("POST", f"/api/v1/{kind}s", body)
    stored = await world.ok("GET", f"/api/v1/{kind}s/{launched[kind]['id']}")
    assert stored["config"]["resources"]["slots"] == 0
    assert stored["config"]["resources"]["weight"] == 2.0
    assert stored[kind]["description"] == "of the template"


@pytest.mark.parametrize("kind", INTERACTIVE)
async def test_a_task_needs_a_template_that_is_there_and_fits(world: ApiWorld, kind: str) -> None:
    path = f"/api/v1/{kind}s"
    said = await world.refused(404, "POST", path, {"templateName": "none"})
    assert said == "template 'none' not found"
    await create(world, config={"entrypoint": []})
    said = await world.refused(400, "POST", path, {"templateName": "mine"})
    assert said.startswith(f'invalid {kind} configuration with template "mine": ')
    assert (await world.ok("GET", path))[f"{kind}s"] == []


async def test_a_tensorboard_prefers_the_image_of_its_template(world: ApiWorld) -> None:
    config = SINGLE + "environment: {image: of-the-experiment}\n"
    experiment = await world.create(config, activate=False)
    await create(world, config={"environment": {"image": {"cpu": "of-the-template"}}})
    await create(world, "other", {"idle_timeout": "7m"})
    body = {"config": {}, "experimentIds": [experiment], "preview": True}
    for name, image in (("other", "of-the-experiment"), ("mine", "of-the-template")):
        found = await world.ok("POST", "/api/v1/tensorboards", {**body, "templateName": name})
        assert found["config"]["environment"]["image"]["cpu"] == image
    own = {"environment": {"image": "mine"}}
    body = {**body, "config": own, "templateName": "mine"}
    found = await world.ok("POST", "/api/v1/tensorboards", body)
    assert found["config"]["environment"]["image"]["cpu"] == "mine"


async def test_files_and_a_work_dir_do_not_go_together_there_either(world: ApiWorld) -> None:
    await create(world, config={"work_dir": "/elsewhere"})
    files = [{"path": "a", "type": 48, "content": "", "mode": 33188, "mtime": "0"}]
    body = {"config": {"entrypoint": ["x"]}, "files": files, "templateName": "mine"}
    said = await world.refused(400, "POST", "/api/v1/commands", body)
    assert "<config>.work_dir: not together with files" in said
