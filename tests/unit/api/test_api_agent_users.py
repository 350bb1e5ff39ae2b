"""Whom users' tasks run as on the agents' machines: administrators link them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.api_world import ApiWorld

ANN = {"agentUid": 1000, "agentUser": "ann", "agentGid": 100, "agentGroup": "users"}
NO_LINKS = {"agentUid": None, "agentUser": "", "agentGid": None, "agentGroup": ""}


async def link(world: ApiWorld, value: Any, user_id: int = 2) -> Any:
    body = {"agentUserGroup": value}
    return (await world.ok("PATCH", f"/api/v1/users/{user_id}", body))["user"]["agentUserGroup"]


async def test_a_link_is_in_every_reply_about_the_user(world: ApiWorld) -> None:
    assert await link(world, ANN) == ANN
    one = await world.ok("GET", "/api/v1/users/2")
    named = await world.ok("GET", "/api/v1/users/determined/by-username")
    listed = await world.ok("GET", "/api/v1/users")
    assert one["user"]["agentUserGroup"] == named["user"]["agentUserGroup"] == ANN
    assert [user["agentUserGroup"] for user in listed["users"]] == [None, ANN]


@pytest.mark.parametrize("nothing", [{}, NO_LINKS])
async def test_a_link_ends_with_nothing_in_it(world: ApiWorld, nothing: object) -> None:
    await link(world, ANN)
    assert await link(world, nothing) is None


async def test_root_must_be_said(world: ApiWorld) -> None:
    root = {"agentUid": 0, "agentUser": "root", "agentGid": 0, "agentGroup": "root"}
    assert await link(world, root) == root


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agentGid": None}, "agentUserGroup: give agentUid, agentUser, agentGid and agentGroup"),
        ({"agentUser": ""}, "agentUserGroup: give agentUid"),
        ({"agentUid": -1}, "agentUid"),
        ({"agentUid": 2**31 - 1}, "agentUid"),
        ({"agentUid": "root"}, "agentUid"),
        ({"agentUser": "ann:0:0"}, "agentUser"),
        ({"agentUser": "ann\nroot"}, "agentUser"),
        ({"agentUser": "ann\n"}, "agentUser"),
        ({"agentUser": "ann\0"}, "agentUser"),
        ({"agentUser": "-rf"}, "agentUser"),
        ({"agentUser": "a" * 256}, "agentUser"),
        ({"agentGroup": "my group"}, "agentGroup"),
    ],
)
async def test_a_link_must_be_whole_and_possible(
    world: ApiWorld, change: dict[str, Any], words: str
) -> None:
    body = {"agentUserGroup": {**ANN, **change}}
    assert words in await world.refused(400, "PATCH", "/api/v1/users/2", body)
    assert (await world.ok("GET", "/api/v1/users/2"))["user"]["agentUserGroup"] is None


async def test_names_of_directories_and_the_largest_number_are_fine(world: ApiWorld) -> None:
    odd = {**ANN, "agentUid": 2**31 - 2, "agentUser": r"CORP\ann.b-c", "agentGroup": "g@corp"}
    assert await link(world, odd) == odd


async def test_nobody_but_administrators_links_anybody_not_even_himself(world: ApiWorld) -> None:
    await world.login("determined")
    for user_id in (1, 2):
        await world.refused(403, "PATCH", f"/api/v1/users/{user_id}", {"agentUserGroup": ANN})
        await world.refused(403, "PATCH", f"/api/v1/users/{user_id}", {"agentUserGroup": {}})


async def test_a_new_user_may_be_linked_at_once(world: ApiWorld) -> None:
    new = {"user": {"username": "eve", "active": True, "agentUserGroup": ANN}}
    created = await world.ok("POST", "/api/v1/users", new)
    assert created["user"]["agentUserGroup"] == ANN
