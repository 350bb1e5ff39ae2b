"""Slow, idle and very many connections to the real server: who is cut, who is not, and who is served meanwhile."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import cast

import httpx2
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect as open_websocket

from master import serve
from master.api.access import KNOWN
from master.config import load
from master.config.sections import Connections
from master.server import connections
from master.server.connections import MAX_HEAD_BYTES, ConnectionTable
from tests.fakes.api_world import ApiWorld, api_world
from tests.integration.security.agent_sockets import Served, served

HALF_HEAD = b"GET /api/v1/master HTTP/1.1\r\nHost: x\r\nX-Slow: "
Slow = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Server:
    """A served world, with limits that a test chooses, and raw connections to it."""

    def __init__(
        self, stack: AsyncExitStack, world: ApiWorld, at: Served, table: ConnectionTable
    ) -> None:
        self._stack = stack
        self.world = world
        self.at = at
        self.table = table

    async def open(self, sent: bytes = b"") -> Slow:
        reader, writer = await asyncio.open_connection(self.at.host, self.at.port)
        self._stack.push_async_callback(_close, writer)
        writer.write(sent)
        return reader, writer

    def head(self, method: str, path: str, *, token: bool = True, length: int = 0) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {length}"]
        if token:
            lines.append(f"Authorization: Bearer {self.world.token}")
        return "\r\n".join((*lines, "", "")).encode()

    async def honest(self) -> int:
        """The status of a call on a new connection."""
        headers = {"Authorization": f"Bearer {self.world.token}"}
        async with httpx2.AsyncClient(base_url=self.at.url) as client:
            return (await client.get("/api/v1/experiments", headers=headers)).status_code


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
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(api_world(tmp_path))
        await world.login()
        at = await stack.enter_async_context(served(world))
        yield Server(stack, world, at, tables[0])


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def status_of(slow: Slow) -> int:
    """0: cut without a word."""
    try:
        line = await slow[0].readline()
    except ConnectionError:
        return 0
    return int(line.split()[1]) if line else 0


@pytest.mark.parametrize("server", [{"header_timeout": timedelta(seconds=0.1)}], indirect=True)
@pytest.mark.parametrize("sent", [b"", b"G", HALF_HEAD])
async def test_a_head_that_does_not_come_is_cut(server: Server, sent: bytes) -> None:
    assert await status_of(await server.open(sent)) == 0
    assert await server.honest() == 200


@pytest.mark.parametrize("server", [{"header_timeout": timedelta(seconds=0.3)}], indirect=True)
async def test_a_head_that_trickles_is_cut(server: Server) -> None:
    reader, writer = await server.open(HALF_HEAD)
    while not reader.at_eof() and reader.exception() is None:
        writer.write(b"x")
        await asyncio.sleep(0.02)
    assert await status_of((reader, writer)) == 0


@pytest.mark.parametrize("server", [{"header_timeout": timedelta(seconds=0.3)}], indirect=True)
async def test_the_second_head_of_a_connection_is_cut_too(server: Server) -> None:
    slow = await server.open(server.head("GET", "/api/v1/me") + HALF_HEAD)
    assert await status_of(slow) == 200
    await slow[0].read()  # to the end: it has been cut


async def test_a_head_that_is_too_long_is_refused(server: Server) -> None:
    rest = b"x" * MAX_HEAD_BYTES
    assert await status_of(await server.open(HALF_HEAD + rest)) == 431
    assert await status_of(await server.open(HALF_HEAD + rest + b"\r\n\r\n")) == 431
    many = b"".join(b"a%d: b\r\n" % n for n in range(20_000))
    assert await status_of(await server.open(b"GET / HTTP/1.1\r\n" + many + b"\r\n")) == 431
    assert await server.honest() == 200


async def test_nobody_unknown_gets_a_body_read(server: Server) -> None:
    head = server.head("POST", "/api/v1/experiments", token=False, length=100_000_000)
    assert await status_of(await server.open(head)) == 401


async def test_a_body_that_does_not_move_on_is_cut(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WINDOW_S", 0.1)
    for token in (True, False):
        head = server.head("POST", "/api/v1/experiments", token=token, length=1000)
        reader, _ = await server.open(head + b'{"config": ')
        left = await reader.read()
        assert left == b"" or (not token and b" 401 " in left)


async def test_a_slow_body_that_moves_on_is_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WINDOW_S", 0.5)
    monkeypatch.setattr(connections, "WINDOW_BYTES", 1)
    body = json.dumps({"config": "x" * 40}).encode()
    slow = await server.open(server.head("POST", "/api/v1/experiments", length=len(body)))
    for byte in body:
        slow[1].write(bytes([byte]))
        await asyncio.sleep(0.02)  # in all longer than a window
    assert await status_of(slow) == 400


async def test_a_reply_that_is_not_read_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WINDOW_S", 0.1)
    monkeypatch.setattr(connections, "IDLE_S", 0.1)
    _, writer = await server.open()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    one = server.head("GET", "/api/v1/openapi.json")
    replies = 40
    writer.write(one * replies)
    async with asyncio.timeout(60):
        while len(server.table):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
    assert await server.honest() == 200


@pytest.mark.parametrize("server", [{"unauthenticated_per_address": 20}], indirect=True)
async def test_the_stranger_who_waits_longest_makes_room(server: Server) -> None:
    slow = [await server.open(HALF_HEAD) for _ in range(20)]
    known = await server.open(server.head("GET", "/api/v1/me"))
    assert await status_of(known) == 200
    assert await status_of(slow[0]) == 0
    more = [await server.open(HALF_HEAD) for _ in range(19)]
    assert await server.honest() == 200
    for one in slow[1:]:
        assert await status_of(one) == 0
    known[1].write(server.head("GET", "/api/v1/me"))
    assert not more[-1][0].at_eof()


async def test_open_files_are_left_for_others(server: Server) -> None:
    server.table.most = 30
    slow = [await server.open(HALF_HEAD) for _ in range(60)]
    assert await server.honest() == 200
    assert [await status_of(one) for one in slow[:30]] == [0] * 30


@pytest.mark.parametrize("server", [{"unauthenticated_per_address": 20}], indirect=True)
async def test_connections_of_a_relay_do_not_count_once_they_are_known(server: Server) -> None:
    head = server.head("GET", "/api/v1/me")
    behind_one_relay = [await server.open(head) for _ in range(200)]
    assert [await status_of(one) for one in behind_one_relay] == [200] * 200
    assert not any(reader.at_eof() for reader, _ in behind_one_relay)


async def test_a_caller_who_goes_away_is_no_failure(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    head = server.head("POST", "/api/v1/experiments", length=1000)
    _, writer = await server.open(head + b"{")
    assert await server.honest() == 200
    writer.transport.abort()
    async with asyncio.timeout(60):
        while len(server.table):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
    assert await server.honest() == 200
    assert "Traceback" not in "".join(capsys.readouterr())


async def talkative(scope: Scope, receive: Receive, send: Send) -> None:
    """Knows its caller, and sends without end."""
    await receive()
    scope[KNOWN]()
    await send({"type": "websocket.accept"})
    while True:
        await send({"type": "websocket.send", "text": "x" * 100_000})


async def test_a_known_websocket_peer_that_does_not_read_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables: list[ConnectionTable] = []

    def table(limits: Connections) -> ConnectionTable:
        tables.append(ConnectionTable(limits))
        return tables[0]

    monkeypatch.setattr(serve, "ConnectionTable", table)
    monkeypatch.setattr(serve, "SWEEP_S", 0.02)
    monkeypatch.setattr(connections, "WINDOW_S", 0.2)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    host, port = listener.getsockname()
    app = cast("FastAPI", talkative)
    config = load(None, overrides={"host": host, "port": port})
    server = serve.web_server(app, config)
    monkeypatch.setattr(serve, "begin_shutdown", lambda _: None)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.005)
    deaf = await open_websocket(f"ws://{host}:{port}/", proxy=None, max_size=None)
    deaf.transport.pause_reading()
    async with asyncio.timeout(60):
        while len(tables[0]):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
    deaf.transport.abort()
    reading = await open_websocket(f"ws://{host}:{port}/", proxy=None, max_size=None)
    for _ in range(20):
        assert len(await reading.recv()) == 100_000
        await asyncio.sleep(0.03)
    reading.transport.abort()
    server.should_exit = True
    await serving
