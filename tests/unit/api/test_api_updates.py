"""`/stream` over real sockets, and that what is followed ends with the right to see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets.asyncio.client as sockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

from master.api.http.held import ServerStop
from master.core.roles.catalogue import RoleId
from tests.fakes.api_world import PASSWORD, ApiWorld, api_world
from tests.fakes.served_api import Served, served
from tests.fakes.updates_client import Picture
from tests.published import COMPAT, ROOT, needs_published
from windlass.base.errors import WindlassError
from windlass.sdk.session import Session
from windlass.sdk.updates import watch

RBAC = {"authz.type": "rbac"}


class Follower:
    """A program at `/stream`."""

    def __init__(self, socket: sockets.ClientConnection) -> None:
        self.socket = socket
        self.picture = Picture()

    async def subscribe(self, filters: Mapping[str, Mapping[str, Any]]) -> None:
        await self.socket.send(json.dumps(self.picture.subscription(filters)))
        while not self.picture.is_complete:
            await self.take()

    async def take(self) -> None:
        self.picture.take(str(await self.socket.recv()))

    async def until(self, kind: str, ids: set[int]) -> None:
        while set(self.picture.rows[kind]) != ids:
            await self.take()

    async def closed(self) -> tuple[int, str]:
        with suppress(ConnectionClosed):
            while True:
                await self.socket.recv()
        assert self.socket.close_code is not None
        return self.socket.close_code, self.socket.close_reason or ""


@asynccontextmanager
async def following(server: Served, token: str, **headers: str) -> AsyncIterator[Follower]:
    url = server.url.replace("http:", "ws:") + "/stream"
    given = {"Authorization": f"Bearer {token}", **headers} if token else headers
    async with sockets.connect(url, proxy=None, additional_headers=given) as socket:
        yield Follower(socket)


async def a_user(world: ApiWorld, name: str) -> tuple[int, str]:
    """Its id and its token; the world stays who it is."""
    body = {"user": {"username": name, "active": True}, "password": PASSWORD, "isHashed": False}
    id_ = (await world.ok("POST", "/api/v1/users", body))["user"]["id"]
    login = {"username": name, "password": PASSWORD}
    return id_, (await world.ok("POST", "/api/v1/auth/login", login, token=""))["token"]


async def a_workspace(world: ApiWorld, name: str) -> int:
    return int((await world.ok("POST", "/api/v1/workspaces", {"name": name}))["workspace"]["id"])


async def a_project(world: ApiWorld, workspace: int, name: str) -> int:
    path = f"/api/v1/workspaces/{workspace}/projects"
    created = await world.ok("POST", path, {"name": name, "workspaceId": workspace})
    return int(created["project"]["id"])


def role(user: int, workspace: int) -> dict[str, Any]:
    held = {"role": {"roleId": int(RoleId.VIEWER)}, "scopeWorkspaceId": workspace}
    return {"userRoleAssignments": [{"userId": user, "roleAssignment": held}]}


@pytest.fixture
async def roles_world(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    async with api_world(tmp_path, security=RBAC) as world:
        await world.login()
        yield world


async def test_changes_by_the_api_are_told_and_found_again(world: ApiWorld) -> None:
    here, there = await a_workspace(world, "here"), await a_workspace(world, "there")
    first = await a_project(world, here, "first")
    wanted = {"projects": {"workspace_ids": [here]}, "models": {"workspace_ids": [here]}}
    async with served(world) as server:
        async with following(server, world.token) as program:
            await program.subscribe(wanted)
            assert set(program.picture.rows["projects"]) == {first}
            second = await a_project(world, here, "second")
            await program.until("projects", {first, second})
            body = {"name": "m", "workspaceId": here, "labels": ["a"], "metadata": {"x": 1}}
            model = (await world.ok("POST", "/api/v1/models", body))["model"]["id"]
            await program.until("models", {model})
            assert program.picture.rows["models"][model]["labels"] == ["a"]
            body = {"destinationWorkspaceId": there}
            await world.ok("POST", f"/api/v1/projects/{second}/move", body)
            await program.until("projects", {first})
            picture = program.picture
        await world.ok("DELETE", f"/api/v1/projects/{first}")
        third = await a_project(world, here, "third")
        async with following(server, world.token) as program:
            program.picture = picture
            await program.subscribe(wanted)
            assert set(picture.rows["projects"]) == {third}
            assert set(picture.rows["models"]) == {model}
            await program.subscribe({"models": {"model_ids": [model]}})
            assert picture.rows["projects"] == {}


async def test_a_role_shows_and_hides_at_once(roles_world: ApiWorld) -> None:
    world = roles_world
    user, token = await a_user(world, "member")
    here, there = await a_workspace(world, "here"), await a_workspace(world, "there")
    hers = await a_project(world, here, "hers")
    moved = await a_project(world, there, "moved")
    wanted = {"projects": {"workspace_ids": [here, there]}}
    async with served(world) as server, following(server, token) as program:
        await program.subscribe(wanted)
        assert program.picture.rows["projects"] == {}
        await world.ok("POST", "/api/v1/roles/add-assignments", role(user, here))
        await program.until("projects", {hers})
        await world.ok("POST", f"/api/v1/projects/{moved}/move", {"destinationWorkspaceId": here})
        await program.until("projects", {hers, moved})
        await world.ok("POST", "/api/v1/roles/remove-assignments", role(user, here))
        await program.until("projects", set())
        await world.ok("PATCH", f"/api/v1/users/{user}", {"active": False})
        code, why = await program.closed()
    assert (code, why) == (1008, "invalid credentials")


async def test_a_logout_and_a_stopping_master_close(world: ApiWorld) -> None:
    _, token = await a_user(world, "leaver")
    server = Served(world)
    await server.start()
    async with following(server, token) as program, following(server, world.token) as other:
        await program.subscribe({})
        await world.ok("POST", "/api/v1/auth/logout", {}, token=token)
        assert await program.closed() == (1008, "invalid credentials")
        await other.subscribe({})
        stopping = asyncio.create_task(server.stop())
        assert (await other.closed())[0] == 1012
        await stopping


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("{", "message: is not valid JSON"),
        ("[]", "message: "),
        ('{"known": {"models": "3-1"}}', "known.models: '3-1': write ascending ids"),
        ('{"subscribe": {"projects": {"project_ids": [0]}}}', "subscribe.projects.project_ids.0: "),
        ('{"subscribe": {"models": {"since": -1}}}', "subscribe.models.since: "),
        ('{"subscribe": {"trials": {}}}', "subscribe.trials: "),
        ('{"subscribe": {"models": {"user_ids": "1"}}}', "subscribe.models.user_ids: "),
        (b"{}", "message: must be text, not bytes"),
    ],
)
async def test_a_bad_message_closes_and_names_its_field(
    world: ApiWorld, message: str | bytes, said: str
) -> None:
    async with served(world) as server, following(server, world.token) as program:
        await program.socket.send(message)
        code, why = await program.closed()
    assert (code, why[: len(said)]) == (1008, said)


async def test_a_page_of_others_cannot_connect_by_a_cookie(world: ApiWorld) -> None:
    async with served(world) as server:
        cookie = {"Cookie": f"auth={world.token}"}
        with pytest.raises(InvalidStatus, match="403"):
            async with following(server, "", Origin="http://elsewhere", **cookie):
                pass
        async with following(server, "", Origin=server.url, **cookie) as program:
            await program.subscribe({"projects": {"project_ids": [1]}})
            assert set(program.picture.rows["projects"]) == {1}


async def test_our_own_client_follows_over_a_restart(world: ApiWorld) -> None:
    here = await a_workspace(world, "here")
    first = await a_project(world, here, "first")
    server = Served(world)
    await server.start()
    session = Session(server.url, token=world.token)
    updates = watch(session, projects={"workspace_ids": [here]})

    async def told() -> tuple[str, int, bool]:
        update = await asyncio.to_thread(next, updates)
        return update.kind, update.id, update.row is not None

    assert await told() == ("project", first, True)
    second = await a_project(world, here, "second")
    assert await told() == ("project", second, True)
    await server.stop()
    await world.ok("DELETE", f"/api/v1/projects/{first}")
    world.app.state.api = replace(world.app.state.api, closing=ServerStop())
    server = Served(world, server.port)
    await server.start()
    assert await told() == ("project", first, False)
    await world.ok("POST", "/api/v1/auth/logout", {})
    with pytest.raises(WindlassError, match="live updates ended: invalid credentials"):
        await told()
    await server.stop()


@needs_published
async def test_the_published_client_follows_over_a_restart(world: ApiWorld) -> None:
    here = await a_workspace(world, "here")
    first = await a_project(world, here, "first")
    server = Served(world)
    await server.start()
    script = ROOT / "tests" / "compat" / "published_stream.py"
    program = await asyncio.create_subprocess_exec(
        *(COMPAT / "python", script, server.url, world.token, str(here)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    lines = program.stdout

    async def said() -> tuple[str, Any]:
        name, value = json.loads(await lines.readline())
        return name, value["id"] if isinstance(value, dict) and "id" in value else value

    mine = {"sync_id": "mine"}
    try:
        assert await said() == ("Sync", {**mine, "complete": False})
        assert await said() == ("ProjectMsg", first)
        assert await said() == ("Sync", {**mine, "complete": True})
        body = {"name": "m", "workspaceId": here, "metadata": {}}
        model = (await world.ok("POST", "/api/v1/models", body))["model"]["id"]
        assert await said() == ("ModelMsg", model)
        await server.stop()
        await world.ok("DELETE", f"/api/v1/projects/{first}")
        second = await a_project(world, here, "second")
        world.app.state.api = replace(world.app.state.api, closing=ServerStop())
        server = Served(world, server.port)
        await server.start()
        assert await said() == ("ProjectsDeleted", str(first))
        assert await said() == ("ProjectMsg", second)
        await world.ok("DELETE", f"/api/v1/models/{model}")
        assert await said() == ("ModelsDeleted", str(model))
    finally:
        program.kill()
        await program.wait()
        await server.stop()


@pytest.mark.parametrize("fields", ["", "/fields"])
async def test_followed_logs_end_with_the_right_to_see_them(
    roles_world: ApiWorld, fields: str
) -> None:
    world = roles_world
    user, token = await a_user(world, "reader")
    await world.ok("POST", "/api/v1/roles/add-assignments", role(user, 1))
    await world.add_agent()
    id_ = await world.create()
    trial, run = world.trial_id(id_), await world.run_of(id_)
    await world.ok("POST", "/api/v1/task/logs", {"logs": [{"taskId": run.task_id, "log": "x"}]})
    headers = {"Authorization": f"Bearer {token}"}
    path = f"/api/v1/trials/{trial}/logs{fields}?follow=true"
    async with (
        served(world) as server,
        httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client,
        client.stream("GET", path) as stream,
    ):
        lines = stream.aiter_lines()
        assert "result" in json.loads(await anext(lines))
        await world.ok("POST", "/api/v1/roles/remove-assignments", role(user, 1))
        last = [json.loads(line) async for line in lines][-1]
    assert last["error"]["message"] == f"trial '{trial}' not found"


async def test_master_logs_end_with_their_session(world: ApiWorld) -> None:
    mine = world.token
    other = await world.login()
    headers = {"Authorization": f"Bearer {mine}"}
    async with (
        served(world) as server,
        httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client,
        client.stream("GET", "/api/v1/master/logs?follow=true") as stream,
    ):
        await world.ok("POST", "/api/v1/auth/logout", {}, token=mine)
        last = [json.loads(line) async for line in stream.aiter_lines()][-1]
    assert other != mine
    assert last["error"]["message"] == "invalid credentials"
