"""Users, their sessions, access tokens and settings over the API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.api_world import PASSWORD, ApiWorld

GOOD = "Good-enough-1"


async def add(world: ApiWorld, name: str, **fields: Any) -> int:
    user = {"username": name, "active": True, **fields}
    body = {"user": user, "password": "" if fields.get("remote") else GOOD}
    return int((await world.ok("POST", "/api/v1/users", body))["user"]["id"])


async def login(world: ApiWorld, name: str, password: str = GOOD) -> str:
    body = {"username": name, "password": password}
    return str((await world.ok("POST", "/api/v1/auth/login", body, token=""))["token"])


async def token_for(world: ApiWorld, **body: Any) -> tuple[str, int]:
    made = await world.ok("POST", "/api/v1/tokens", body)
    return made["token"], made["tokenId"]


async def test_a_patch_is_made_whole_or_not_at_all(world: ApiWorld) -> None:
    ann = await add(world, "ann")
    await add(world, "bob")
    refused = {"displayName": "A", "admin": True, "username": "bob"}
    message = await world.refused(409, "PATCH", f"/api/v1/users/{ann}", refused)
    assert message == "user already exists: bob"
    link = {"agentUid": 7, "agentUser": "a", "agentGid": 7, "agentGroup": "a"}
    patch = {"username": "Anna", "displayName": "A", "admin": True, "agentUserGroup": link}
    changed = (await world.ok("PATCH", f"/api/v1/users/{ann}", patch))["user"]
    assert (changed["username"], changed["displayName"], changed["admin"]) == ("anna", "A", True)
    assert changed["agentUserGroup"] == link
    await world.refused(401, "POST", "/api/v1/auth/login", {"username": "ann", "password": GOOD})
    assert await login(world, "ANNA")


async def test_users_change_only_what_is_their_own(world: ApiWorld) -> None:
    ann = await add(world, "ann")
    world.token = await login(world, "ann")
    me = f"/api/v1/users/{ann}"
    for patch in (
        {"username": "root"},
        {"admin": True},
        {"active": True},
        {"remote": False},
        {"agentUserGroup": {}},
        {"displayName": "A", "admin": False},
    ):
        await world.refused(403, "PATCH", me, patch)
    await world.refused(403, "PATCH", "/api/v1/users/2", {"displayName": "D"})
    await world.refused(403, "POST", "/api/v1/users/2/password", GOOD)
    await world.refused(403, "PATCH", "/api/v1/users", {"activate": False, "userIds": [1]})
    await world.ok("PATCH", me, {"displayName": "Ann"})
    shown = await world.ok("GET", "/api/v1/auth/user")
    assert shown == await world.ok("GET", "/api/v1/me")
    assert shown["user"]["displayName"] == "Ann"


async def test_a_new_password_ends_the_other_sessions(world: ApiWorld) -> None:
    ann = await add(world, "ann")
    here, there = await login(world, "ann"), await login(world, "ann")
    await world.refused(400, "POST", f"/api/v1/users/{ann}/password", "weak", token=here)
    await world.ok("POST", f"/api/v1/users/{ann}/password", "Another-one-2", token=here)
    await world.ok("GET", "/api/v1/me", token=here)
    await world.refused(401, "GET", "/api/v1/me", token=there)
    await world.ok("PATCH", f"/api/v1/users/{ann}", {"password": "By-an-admin-3"})
    await world.refused(401, "GET", "/api/v1/me", token=here)
    assert await login(world, "ann", "By-an-admin-3")


async def test_an_administrator_stays(world: ApiWorld) -> None:
    for patch in ({"admin": False}, {"active": False}):
        message = await world.refused(400, "PATCH", "/api/v1/users/1", patch)
        assert "ask another admin" in message
    message = await world.refused(400, "PATCH", "/api/v1/users/1", {"remote": True})
    assert "is the last active administrator" in message
    await add(world, "ann", admin=True)
    ann = await login(world, "ann")
    await world.ok("PATCH", "/api/v1/users/1", {"active": False}, token=ann)
    await world.refused(401, "GET", "/api/v1/me")


async def test_many_are_deactivated_with_an_answer_for_each(world: ApiWorld) -> None:
    ann, bob = await add(world, "ann"), await add(world, "bob")
    token = await login(world, "ann")
    body = {"activate": False, "userIds": [ann, 99, 1, bob]}
    results = (await world.ok("PATCH", "/api/v1/users", body))["results"]
    assert [(one["id"], bool(one["error"])) for one in results] == [
        (ann, False),
        (99, True),
        (1, True),
        (bob, False),
    ]
    await world.refused(401, "GET", "/api/v1/me", token=token)
    inactive = await world.ok("GET", "/api/v1/users?active=false")
    assert [one["username"] for one in inactive["users"]] == ["ann", "bob"]
    body = {"activate": True, "userIds": [], "filters": {"name": "AN", "admin": False}}
    results = (await world.ok("PATCH", "/api/v1/users", body))["results"]
    assert results == [{"id": ann, "error": ""}]


async def test_a_remote_user_logs_in_with_a_token_alone(world: ApiWorld) -> None:
    rita = await add(world, "rita", remote=True)
    message = await world.refused(400, "POST", f"/api/v1/users/{rita}/password", GOOD)
    assert message == (
        "password: rita is a remote user, whose name and password are not set here: send remote: false with it"
    )
    await world.refused(401, "POST", "/api/v1/auth/login", {"username": "rita", "password": ""})
    token, _ = await token_for(world, userId=rita)
    assert (await world.ok("GET", "/api/v1/me", token=token))["user"]["username"] == "rita"


async def test_tokens_are_made_for_oneself_and_by_admins_for_others(world: ApiWorld) -> None:
    admin = world.token
    token, id_ = await token_for(world, userId=2, description="ci", lifespan="48h")
    assert token.startswith("wat_")
    world.token = await login(world, "determined", PASSWORD)
    mine, mine_id = await token_for(world, userId=2)
    await world.refused(403, "POST", "/api/v1/tokens", {"userId": 1})
    message = await world.refused(400, "POST", "/api/v1/tokens", {"userId": 2, "lifespan": "9999h"})
    assert message.startswith("lifespan: ")
    assert "30 days" in message
    world.token = admin
    _, admins = await token_for(world)
    await world.refused(404, "POST", "/api/v1/tokens", {"userId": 99})
    every = await world.ok("GET", "/api/v1/tokens?sortBy=SORT_BY_USER_ID&orderBy=ORDER_BY_DESC")
    assert [one["id"] for one in every["tokenInfo"]] == [mine_id, id_, admins]
    assert every["pagination"]["total"] == 3
    assert token not in str(every)
    own = await world.ok("GET", "/api/v1/tokens", token=token)
    assert [(one["id"], one["description"]) for one in own["tokenInfo"]] == [
        (id_, "ci"),
        (mine_id, ""),
    ]
    assert own["tokenInfo"][0]["createdBy"] == 1
    assert own["tokenInfo"][0]["tokenType"] == "TOKEN_TYPE_ACCESS_TOKEN"
    named = await world.ok("GET", "/api/v1/tokens?username=admin", token=mine)
    assert named["tokenInfo"] == []
    await world.refused(404, "GET", "/api/v1/tokens?username=nobody")


async def test_an_access_token_opens_no_way_to_stay(world: ApiWorld) -> None:
    token, _ = await token_for(world, userId=1)
    message = await world.refused(403, "POST", "/api/v1/tokens", {"userId": 1}, token=token)
    assert message == "an access token cannot make access tokens: log in with a password"
    message = await world.refused(403, "PATCH", "/api/v1/users/1", {"password": GOOD}, token=token)
    assert message.endswith("log in with a password")
    await world.ok("POST", "/api/v1/auth/logout", token=token)
    await world.ok("GET", "/api/v1/me", token=token)


async def test_a_token_is_described_and_revoked_by_who_may_see_it(world: ApiWorld) -> None:
    theirs, id_ = await token_for(world, userId=2)
    _, admins = await token_for(world)
    path = f"/api/v1/tokens/{id_}"
    # The published client sends the id as a text, and null for what stays.
    body = {"tokenId": str(id_), "description": "new", "setRevoked": False}
    info = (await world.ok("PATCH", path, body, token=theirs))["tokenInfo"]
    assert (info["description"], info["revoked"], info["revokedAt"]) == ("new", False, None)
    hidden = await world.refused(404, "PATCH", f"/api/v1/tokens/{admins}", body, token=theirs)
    absent = await world.refused(404, "PATCH", "/api/v1/tokens/999", body, token=theirs)
    assert hidden.replace(str(admins), "999") == absent
    body = {"tokenId": str(id_), "description": None, "setRevoked": True}
    info = (await world.ok("PATCH", path, body))["tokenInfo"]
    assert (info["description"], info["revoked"]) == ("new", True)
    await world.refused(401, "GET", "/api/v1/me", token=theirs)
    assert (await world.ok("GET", "/api/v1/tokens?username=determined"))["tokenInfo"] == []
    for query in ("showInactive=true&username=determined", f"tokenIds={id_}"):
        found = (await world.ok("GET", f"/api/v1/tokens?{query}"))["tokenInfo"]
        assert [one["id"] for one in found] == [id_], query


async def test_a_task_makes_and_sees_no_tokens(world: ApiWorld) -> None:
    await world.add_agent()
    run = await world.run_of(await world.create())
    task = world.task_token(run)
    _, id_ = await token_for(world)
    await world.refused(403, "GET", "/api/v1/tokens", token=task)
    await world.refused(403, "POST", "/api/v1/tokens", {"userId": 1}, token=task)
    await world.refused(
        404, "PATCH", f"/api/v1/tokens/{id_}", {"tokenId": id_, "setRevoked": True}, token=task
    )


async def test_sessions_are_listed_and_ended(world: ApiWorld) -> None:
    here = await login(world, "determined", PASSWORD)
    there = await login(world, "determined", PASSWORD)
    path = "/api/v1/windlass/users/2/sessions"
    listed = (await world.ok("GET", path, token=here))["sessions"]
    assert [one["current"] for one in listed] == [True, False]
    assert listed[0]["lastUsedAt"] is not None
    assert listed[1]["lastUsedAt"] is None
    assert listed[0]["expiresAt"] > listed[0]["createdAt"]
    admins = (await world.ok("GET", "/api/v1/windlass/users/1/sessions"))["sessions"]
    await world.refused(403, "GET", "/api/v1/windlass/users/1/sessions", token=here)
    hidden = f"/api/v1/windlass/sessions/{admins[0]['id']}"
    assert await world.refused(404, "DELETE", hidden, token=here) == (
        f"session '{admins[0]['id']}' not found"
    )
    await world.ok("DELETE", f"/api/v1/windlass/sessions/{listed[1]['id']}", token=here)
    await world.refused(401, "GET", "/api/v1/me", token=there)
    third = await login(world, "determined", PASSWORD)
    assert await world.ok("DELETE", path, token=here) == {"ended": 1}
    await world.refused(401, "GET", "/api/v1/me", token=third)
    assert await world.ok("DELETE", path) == {"ended": 1}
    await world.refused(401, "GET", "/api/v1/me", token=here)


async def test_settings_are_each_users_own(world: ApiWorld) -> None:
    path = "/api/v1/users/setting"
    await world.login("determined")
    settings = [
        {"key": "b", "storagePath": "p", "value": "1"},
        {"key": "a", "storagePath": "p", "value": None},
        {"key": "a", "storagePath": "", "value": "x"},
    ]
    await world.ok("POST", path, {"settings": settings})
    await world.ok("POST", path, {"settings": [{"key": "b", "storagePath": "p", "value": "2"}]})
    assert (await world.ok("GET", path))["settings"] == [
        {"key": "a", "storagePath": "", "value": "x"},
        {"key": "a", "storagePath": "p", "value": None},
        {"key": "b", "storagePath": "p", "value": "2"},
    ]
    for wrong, where in (
        ({"key": ""}, "settings.0.key"),
        ({"key": "k", "storagePath": "x" * 501}, "settings.0.storagePath"),
        ({"key": "k", "value": "x" * 300_000}, "settings.0.value"),
    ):
        assert (await world.refused(400, "POST", path, {"settings": [wrong]})).startswith(where)
    many = [{"key": str(number)} for number in range(1000)]
    assert "reset them" in await world.refused(400, "POST", path, {"settings": many})
    determined = world.token
    await world.login()
    assert (await world.ok("GET", path))["settings"] == []
    await world.ok("POST", f"{path}/reset", token=determined)
    assert (await world.ok("GET", path, token=determined))["settings"] == []


async def test_projects_looked_at_last_come_first(world: ApiWorld) -> None:
    ids = []
    for name in ("a", "b"):
        made = await world.ok("POST", "/api/v1/workspaces/1/projects", {"name": name})
        ids.append(made["project"]["id"])

    async def visit(id_: int) -> None:
        world.clock.advance(1)
        body = {"activityType": "ACTIVITY_TYPE_GET", "entityType": "ENTITY_TYPE_PROJECT"}
        await world.ok("POST", "/api/v1/users/activity", {**body, "entityId": id_})

    async def recent(query: str = "", **options: Any) -> list[int]:
        found = await world.ok("GET", f"/api/v1/user/projects/activity{query}", **options)
        return [one["id"] for one in found["projects"]]

    for id_ in (*ids, 1, ids[0]):
        await visit(id_)
    assert await recent() == [ids[0], 1, ids[1]]
    assert await recent("?limit=2") == [ids[0], 1]
    await world.ok("DELETE", f"/api/v1/projects/{ids[0]}")
    assert await recent() == [1, ids[1]]
    assert await recent(token=await login(world, "determined", PASSWORD)) == []
    await world.refused(400, "POST", "/api/v1/users/activity", {"entityId": 1})
    await world.refused(
        404,
        "POST",
        "/api/v1/users/activity",
        {
            "activityType": "ACTIVITY_TYPE_GET",
            "entityType": "ENTITY_TYPE_PROJECT",
            "entityId": 9999,
        },
    )


@pytest.mark.parametrize(
    "path", ["/oauth2/clients", "/saml/sso", "/oidc/callback", "/scim/v2/Users"]
)
async def test_other_ways_to_log_in_say_that_they_are_not_there(world: ApiWorld, path: str) -> None:
    message = await world.refused(501, "GET", path)
    assert message == (
        "SAML, OIDC, SCIM and OAuth clients are not part of Windlass; users log in with passwords or access tokens"
    )
