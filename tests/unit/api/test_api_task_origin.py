"""`webui.task_origin`: which of the two origins answers what, and the way from a login at one to one at the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
import pytest

from tests.fakes.api_world import ApiWorld, api_world

TASKS, PAGE = "http://tasks.example", {"Accept": "text/html"}
SERVICE = "/proxy/some-task:8000/a%2Fb?x=1"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    settings = {"webui.task_origin": "http://TASKS.example:80/"}
    async with api_world(tmp_path, settings=settings) as world:
        await world.login()
        yield world


async def ask(
    world: ApiWorld, url: str, *, cookie: str = "", method: str = "GET", **headers: str
) -> httpx2.Response:
    headers |= {"Cookie": f"auth={cookie}"} if cookie else {}
    transport = httpx2.ASGITransport(app=world.app, client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(transport=transport) as client:
        return await client.request(method, url, headers=headers)


async def test_a_login_at_the_master_becomes_one_at_the_origin_of_tasks(world: ApiWorld) -> None:
    first = await ask(world, f"http://master{SERVICE}", cookie=world.token, **PAGE)
    assert first.headers["location"] == f"http://tasks.example:80{SERVICE}"
    to_tasks = f"/det/task-login?to={quote(SERVICE, safe='')}"
    leaving = await ask(world, f"http://master{to_tasks}", cookie=world.token, **PAGE)
    entering = urlsplit(leaving.headers["location"])
    assert (entering.netloc, entering.path) == ("tasks.example:80", "/det/enter")
    assert parse_qs(entering.query)["to"] == [SERVICE]
    entered = await ask(world, entering.geturl(), **PAGE)
    assert entered.headers["location"] == f"http://tasks.example:80{SERVICE}"
    assert entered.headers["set-cookie"].startswith(f"auth={world.token};"), "one session, one end"
    assert (await ask(world, TASKS + SERVICE, cookie=world.token, **PAGE)).status_code == 404
    again = await ask(world, entering.geturl(), **PAGE)
    assert again.headers["location"] == world.app.state.api.services.master_url + to_tasks
    assert "set-cookie" not in again.headers, "a code is good once"


async def test_a_link_puts_nobody_into_the_session_of_another(world: ApiWorld) -> None:
    """With a second port, both origins have the same cookies."""
    to_tasks = f"http://master/det/task-login?to={quote(SERVICE, safe='')}"
    link = (await ask(world, to_tasks, cookie=world.token)).headers["location"]
    mine = world.token
    await world.login("determined")
    assert world.token != mine
    answer = await ask(world, link, cookie=world.token)
    assert answer.status_code == 409
    assert "set-cookie" not in answer.headers
    entered = await ask(world, link, cookie=mine)
    assert entered.headers["set-cookie"].startswith(f"auth={mine};")


async def test_codes_for_one_purpose_are_none_for_another(world: ApiWorld) -> None:
    code = (await world.ok("POST", "/api/v1/windlass/login-codes", {}))["code"]
    answer = await ask(world, f"{TASKS}/det/enter?code={code}&to={quote(SERVICE)}")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/det/", "/det/login", "/api/v1/me", "/docs", "/det/queue"])
async def test_the_origin_of_tasks_has_nothing_of_the_master(world: ApiWorld, path: str) -> None:
    answer = await ask(world, TASKS + path, cookie=world.token)
    assert answer.status_code == 404
    assert "only pages of tasks" in answer.text


async def test_a_port_that_a_proxy_adds_changes_no_origin(world: ApiWorld) -> None:
    answer = await ask(world, f"{TASKS}/det/", cookie=world.token, Host="tasks.example:80")
    assert answer.status_code == 404
    assert "only pages of tasks" in answer.text


async def test_a_browser_reaches_no_service_at_the_master_and_a_program_does(
    world: ApiWorld,
) -> None:
    by_script = await ask(world, f"http://master{SERVICE}", cookie=world.token)
    assert by_script.status_code == 403
    by_program = await ask(world, f"http://master{SERVICE}", Authorization=f"Bearer {world.token}")
    assert by_program.status_code == 404
    assert "service not found" in by_program.text


@pytest.mark.parametrize("to", ["", "/det/", "//evil/proxy/x", "http://evil/proxy/x", "/proxy"])
async def test_only_services_are_led_to(world: ApiWorld, to: str) -> None:
    for url in (f"http://master/det/task-login?to={to}", f"{TASKS}/det/enter?code=x&to={to}"):
        answer = await ask(world, url, cookie=world.token)
        assert answer.status_code == 400, answer.text


async def test_changes_from_pages_of_tasks_are_refused(world: ApiWorld) -> None:
    answer = await ask(
        world, "http://master/api/v1/auth/logout", cookie=world.token, method="POST", Origin=TASKS
    )
    assert answer.status_code == 403
    assert await world.ok("GET", "/api/v1/me")


async def test_without_the_key_there_is_one_origin(tmp_path: Path) -> None:
    async with api_world(tmp_path) as world:
        await world.login()
        for path in ("/det/task-login?to=/proxy/x", "/det/enter?code=x&to=/proxy/x"):
            answer = await ask(world, f"http://master{path}", cookie=world.token)
            assert answer.status_code == 404
