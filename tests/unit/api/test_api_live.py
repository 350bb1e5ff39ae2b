"""`/api/v1/windlass/live` over real sockets: what the API changes is told to the pages that show it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import websockets.asyncio.client as sockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

from master.core.roles.catalogue import RoleId
from tests.fakes.api_world import PASSWORD, ApiWorld, api_world
from tests.fakes.served_api import Served, served

RBAC = {"authz.type": "rbac"}


class Page:
    """What a tab does on its socket."""

    def __init__(self, socket: sockets.ClientConnection) -> None:
        self.socket = socket
        self.news: dict[int, int] = {}
        self.errors: dict[int, dict[str, Any]] = {}

    async def hello(self) -> dict[str, Any]:
        return dict(json.loads(await self.socket.recv())["hello"])

    async def follow(self, number: int, topic: str) -> None:
        """Returns when it is answered."""
        await self.socket.send(json.dumps({"subscribe": {"id": number, "topic": topic}}))
        while number not in self.news and number not in self.errors:
            await self.take()

    async def take(self) -> None:
        message = json.loads(await self.socket.recv())
        self.news |= {int(number): seq for number, seq in message.get("news", {}).items()}
        if "error" in message:
            self.errors[message["id"]] = message["error"]

    async def told(self, *numbers: int) -> None:
        """Returns when there is news of all of these."""
        before = dict(self.news)
        while any(self.news[number] == before[number] for number in numbers):
            await self.take()

    async def closed(self) -> tuple[int, str]:
        with suppress(ConnectionClosed):
            while True:
                await self.socket.recv()
        assert self.socket.close_code is not None
        return self.socket.close_code, self.socket.close_reason or ""


@asynccontextmanager
async def page(server: Served, token: str, **headers: str) -> AsyncIterator[Page]:
    url = server.url.replace("http:", "ws:") + "/api/v1/windlass/live"
    given = {"Authorization": f"Bearer {token}", **headers} if token else headers
    async with sockets.connect(url, proxy=None, additional_headers=given) as socket:
        opened = Page(socket)
        assert set(await opened.hello()) == {"version", "now"}
        yield opened


async def a_user(world: ApiWorld, name: str) -> tuple[int, str]:
    body = {"user": {"username": name, "active": True}, "password": PASSWORD, "isHashed": False}
    id_ = (await world.ok("POST", "/api/v1/users", body))["user"]["id"]
    login = {"username": name, "password": PASSWORD}
    return id_, (await world.ok("POST", "/api/v1/auth/login", login, token=""))["token"]


def role(user: int, workspace: int) -> dict[str, Any]:
    held = {"role": {"roleId": int(RoleId.VIEWER)}, "scopeWorkspaceId": workspace}
    return {"userRoleAssignments": [{"userId": user, "roleAssignment": held}]}


async def test_every_kind_of_write_is_told_to_the_pages_that_show_it(world: ApiWorld) -> None:
    await world.add_agent(slots=4)
    ok = world.ok
    experiment = await world.create()
    run = await world.run_of(experiment)
    trial = world.trial_id(experiment)
    state = {"state": "STATE_COMPLETED"}
    trigger = {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": state}
    webhook = {"url": "http://93.184.216.34/", "webhookType": "WEBHOOK_TYPE_DEFAULT"}
    webhook |= {"name": "w", "mode": "WEBHOOK_MODE_WORKSPACE", "triggers": [trigger]}
    steps: list[tuple[Callable[[], Awaitable[Any]], tuple[str, ...]]] = [
        (
            lambda: world.report(trial, "training", 1, loss=0.5),
            ("experiments", f"experiment {experiment}", f"trials {experiment}", f"trial {trial}"),
        ),
        (lambda: world.checkpoint(run, "c-1", 1), (f"trials {experiment}", f"trial {trial}")),
        (
            lambda: ok("PATCH", f"/api/v1/experiments/{experiment}", {"notes": "n"}),
            ("experiments", f"experiment {experiment}"),
        ),
        (
            lambda: world.create(),
            ("experiments", "queue", "cluster"),
        ),
        (
            lambda: ok("POST", "/api/v1/commands", {"config": {"entrypoint": ["x"]}}),
            ("tasks", "queue"),
        ),
        (
            lambda: ok("POST", f"/api/v1/experiments/{experiment}/kill"),
            (f"task {run.task_id}", f"trial {trial}", "queue", "cluster"),
        ),
        (lambda: ok("POST", "/api/v1/agents/node-1/disable", {"drain": True}), ("cluster",)),
        (lambda: world.agents["node-1"].unplug(), ("cluster",)),
        (lambda: ok("POST", "/api/v1/workspaces", {"name": "lab"}), ("workspaces",)),
        (
            lambda: ok("POST", "/api/v1/workspaces/1/projects", {"name": "p", "workspaceId": 1}),
            ("workspaces",),
        ),
        (lambda: ok("POST", "/api/v1/models", {"name": "m"}), ("models",)),
        (
            lambda: ok("POST", "/api/v1/models/m/versions", {"checkpointUuid": "c-1"}),
            ("models",),
        ),
        (lambda: ok("POST", "/api/v1/templates/t", {"config": {"labels": ["x"]}}), ("templates",)),
        (
            lambda: ok(
                "PUT",
                "/api/v1/config-policies/workspaces/1/EXPERIMENT",
                {"configPolicies": "constraints: {priority_limit: 10}"},
            ),
            ("policies",),
        ),
        (
            lambda: ok(
                "PUT",
                "/api/v1/config-policies/global/EXPERIMENT",
                {"configPolicies": "constraints: {priority_limit: 10}"},
            ),
            ("policies",),
        ),
        (lambda: ok("POST", "/api/v1/webhooks", {**webhook, "workspaceId": 1}), ("webhooks",)),
        (lambda: a_user(world, "ann"), ("users",)),
        (lambda: ok("POST", "/api/v1/groups", {"name": "g"}), ("groups",)),
        (lambda: ok("POST", "/api/v1/tokens", {"userId": 1}), ("me", "user 1")),
        (
            lambda: ok("POST", "/api/v1/users/setting", {"settings": [SETTING]}),
            ("me",),
        ),
        (lambda: ok("POST", "/api/v1/workspaces/1/pin"), ("me",)),
        (lambda: ok("POST", "/api/v1/windlass/join-tokens", {"pool": "default"}), ("cluster",)),
    ]
    async with served(world) as server, page(server, world.token) as tab:
        topics = dict(enumerate(sorted({name for _, names in steps for name in names}), 1))
        numbers = {topic: number for number, topic in topics.items()}
        for number, topic in topics.items():
            await tab.follow(number, topic)
        assert tab.errors == {}
        for change, told in steps:
            async with asyncio.timeout(20):
                waiting = asyncio.create_task(tab.told(*(numbers[name] for name in told)))
                await change()
                await waiting


SETTING = {"key": "k", "storagePath": "p", "value": "1"}


async def test_a_role_shows_and_hides_at_once(tmp_path: Path) -> None:
    async with api_world(tmp_path, security=RBAC) as world:
        await world.login()
        user, token = await a_user(world, "member")
        lab = (await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"]
        id_ = await world.create(activate=False)
        async with served(world) as server, page(server, token) as tab:
            await tab.follow(1, f"experiment {id_}")
            await tab.follow(2, "experiment 4711")
            assert tab.errors[1] == {"status": 404, "message": f"experiment '{id_}' not found"}
            assert tab.errors[2] == {"status": 404, "message": "experiment '4711' not found"}
            await tab.follow(3, "groups")
            assert tab.errors[3]["status"] == 403
            await tab.follow(4, "experiments")
            await tab.follow(5, "workspaces")
            await world.ok("PATCH", f"/api/v1/experiments/{id_}", {"notes": "secret"})
            await world.ok("POST", "/api/v1/roles/add-assignments", role(user, lab))
            await tab.told(4, 5)
            assert tab.news == {4: 1, 5: 1}, "nothing was told of the change they may not see"
            await world.ok("POST", "/api/v1/roles/add-assignments", role(user, 1))
            await tab.told(4)
            await tab.follow(6, f"experiment {id_}")
            await world.ok("PATCH", f"/api/v1/experiments/{id_}", {"notes": "n"})
            await tab.told(6)
            await world.ok("POST", "/api/v1/roles/remove-assignments", role(user, 1))
            await tab.told(6)
            seen = dict(tab.news)
            await world.ok("PATCH", f"/api/v1/experiments/{id_}", {"notes": "secret"})
            await world.ok("PATCH", f"/api/v1/users/{user}", {"active": False})
            code, why = await tab.closed()
        assert (code, why) == (4001, "invalid credentials")
        assert tab.news == seen


async def test_a_logout_and_a_stopping_master_close(world: ApiWorld) -> None:
    _, token = await a_user(world, "leaver")
    server = Served(world)
    await server.start()
    async with page(server, token) as tab, page(server, world.token) as other:
        await world.ok("POST", "/api/v1/auth/logout", {}, token=token)
        assert await tab.closed() == (4001, "invalid credentials")
        stopping = asyncio.create_task(server.stop())
        assert (await other.closed())[0] == 1012
        await stopping


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("{", "message: is not valid JSON"),
        ("{}", "message: Value error, must have one of"),
        ('{"subscribe": {"id": 0, "topic": "x"}}', "subscribe.id: "),
        ('{"subscribe": {"id": 1, "topic": ""}}', "subscribe.topic: "),
        ('{"rows": [1]}', "rows: "),
        (" " * 5_000, "message: is longer than 4096 characters"),
        (b"{}", "message: must be text, not bytes"),
    ],
)
async def test_a_bad_message_closes_and_names_its_field(
    world: ApiWorld, message: str | bytes, said: str
) -> None:
    async with served(world) as server, page(server, world.token) as tab:
        await tab.socket.send(message)
        code, why = await tab.closed()
    assert (code, why[: len(said)]) == (1008, said)


async def test_a_page_of_others_cannot_connect_by_a_cookie(world: ApiWorld) -> None:
    async with served(world) as server:
        cookie = {"Cookie": f"auth={world.token}"}
        for foreign in ("http://elsewhere", "http://127.0.0.1:1"):
            with pytest.raises(InvalidStatus, match="403"):
                async with page(server, "", Origin=foreign, **cookie):
                    pass
        with pytest.raises(InvalidStatus, match="403"):
            async with page(server, "", **cookie):
                pass
        with pytest.raises(InvalidStatus, match="401"):
            async with page(server, "nobody"):
                pass
        async with page(server, "", Origin=server.url, **cookie) as tab:
            await tab.follow(1, "everything")
            assert tab.errors[1]["status"] == 400
            await tab.socket.send('{"visible": false, "alive": true, "unsubscribe": 7}')
            await tab.follow(2, "experiments")
