"""Who may call what: no route is open by accident, and a task changes only what is its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from master.api.application import PUBLIC
from tests.fakes.api_world import ApiWorld

OPEN = {"/info", "/api/v1/master", "/api/v1/auth/login", "/api/v1/openapi.json", "/agents"}


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    for path, operations in app.openapi()["paths"].items():
        for method in operations:
            yield method.upper(), path


async def test_every_route_but_the_open_ones_refuses_a_call_without_a_token(
    world: ApiWorld,
) -> None:
    assert PUBLIC == OPEN
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


def test_no_route_hides_from_the_walk(world: ApiWorld) -> None:
    """The walk goes by the OpenAPI document: nothing may be served that is not in it."""
    described = {path for _, path in routes(world.app)}
    served = set(_paths(world.app))
    assert served - described <= {"/api/v1/openapi.json", "/agents"}


def _paths(app: FastAPI) -> Iterator[str]:
    def walk(items: list[object]) -> Iterator[str]:
        for item in items:
            if isinstance(item, APIRoute | Route):
                yield item.path
            for name in ("routes", "original_router"):
                inner = getattr(item, name, None)
                if inner is not None and not isinstance(item, APIRoute | Route):
                    yield from walk(inner if isinstance(inner, list) else inner.routes)

    yield from walk(list(app.routes))


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
        ("POST", "/api/v1/experiments", {"config": "{}"}),
        ("POST", f"/api/v1/experiments/{mine}/pause", None),
        ("POST", f"/api/v1/experiments/{mine}/kill", None),
        ("PATCH", f"/api/v1/experiments/{mine}", {"name": "x"}),
        ("POST", "/api/v1/users", {"user": {"username": "eve"}}),
        ("PATCH", "/api/v1/users/1", {"displayName": "x"}),
        ("POST", "/api/v1/agents/node-1/disable", None),
        ("POST", "/api/v1/agents/node-1/slots/0/disable", None),
        ("POST", "/api/v1/agents/node-1/slots/0/enable", None),
    ):
        await world.refused(403, method, path, body, token=task)


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


async def test_an_empty_password_works_on_this_machine_only(world: ApiWorld) -> None:
    body = b'{"username": "admin", "password": "", "isHashed": true}'
    login = "/api/v1/auth/login"
    for address, headers, status in (
        ("127.0.0.9", {}, 200),
        ("::1", {}, 200),
        ("::ffff:127.0.0.1", {}, 200),
        ("10.0.0.1", {}, 401),
        ("127.0.0.1", {"X-Forwarded-For": "10.0.0.1"}, 401),
    ):
        transport = httpx2.ASGITransport(app=world.app, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://m") as client:
            response = await client.post(login, content=body, headers=headers)
        assert response.status_code == status, (address, response.text)


async def test_login_sets_a_cookie_and_logout_ends_the_session(world: ApiWorld) -> None:
    body = {"username": "admin", "password": "", "isHashed": True}
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
        ({"username": "nobody", "password": ""}, 401),
        ({"password": ""}, 400),
    ],
)
async def test_a_bad_login_is_refused(world: ApiWorld, body: dict[str, str], status: int) -> None:
    await world.refused(status, "POST", "/api/v1/auth/login", body, token="")
