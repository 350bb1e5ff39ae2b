"""The real server behind TLS: handshakes that do not come, plain HTTP, and a certificate that changes under load."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import InvalidStatus

from master import serve
from master.config.sections import Connections
from master.server import connections
from master.server.connections import ConnectionTable
from master.tls import handshake
from master.tls.plain_http import SENTENCE
from master.tls.serving import ServedTls, TlsFiles
from tests.certificates import Authority
from tests.fakes.api_world import PASSWORD, ApiWorld, api_world
from tests.integration.security.agent_sockets import Served, served
from windlass.base.clock import SystemClock
from windlass.core import _session
from windlass.core._session import TaskSession

Slow = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Server:
    def __init__(
        self,
        stack: AsyncExitStack,
        world: ApiWorld,
        at: Served,
        table: ConnectionTable,
        authority: Authority,
    ) -> None:
        self._stack = stack
        self.world = world
        self.at = at
        self.table = table
        self.authority = authority
        self.context = ssl.create_default_context(cafile=str(authority.root))

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.at.url, verify=self.context)

    async def open(self, sent: bytes = b"") -> Slow:
        """Without TLS."""
        reader, writer = await asyncio.open_connection(self.at.host, self.at.port)
        self._stack.push_async_callback(_close, writer)
        writer.write(sent)
        return reader, writer

    async def honest(self) -> int:
        headers = {"Authorization": f"Bearer {self.world.token}"}
        async with self.client() as client:
            return (await client.get("/api/v1/me", headers=headers)).status_code


@pytest.fixture
async def server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Server]:
    """With the limits of the test's parameter instead of the defaults."""
    tables: list[ConnectionTable] = []

    def table(limits: Connections) -> ConnectionTable:
        tables.append(ConnectionTable(limits.model_copy(update=getattr(request, "param", {}))))
        return tables[0]

    monkeypatch.setattr(serve, "ConnectionTable", table)
    monkeypatch.setattr(serve, "SWEEP_S", 0.02)
    authority = Authority(tmp_path / "tls")
    issued = authority.issue()
    tls = ServedTls(TlsFiles(cert=issued.cert, key=issued.key), SystemClock())
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(api_world(tmp_path))
        await world.login()
        at = await stack.enter_async_context(served(world, tls))
        yield Server(stack, world, at, tables[0], authority)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_it_answers_and_its_cookie_is_for_tls_only(server: Server) -> None:
    assert await server.honest() == 200
    async with server.client() as client:
        body = {"username": "admin", "password": PASSWORD}
        reply = await client.post("/api/v1/auth/login", json=body)
    assert "secure" in reply.headers["set-cookie"].lower()


async def test_old_versions_of_tls_are_refused(server: Server) -> None:
    context = ssl.create_default_context(cafile=str(server.authority.root))
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(OSError):  # asyncio hangs up without an alert  # noqa: PT011
        await asyncio.open_connection(server.at.host, server.at.port, ssl=context)
    assert await server.honest() == 200


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE", "OPTIONS"])
async def test_plain_http_is_told_that_it_is_https(server: Server, method: str) -> None:
    async with httpx2.AsyncClient(base_url=server.at.url.replace("https:", "http:")) as client:
        reply = await client.request(method, "/api/v1/me")
    assert reply.status_code == 400
    assert reply.json()["error"]["error"].startswith(f"{SENTENCE}: write https://127.0.0.1:")
    assert await server.honest() == 200


async def test_a_plain_websocket_is_told_too(server: Server) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await open_websocket(f"ws://{server.at.host}:{server.at.port}/agents", proxy=None)
    assert refused.value.response.status_code == 400
    assert SENTENCE in (refused.value.response.body or b"").decode()


HELLO = b"\x16\x03\x01\x02\x00"
"""The beginning of a handshake."""


@pytest.mark.parametrize("server", [{"header_timeout": timedelta(seconds=0.1)}], indirect=True)
@pytest.mark.parametrize("sent", [b"", HELLO, b"GET / HTTP/1.1\r\n\r\n", b"G"])
async def test_a_handshake_that_does_not_come_is_cut(server: Server, sent: bytes) -> None:
    reader, _ = await server.open(sent)
    with suppress(ConnectionError):
        await reader.read()  # to the end
    assert await server.honest() == 200


