"""Who may call what: no route is open by accident, and a task changes only what is its own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import get_type_hints

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.requests import ClientDisconnect
from starlette.types import Message

from master.api.access import Caller, Visible
from master.api.application import ROUTES
from master.api.live.socket import LIVE
from master.api.permits import IN_BODY, VISIBLE, permit_of
from master.api.routing import ApiRoute, HotRoute
from master.auth.actions import Action
from master.auth.permissions import RULES
from master.webui.pages import PageRoute
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld

OPEN = {
    "/info",
    "/health",
    "/docs",
    "/docs/{path}",
    "/docs/rest-api",
    "/openapi.json",
    "/api/v1/openapi.json",
    "/api/v1/master",
    "/api/v1/master/telemetry",
    "/api/v1/auth/login",
    "/",
    "/det",
    "/det/login",
    "/det/assets/{version}/{name}",
    "/agents",
    "/agents/streams",
    "/api/v1/windlass/join",
    "/api/v1/windlass/join/leave",
    "/api/v1/windlass/boot",
    "/api/v1/windlass/boot/stage",
    "/api/v1/windlass/boot/wheels",
    "/api/v1/windlass/boot/wheels/{name}",
}
"""The only paths that answer without a token of a user or a task. Agents show their own."""


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    for path, operations in app.openapi()["paths"].items():
        for method in operations:
            yield method.upper(), path


def declared() -> Iterator[APIRoute | APIWebSocketRoute]:
    for route in ROUTES:
        assert isinstance(route, APIRoute | APIWebSocketRoute), route
        yield route


def test_every_route_declares_what_it_does_and_to_what() -> None:
    public = set()
    for route in declared():
        declared_permit = permit_of(route.endpoint)
        assert isinstance(route, ApiRoute | APIWebSocketRoute), route.path
        if declared_permit.action is None:
            public.add(route.path_format)
    assert public == OPEN


def test_every_action_has_a_rule_and_a_route() -> None:
    assert set(RULES) == set(Action)
    used = {permit_of(route.endpoint).action for route in declared()}
    assert set(Action) - used == {  # asked for each thing that is shown, or that a body names
        Action.VIEW_SECRETS,
        Action.VIEW_EXTERNAL_JOBS,
        Action.VIEW_AGENT_DETAILS,
        Action.VIEW_ALL_GROUPS,
        Action.UPDATE_ROLES,
        Action.CONTROL_JOB_QUEUE,
        Action.SET_AGENT_USER,
        Action.SET_WORKSPACE_STORAGE,
        Action.SET_DEFAULT_POOLS,
        Action.TAKE_PROJECT,
        Action.TAKE_EXPERIMENT,
    }


def test_routes_take_what_their_permit_leaves_to_them() -> None:
    """Visibility, to hand to their queries; or the caller, to ask the rules about what the body names."""
    for route in declared():
        hints = get_type_hints(route.endpoint, include_extras=True)
        where = permit_of(route.endpoint).where
        assert (Visible in hints.values()) or where is not VISIBLE, route.path
        assert (Caller in hints.values()) or where is not IN_BODY, route.path


@pytest.mark.parametrize("route_class", [ApiRoute, HotRoute])
def test_a_route_without_a_permit_cannot_be_made(route_class: type[ApiRoute]) -> None:
    router = APIRouter(route_class=route_class)

    async def forgotten() -> None: ...

    with pytest.raises(TypeError, match="forgotten declares no permit"):
        router.get("/api/v1/forgotten")(forgotten)


async def test_every_route_but_the_open_ones_refuses_a_call_without_a_token(
    world: ApiWorld,
) -> None:
    seen = 0
    for method, path in routes(world.app):
        if path in OPEN:
            continue
        seen += 1
        url = re.sub(r"\{[^}]*\}", "1", path)
        message = await world.refused(401, method, url, token="")
        assert message == "token missing", (method, path)
        message = await world.refused(401, method, url, token="no-such-token")
        assert message == "invalid credentials", (method, path)
    assert seen > 60


async def test_nothing_of_a_body_is_taken_before_its_sender_may_send_it(world: ApiWorld) -> None:
    """For every route: without a token, and with one that does not permit it."""
    await world.login("determined")
    taken: list[str] = []
    refused = 0
    for method, path in routes(world.app):
        if path in OPEN or method == "GET":
            continue
        for token, status in (("", 401), (world.token, 403)):
            answer = await without_a_body(world, method, re.sub(r"\{[^}]*\}", "1", path), token)
            if answer is None:
                taken.append(f"{method} {path} {status}")
            else:
                refused += answer == status
    assert [one for one in taken if one.endswith("401")] == []
    assert refused > 40


async def without_a_body(world: ApiWorld, method: str, path: str, token: str) -> int | None:
    """The status of the answer to a request of 100 MB of which nothing has come; None: it was waited for."""
    statuses: list[int] = []

    async def receive() -> Message:
        raise ClientDisconnect

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            headers = dict(message["headers"])
            assert headers.get(b"connection") == b"close", "the rest would be taken in"

    headers = [(b"host", b"master"), (b"content-length", b"100000000")]
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "scheme": "http",
        "headers": headers,
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }
    with suppress(ClientDisconnect):
        await world.app(scope, receive, send)
        return statuses[0]
    return None


async def test_each_route_takes_as_much_as_it_needs(world: ApiWorld) -> None:
    async def refusal(path: str, length: int, token: str | None = None) -> str:
        headers = {"Content-Length": str(length)}
        return await world.refused(413, "POST", path, token=token, headers=headers, content=b"{}")

    assert "64 KiB" in await refusal("/api/v1/auth/login", 70_000, token="")
    assert "8 MiB" in await refusal("/api/v1/task/logs", 9_000_000)
    assert "8 MiB" in await refusal("/api/v1/users", 9_000_000)
    assert "130 MiB" in await refusal("/api/v1/experiments", 140_000_000)
    assert "130 MiB" in await refusal("/api/v1/commands", 140_000_000)


async def test_a_body_without_a_length_is_cut_off(world: ApiWorld) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 10_000

    response = await world.client.post("/api/v1/auth/login", content=endless())
    assert response.status_code == 413, response.text


def test_no_route_hides_from_the_walk(world: ApiWorld) -> None:
    """The walk goes by the OpenAPI document: nothing may be served that is not in it."""
    described = {path for _, path in routes(world.app)}
    served = {getattr(route, "path_format", repr(route)) for route in world.app.router.routes}
    pages = {route.path_format for route in ROUTES if isinstance(route, PageRoute)}
    assert served - described == {"/agents", "/agents/streams", "/stream", LIVE} | pages


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer {}"},
        {"authorization": "bearer {}"},
        {"Grpc-Metadata-x-user-token": "Bearer {}"},
        {"Grpc-Metadata-x-allocation-token": "Bearer {}"},
        {"Cookie": "auth={}"},
    ],
)
async def test_tokens_of_users_and_tasks_are_found_wherever_they_may_be(
    world: ApiWorld, headers: dict[str, str]
) -> None:
    await world.add_agent()
    run = await world.run_of(await world.create())
    for token in (world.token, world.task_token(run)):
        sent = {name: value.format(token) for name, value in headers.items()}
        me = await world.ok("GET", "/api/v1/me", token="", headers=sent)
        assert me["user"]["username"] == "admin"


async def test_a_task_changes_only_its_own(world: ApiWorld) -> None:
    await world.add_agent()
    mine, other = await world.create(), await world.create()
    run, other_allocation = await world.run_of(mine), await world.run_of(other)
    other_trial = world.trial_id(other)
    live = world.services.experiments.live(mine)
    assert live is not None
    job = live.state.job_id
    task = world.task_token(run)
    progress = {"progress": 0.5, "is_raw": True}
    await world.ok("POST", f"/api/v1/trials/{world.trial_id(mine)}/progress", progress, token=task)
    ours = f"/api/v1/allocations/{run.id}"
    await world.ok("POST", f"{ours}/ready", token=task)
    theirs = f"/api/v1/allocations/{other_allocation.id}"
    checkpoint = {"uuid": "u", "taskId": other_allocation.task_id, "metadata": {}, "resources": {}}
    metrics = {"group": "training", "metrics": {"metrics": {"avgMetrics": {}}, "trialRunId": 1}}
    for method, path, body in (
        ("POST", f"/api/v1/trials/{other_trial}/progress", progress),
        ("POST", f"/api/v1/trials/{other_trial}/early_exit", {"reason": "x"}),
        ("POST", f"/api/v1/trials/{other_trial}/runner/metadata", {"state": "x"}),
        ("POST", f"/api/v1/trials/{other_trial}/metrics", metrics),
        ("POST", f"/api/v1/trials/{other_trial}/kill", None),
        ("POST", f"/api/v1/runs/{other_trial}/metadata", {"metadata": {}}),
        ("POST", "/api/v1/runs/start", {"runId": other_trial}),
        ("POST", "/api/v1/checkpoints", checkpoint),
        ("POST", f"{theirs}/ready", None),
        ("POST", f"{theirs}/all_gather", {"requestUuid": "u", "data": {}}),
        ("POST", f"{theirs}/signals/ack_preemption", None),
        ("POST", f"{theirs}/signals/pending_preemption", None),
        ("POST", f"{theirs}/acceleratorData", {}),
        ("POST", f"{theirs}/notify_container_running", None),
        ("POST", f"{theirs}/resources/x/daemon", None),
        ("GET", f"{theirs}/resources/x/rendezvous", None),
        ("POST", "/api/v1/task/logs", {"logs": [{"taskId": other_allocation.task_id, "log": "x"}]}),
        ("POST", f"/api/v1/experiments/{other}/cancel", None),
        ("POST", f"/api/v1/experiments/{other}/kill", None),
        ("POST", "/api/v1/experiments", {"config": "{}"}),
        ("POST", f"/api/v1/experiments/{mine}/pause", None),
        ("POST", f"/api/v1/experiments/{mine}/activate", None),
        ("POST", f"/api/v1/experiments/{mine}/archive", None),
        ("POST", "/api/v1/job-queues", {"updates": [{"jobId": job, "priority": 1}]}),
        ("PATCH", f"/api/v1/experiments/{mine}", {"name": "x"}),
        ("POST", "/api/v1/users", {"user": {"username": "eve"}}),
        ("PATCH", "/api/v1/users/1", {"displayName": "x"}),
        ("POST", "/api/v1/agents/node-1/disable", None),
        ("POST", "/api/v1/agents/node-1/slots/0/disable", None),
        ("POST", "/api/v1/agents/node-1/slots/0/enable", None),
    ):
        await world.refused(403, method, path, body, token=task)


@pytest.mark.parametrize("how", ["cancel", "kill"])
async def test_a_task_may_end_its_own_experiment(world: ApiWorld, how: str) -> None:
    await world.add_agent()
    mine = await world.create()
    token = world.task_token(await world.run_of(mine))
    await world.ok("POST", f"/api/v1/experiments/{mine}/{how}", token=token)
    live = world.services.experiments.live(mine)
    assert live is not None
    await live.wait_until(lambda state: state.phase.is_stopping or state.phase.is_terminal)


async def test_only_the_owner_and_administrators_change_an_experiment(world: ApiWorld) -> None:
    await world.add_agent()
    experiment = await world.create()
    trial = world.trial_id(experiment)
    live = world.services.experiments.live(experiment)
    assert live is not None
    admin = world.token
    stranger = await world.login("determined")
    url = f"/api/v1/experiments/{experiment}"
    progress = {"progress": 0.5, "isRaw": True}
    for method, path, body in (
        ("PATCH", url, {"name": "x"}),
        ("PATCH", url, {"resources": {"priority": 1}}),
        ("POST", f"{url}/pause", None),
        ("POST", f"{url}/activate", None),
        ("POST", f"{url}/cancel", None),
        ("POST", f"{url}/kill", None),
        ("POST", f"{url}/archive", None),
        ("PUT", f"{url}/labels/x", None),
        ("POST", f"/api/v1/trials/{trial}/kill", None),
        ("POST", f"/api/v1/trials/{trial}/progress", progress),
        ("POST", f"/api/v1/trials/{trial}/early_exit", {"reason": "x"}),
        ("POST", f"/api/v1/runs/{trial}/metadata", {"metadata": {}}),
        ("POST", "/api/v1/job-queues", {"updates": [{"jobId": live.state.job_id, "weight": 2}]}),
    ):
        message = await world.refused(403, method, path, body, token=stranger)
        assert "belongs to admin: only they and administrators may change it" in message
    await world.ok("GET", url, token=stranger)
    await world.ok("GET", f"/api/v1/trials/{trial}", token=stranger)
    own = (await world.ok("POST", "/api/v1/experiments", {"config": SINGLE, "activate": True}))[
        "experiment"
    ]["id"]
    for token in (stranger, admin):
        await world.ok("PATCH", f"/api/v1/experiments/{own}", {"name": "x"}, token=token)
    await world.ok("POST", f"/api/v1/experiments/{own}/kill", token=stranger)


async def test_a_task_may_delete_only_its_own_checkpoints(world: ApiWorld) -> None:
    await world.add_agent()
    run, other = await world.run_of(await world.create()), await world.run_of(await world.create())
    await world.checkpoint(run, "mine", 1)
    await world.checkpoint(other, "theirs", 1)
    token = world.task_token(run)

    def patch(uuid: str) -> dict[str, object]:
        return {"checkpoints": [{"uuid": uuid, "resources": {"resources": {}}}]}

    await world.ok("PATCH", "/api/v1/checkpoints", patch("mine"), token=token)
    await world.refused(403, "PATCH", "/api/v1/checkpoints", patch("theirs"), token=token)


async def test_the_token_of_an_allocation_dies_with_it(world: ApiWorld) -> None:
    await world.add_agent()
    run = await world.run_of(await world.create())
    token = world.task_token(run)
    await world.ok("GET", "/api/v1/me", token=token)
    await world.refused(400, "POST", "/api/v1/auth/logout", token=token)
    await world.finish(run)
    assert await world.refused(401, "GET", "/api/v1/me", token=token) == "invalid credentials"


async def test_only_admins_manage_users_and_agents(world: ApiWorld) -> None:
    await world.add_agent()
    admin = world.token
    await world.login("determined")
    new = {"user": {"username": "eve", "active": True}, "password": "", "isHashed": True}
    for method, path, body in (
        ("POST", "/api/v1/users", new),
        ("PATCH", "/api/v1/users/2", {"admin": True}),
        ("PATCH", "/api/v1/users/1", {"password": "x"}),
        ("POST", "/api/v1/agents/node-1/disable", None),
        ("POST", "/api/v1/agents/node-1/slots/0/disable", None),
        ("POST", "/api/v1/agents/node-1/slots/0/enable", None),
        ("GET", "/api/v1/master/config", None),
    ):
        message = await world.refused(403, method, path, body)
        assert message == "user does not have permission"
    renamed = await world.ok("PATCH", "/api/v1/users/2", {"displayName": "Dee"})
    assert renamed["user"]["displayName"] == "Dee"
    created = await world.ok("POST", "/api/v1/users", new, token=admin)
    assert created["user"]["username"] == "eve"
    await world.refused(409, "POST", "/api/v1/users", new, token=admin)


async def test_login_sets_a_cookie_and_logout_ends_the_session(world: ApiWorld) -> None:
    body = {"username": "admin", "password": PASSWORD}
    response = await world.call("POST", "/api/v1/auth/login", body, token="")
    cookie = response.headers["set-cookie"].lower()
    assert cookie.startswith(f"auth={response.json()['token']}")
    assert "httponly" in cookie
    assert "max-age=604800" in cookie
    world.client.cookies.clear()
    token = response.json()["token"]
    await world.ok("POST", "/api/v1/auth/logout", token=token)
    await world.refused(401, "GET", "/api/v1/me", token=token)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"username": "admin", "password": "wrong"}, 401),
        ({"username": "admin", "password": ""}, 401),
        ({"username": "nobody", "password": ""}, 401),
        ({"password": "x"}, 400),
    ],
)
async def test_a_bad_login_is_refused(world: ApiWorld, body: dict[str, str], status: int) -> None:
    await world.refused(status, "POST", "/api/v1/auth/login", body, token="")
