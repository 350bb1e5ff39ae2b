"""What a page of somebody else can make a browser send, and what proxies may say of a caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from starlette.types import Message, Receive, Scope, Send

from master.api.http.known_hosts import KnownHosts
from master.api.http.trusted_proxies import TrustedProxies
from tests.fakes.api_world import PASSWORD, ApiWorld, api_world

ME, LOGIN = "/api/v1/me", "/api/v1/auth/login"
OURS = {"Origin": "http://master", "Content-Type": "application/json"}


async def ask(
    world: ApiWorld,
    method: str,
    path: str,
    headers: Mapping[str, str],
    *,
    content: bytes = b"",
    peer: str = "127.0.0.1",
    url: str = "http://master",
) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=world.app, client=(peer, 1))
    async with httpx2.AsyncClient(transport=transport, base_url=url) as client:
        return await client.request(method, path, headers=dict(headers), content=content)


def cookie(world: ApiWorld) -> dict[str, str]:
    return {"Cookie": f"theme=dark; auth={world.token}"}


@pytest.mark.parametrize(
    "host", ["evil.example", "master.evil.example", "master:80@evil", "[::2]", "10.9.8.7"]
)
async def test_a_request_by_cookie_names_a_host_of_ours(world: ApiWorld, host: str) -> None:
    refused = await ask(world, "GET", ME, {**cookie(world), "Host": host})
    assert refused.status_code == 403
    assert "security.allowed_hosts" in refused.json()["message"]
    bearer = {"Authorization": f"Bearer {world.token}"}
    allowed = await ask(world, "GET", ME, {**cookie(world), **bearer, "Host": host})
    assert allowed.status_code == 200, "a token that no browser adds by itself proves enough"
    public = await ask(world, "GET", "/info", {"Host": host})
    assert public.status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "host", ["master", "localhost:8080", "127.0.0.1", "[::1]:8080", "x.localhost"]
)
async def test_our_own_names_are_known(world: ApiWorld, host: str) -> None:
    answer = await ask(world, "GET", ME, {**cookie(world), "Host": host})
    assert answer.status_code == 200, answer.text


def test_which_hosts_are_known() -> None:
    hosts = KnownHosts(["10.0.0.1", ".lab.example", "Windlass.Example."])

    def knows(host: str, here: str = "192.0.2.7") -> bool:
        headers = [(b"host", host.encode())] if host else []
        return hosts.knows({"headers": headers, "server": (here, 8080)})

    for host in ("10.0.0.1:99", "a.lab.example", "windlass.example.", "192.0.2.7:8080", "::1"):
        assert knows(host), host
    for host in ("", "lab.example", "evillab.example", "10.0.0.2", "windlass.example.evil", "*"):
        assert not knows(host), host
    two = [(b"host", b"localhost"), (b"host", b"evil.example")]
    assert not hosts.knows({"headers": two, "server": None})


def test_the_names_of_the_certificate_are_known() -> None:
    names = ["Master.lab", "*.lab.example", "10.0.0.5"]
    hosts = KnownHosts([], more=lambda: names)

    def knows(host: str) -> bool:
        return hosts.knows({"headers": [(b"host", host.encode())], "server": None})

    assert all(map(knows, ("master.lab:8443", "a.lab.example", "10.0.0.5")))
    assert not any(map(knows, ("lab.example", "a.b.lab.example", ".lab.example", "10.0.0.6")))
    names[:] = ["next.lab"]
    assert knows("next.lab")
    assert not knows("master.lab")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"Origin": "http://evil.example"}, "Origin"),
        ({"Origin": "https://master"}, "Origin"),
        ({"Origin": "http://master:81"}, "Origin"),
        ({"Origin": "null"}, "Origin"),
        ({"Origin": ""}, "Origin"),
        ({"Content-Type": "text/plain"}, "Content-Type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "Content-Type"),
        ({"Content-Type": ""}, "Content-Type"),
    ],
)
async def test_a_change_by_cookie_comes_from_a_page_of_ours_and_is_json(
    world: ApiWorld, changed: dict[str, str], word: str
) -> None:
    path, body = "/api/v1/users/1", b'{"displayName": "Eve"}'
    headers = {name: value for name, value in {**OURS, **changed}.items() if value}
    refused = await ask(world, "PATCH", path, {**cookie(world), **headers}, content=body)
    assert (refused.status_code, word in refused.json()["message"]) == (403, True), refused.text
    assert (await world.ok("GET", ME))["user"]["displayName"] == ""
    bearer = {"Authorization": f"Bearer {world.token}"}
    for exempt in ({**cookie(world), **headers, **bearer}, {**cookie(world), **OURS}):
        done = await ask(world, "PATCH", path, exempt, content=body)
        assert done.status_code == 200, done.text


async def test_a_change_without_a_body_needs_no_content_type(world: ApiWorld) -> None:
    logout = "/api/v1/auth/logout"
    assert (await ask(world, "POST", logout, cookie(world))).status_code == 403
    done = await ask(world, "POST", logout, {**cookie(world), "Origin": "http://master"})
    assert done.status_code == 200, done.text
    await world.refused(401, "GET", ME)


async def test_a_login_is_not_made_by_a_page_of_somebody_else(world: ApiWorld) -> None:
    """Nor does it hang on the cookie of an earlier one, which command lines of 0.1 send."""
    body = f'{{"username": "admin", "password": "{PASSWORD}"}}'.encode()
    bearer = {"Authorization": "Bearer invented"}
    for headers, status in (
        (cookie(world), 200),
        ({"Host": "any.example"}, 200),
        ({"Origin": "http://master"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://evil.example", **bearer}, 403),
        ({"Origin": "null"}, 403),
    ):
        answer = await ask(world, "POST", LOGIN, headers, content=body)
        assert answer.status_code == status, (headers, answer.text)


async def test_a_socket_by_cookie_is_refused_to_other_pages(world: ApiWorld) -> None:
    for headers, refused in (
        ([(b"host", b"master"), (b"origin", b"http://evil.example")], True),
        ([(b"host", b"evil.example"), (b"origin", b"http://evil.example")], True),
        ([(b"host", b"master"), (b"origin", b"http://master")], False),
    ):
        sent: list[Message] = []

        async def send(message: Message, sent: list[Message] = sent) -> None:
            sent.append(message)

        scope = {
            "type": "websocket",
            "path": "/nothing",
            "scheme": "ws",
            "query_string": b"",
            "headers": [*headers, (b"cookie", f"auth={world.token}".encode())],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
        }

        async def receive(sent: list[Message] = sent) -> Message:
            return {"type": "websocket.disconnect" if sent else "websocket.connect"}

        await world.app(scope, receive, send)
        assert (sent[0].get("status") == 403) is refused, sent
        if refused:
            assert "is not known" in str(sent[1]["body"]) or "Origin: must" in str(sent[1]["body"])


# Empty passwords


EMPTY = b'{"username": "guest", "password": ""}'


@asynccontextmanager
async def trusting_world(folder: Path) -> AsyncIterator[ApiWorld]:
    """Empty passwords are allowed, and `guest` has none."""
    async with api_world(folder, security={"allow_empty_password": True}) as world:
        await ask(world, "POST", LOGIN, {}, url="http://localhost")
        body = {"username": "admin", "password": PASSWORD}
        world.token = (
            await world.ok("POST", LOGIN, body, token="", headers={"Host": "localhost"})
        )["token"]
        await world.ok("POST", "/api/v1/users", {"user": {"username": "guest", "active": True}})
        yield world


async def test_an_empty_password_needs_more_than_leave(tmp_path: Path) -> None:
    async with trusting_world(tmp_path) as world:
        evil = {"Host": "evil.example", "Authorization": "Bearer invented"}
        for path in (LOGIN, f"{LOGIN}/", f"{LOGIN}//"):
            answer = await ask(world, "POST", path, evil, content=EMPTY)
            assert answer.status_code == 403, path
        for peer, headers, status in (
            ("127.0.0.9", {}, 200),
            ("::1", {}, 200),
            ("::ffff:127.0.0.1", {}, 200),
            ("10.0.0.1", {}, 401),
            ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 401),
            ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}, 401),
            ("127.0.0.1", {"Via": "1.1 proxy"}, 401),
            ("127.0.0.1", {"X-Real-IP": "127.0.0.1"}, 401),
            ("127.0.0.1", {"Host": "evil.example"}, 403),
        ):
            answer = await ask(
                world, "POST", LOGIN, headers, content=EMPTY, peer=peer, url="http://localhost"
            )
            assert answer.status_code == status, (peer, headers, answer.text)


async def test_while_empty_passwords_are_allowed_every_page_must_be_ours(tmp_path: Path) -> None:
    async with trusting_world(tmp_path) as world:
        for path in ("/info", "/api/v1/master", ME):
            refused = await ask(world, "GET", path, {"Host": "evil.example"})
            assert refused.status_code == 403, path
        bearer = {"Authorization": f"Bearer {world.token}", "Host": "any.example"}
        assert (await ask(world, "GET", ME, bearer)).status_code == 200


async def test_without_leave_there_is_no_way(world: ApiWorld) -> None:
    await world.ok("POST", "/api/v1/users", {"user": {"username": "guest", "active": True}})
    answer = await ask(world, "POST", LOGIN, {"Host": "localhost"}, content=EMPTY)
    assert answer.status_code == 401


# Proxies


async def seen(
    trusted: list[str], peer: str, headers: Mapping[str, str], kind: str = "http"
) -> tuple[str, str, str]:
    """Client, scheme and host of a request as the application sees it."""
    found: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope)

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nothing is read or sent")

    scope = {
        "type": kind,
        "scheme": "http" if kind == "http" else "ws",
        "client": (peer, 7),
        "headers": [
            (b"host", b"inside"),
            *((name.encode(), value.encode()) for name, value in headers.items()),
        ],
    }
    await TrustedProxies(app, trusted)(scope, nothing, nothing)
    (now,) = found
    (host,) = (value.decode() for name, value in now["headers"] if name == b"host")
    return now["client"][0], now["scheme"], host


FORWARDED = {
    "x-forwarded-for": "1.1.1.1, 198.51.100.4, 10.0.0.9",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "windlass.example",
}


async def test_only_named_proxies_are_believed() -> None:
    assert await seen([], "10.0.0.5", FORWARDED) == ("10.0.0.5", "http", "inside")
    assert await seen(["10.0.1.0/24"], "10.0.0.5", FORWARDED) == ("10.0.0.5", "http", "inside")
    told = ("198.51.100.4", "https", "windlass.example")
    assert await seen(["10.0.0.0/24"], "10.0.0.5", FORWARDED) == told
    assert await seen(["10.0.0.0/24"], "::ffff:10.0.0.5", FORWARDED) == told
    assert (await seen(["10.0.0.0/24"], "10.0.0.5", FORWARDED, "websocket"))[1] == "wss"


@pytest.mark.parametrize(
    ("given", "client"),
    [
        ("198.51.100.4:5555", "198.51.100.4"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("1.1.1.1, nonsense", "10.0.0.5"),
        ("nonsense, 198.51.100.4", "198.51.100.4"),
        ("", "10.0.0.5"),
        ("10.0.0.9, 10.0.0.8", "10.0.0.9"),
    ],
)
async def test_the_caller_is_the_last_that_no_proxy_of_ours_is(given: str, client: str) -> None:
    told = await seen(["10.0.0.0/24"], "10.0.0.5", {"x-forwarded-for": given})
    assert told == (client, "http", "inside")


async def test_a_proxy_that_is_not_named_is_told_of_once(world: ApiWorld) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            await ask(world, "GET", "/info", {"X-Forwarded-For": "1.1.1.1"}, peer="10.0.0.5")
    (line,) = [line for line in lines if "security.trusted_proxies" in line["event"]]
    assert line["proxy"] == "10.0.0.5"


async def test_behind_a_named_proxy_cookies_are_secure_and_pages_ours(tmp_path: Path) -> None:
    security = {"trusted_proxies": ["10.0.0.5"], "allowed_hosts": ["windlass.example"]}
    async with api_world(tmp_path, security=security) as world:
        body = f'{{"username": "admin", "password": "{PASSWORD}"}}'.encode()
        login = await ask(world, "POST", LOGIN, FORWARDED, content=body, peer="10.0.0.5")
        set_cookie = login.headers["set-cookie"].lower()
        assert all(flag in set_cookie for flag in ("secure", "httponly", "samesite=lax"))
        world.token = login.json()["token"]
        page = {"Origin": "https://windlass.example", "Content-Type": "application/json"}
        for peer, status in (("10.0.0.5", 200), ("10.0.0.6", 403)):
            done = await ask(
                world,
                "PATCH",
                "/api/v1/users/1",
                {**cookie(world), **FORWARDED, **page},
                content=b'{"displayName": "A"}',
                peer=peer,
            )
            assert done.status_code == status, done.text