@pytest.mark.parametrize(
    "sent", [b"\x00" * 100, HELLO + b"\xff" * 600, b"\x15\x03\x01\x00\x02\x02\x28"]
)
async def test_what_is_no_handshake_ends_the_connection_at_once(
    server: Server, sent: bytes
) -> None:
    reader, _ = await server.open(sent)
    with suppress(ConnectionError):
        await reader.read()
    assert await server.honest() == 200


@pytest.mark.parametrize("server", [{"header_timeout": timedelta(seconds=0.1)}], indirect=True)
async def test_after_the_handshake_a_request_must_come_as_well(server: Server) -> None:
    reader, writer = await asyncio.open_connection(
        server.at.host, server.at.port, ssl=server.context
    )
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.transport.abort()


@pytest.mark.parametrize(
    "server", [{"unauthenticated": 20, "header_timeout": timedelta(seconds=600.0)}], indirect=True
)
async def test_handshakes_that_hang_are_bounded_and_others_get_in(server: Server) -> None:
    for _ in range(100):
        await server.open(HELLO)
    assert await server.honest() == 200
    assert len(server.table) <= 21


@pytest.mark.parametrize("server", [{"header_timeout": timedelta(seconds=600.0)}], indirect=True)
async def test_handshakes_do_not_hold_up_a_stop(server: Server) -> None:
    for _ in range(3):
        await server.open(HELLO)
    assert len(server.table) == 3


@pytest.mark.parametrize("server", [{}], indirect=True)
async def test_one_who_does_not_read_is_cut(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WINDOW_S", 0.2)
    reader, writer = await asyncio.open_connection(
        server.at.host, server.at.port, ssl=server.context, limit=1
    )
    head = f"GET /docs/openapi.json HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.world.token}\r\n\r\n"
    writer.write(head.encode() * 400)
    async with asyncio.timeout(60):
        while len(server.table) > 0:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
    writer.transport.abort()
    del reader


async def test_an_agent_dials_by_tls(server: Server) -> None:
    with pytest.raises(InvalidStatus) as refused:  # no token: but it came as far as that
        await open_websocket(
            f"wss://{server.at.host}:{server.at.port}/agents?pool=default&agent_id=x",
            ssl=server.context,
            proxy=None,
        )
    assert refused.value.response.status_code in (401, 403)


async def test_while_the_certificate_changes_no_request_is_lost(server: Server) -> None:
    """New connections and kept ones, requests large and small."""
    assert server.at.tls is not None
    headers = {"Authorization": f"Bearer {server.world.token}"}
    over = asyncio.Event()
    statuses: list[int] = []

    async def one_by_one() -> None:
        while not over.is_set():
            async with server.client() as client:
                statuses.append((await client.get("/api/v1/me", headers=headers)).status_code)

    async def on_one_connection() -> None:
        async with server.client() as client:
            while not over.is_set():
                reply = await client.post("/api/v1/auth/login", content=b"x" * 30_000)
                statuses.append({400: 200}.get(reply.status_code, reply.status_code))

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(one_by_one())
            group.create_task(on_one_connection())
        seen = set()
        for _ in range(8):
            seen.add(server.authority.issue().fingerprint)
            await server.at.tls.look()
            count = len(statuses) + 30
            while len(statuses) < count:  # noqa: ASYNC110 - requests are awaited
                await asyncio.sleep(0.01)
        over.set()
    assert len(seen) == 8
    assert set(statuses) == {200}


@pytest.fixture
def quickly_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master gives idle connections up at once; the client finds out by asking."""
    monkeypatch.setattr(serve, "MASTER_KEEPS_S", 0.02)
    monkeypatch.setattr(handshake, "GOODBYE_S", 0.02)
    monkeypatch.setattr(_session, "CLIENT_KEEPS_S", 600.0)


async def test_a_task_reports_in_silence_on_a_connection_that_the_master_has_closed(
    quickly_closed: None, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    session = TaskSession(server.at.url, "", cert_file=str(server.authority.root))
    body = {"username": "admin", "password": PASSWORD}
    try:
        for _ in range(3):
            assert (await asyncio.to_thread(session.post, "/api/v1/auth/login", body))["token"]
            async with asyncio.timeout(60):
                while len(server.table) > 0:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.02)
    finally:
        session.close()
    assert [record.message for record in caplog.records if record.name == "windlass.core"] == []
