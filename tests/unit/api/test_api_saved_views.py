"""Views of lists that users keep, over REST."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.api_world import ApiWorld

VIEWS = "/api/v1/windlass/views"
VIEW = {
    "list": "experiments",
    "name": "good ones",
    "filter": "state = RUNNING and user = me",
    "sort": "-started,hp.lr",
    "columns": ["state", "hp.lr"],
    "archived": True,
}


async def shown(world: ApiWorld, table: str = "experiments", **options: Any) -> list[Any]:
    answer = await world.ok("GET", f"{VIEWS}?list={table}", **options)
    return [(view["username"], view["name"]) for view in answer["views"]]


async def test_a_view_is_kept_as_it_was_written(world: ApiWorld) -> None:
    await world.ok("PUT", VIEWS, VIEW)
    (view,) = (await world.ok("GET", f"{VIEWS}?list=experiments"))["views"]
    assert {key: view[key] for key in VIEW} == VIEW
    assert (view["projectId"], view["workspaceId"], view["username"]) == (None, None, "admin")
    usual = {"list": "experiments", "name": "good ones", "filter": "lr < 1"}
    await world.ok("PUT", VIEWS, usual)
    (view,) = (await world.ok("GET", f"{VIEWS}?list=experiments"))["views"]
    assert (view["filter"], view["columns"], view["archived"]) == ("lr < 1", None, False)
    assert await shown(world, "runs") == []
    gone = {"list": "experiments", "name": "good ones"}
    await world.ok("DELETE", VIEWS, gone)
    assert await shown(world) == []
    assert "good ones" in await world.refused(404, "DELETE", VIEWS, gone)


async def test_a_view_is_shown_to_those_who_see_where_it_is_shared(world: ApiWorld) -> None:
    admin, other = world.token, await world.login("determined")
    world.token = admin
    for name, where in (("mine", {}), ("ours", {"projectId": 1}), ("all", {"workspaceId": 1})):
        await world.ok("PUT", VIEWS, {**VIEW, "name": name, **where})
    assert await shown(world) == [("admin", "all"), ("admin", "mine"), ("admin", "ours")]
    assert await shown(world, token=other) == [("admin", "all"), ("admin", "ours")]
    await world.ok("PUT", VIEWS, {**VIEW, "name": "ours"}, token=other)
    assert await shown(world, token=other) == [
        ("determined", "ours"),
        ("admin", "all"),
        ("admin", "ours"),
    ]
    gone = {"list": "experiments", "name": "all"}
    await world.refused(404, "DELETE", VIEWS, gone, token=other)


async def test_views_that_are_shared_with_a_project_go_with_it(world: ApiWorld) -> None:
    lab = (await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"]
    body = {"name": "vision"}
    project = (await world.ok("POST", f"/api/v1/workspaces/{lab}/projects", body))["project"]["id"]
    await world.ok("PUT", VIEWS, {**VIEW, "projectId": project})
    await world.ok("PUT", VIEWS, {**VIEW, "name": "of the lab", "workspaceId": lab})
    await world.ok("DELETE", f"/api/v1/projects/{project}")
    assert await shown(world) == [("admin", "of the lab")]
    await world.ok("DELETE", f"/api/v1/workspaces/{lab}")
    assert await shown(world) == []


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"filter": "state = RUNING"}, 400, "did you mean RUNNING"),
        ({"sort": "label"}, 400, "no order"),
        ({"name": " "}, 400, "name"),
        ({"name": "n" * 201}, 400, "name"),
        ({"columns": ["a\nb"]}, 400, "line break"),
        ({"columns": ["a"] * 101}, 400, "columns"),
        ({"columns": ["a" * 1_000] * 11}, 400, "more than 10000"),
        ({"list": "tasks"}, 400, "list"),
        ({"projectId": 99}, 404, "project"),
        ({"workspaceId": 99}, 404, "workspace"),
        ({"projectId": 1, "workspaceId": 1}, 400, "or with a workspace"),
    ],
)
async def test_what_is_no_view_is_refused(
    world: ApiWorld, change: dict[str, Any], status: int, word: str
) -> None:
    assert word in await world.refused(status, "PUT", VIEWS, {**VIEW, **change})
    assert await shown(world) == []
