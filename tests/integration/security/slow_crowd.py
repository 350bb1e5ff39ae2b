"""Thousands of connections that keep a master waiting, and honest users meanwhile. For a test and a benchmark."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def kinds(token: str) -> list[bytes]:
    """What a slow connection sends, and then nothing more."""
    known = f"Host: x\r\nAuthorization: Bearer {token}\r\n"
    return [
        b"",
        b"GET /api/v1/experiments HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        f"POST /api/v1/experiments HTTP/1.1\r\n{known}Content-Length: 100000\r\n\r\n{{".encode(),
        b"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
        f"GET /api/v1/openapi.json HTTP/1.1\r\n{known}\r\n".encode()
        * 8,  # and the replies are not read
        f"GET /agents?pool=default HTTP/1.1\r\nHost: x\r\n{UPGRADE}".encode(),
        f"GET /agents?pool=default HTTP/1.1\r\nHost: x\r\n{UPGRADE}\r\n".encode(),
    ]


class Crowd:
    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets

    def hanging(self) -> int:
        """How many the master has not closed."""
        return sum(map(_is_open, self._sockets))


def _is_open(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@asynccontextmanager
async def slow_crowd(port: int, token: str, count: int) -> AsyncIterator[Crowd]:
    """So many slow connections of all kinds, that stay until the end."""
    loop = asyncio.get_running_loop()
    sockets: list[socket.socket] = []
    try:
        for sent, _ in zip(_again(kinds(token)), range(count), strict=False):
            connection = socket.socket()
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sockets.append(connection)
            await loop.sock_connect(connection, ("127.0.0.1", port))
            await loop.sock_sendall(connection, sent)
        yield Crowd(sockets)
    finally:
        for connection in sockets:
            connection.close()


def _again(kinds: list[bytes]) -> Iterator[bytes]:
    while True:
        yield from kinds


async def honest_users(port: int, token: str, *, users: int, calls: int) -> list[float]:
    """Each calls so often, every time on a new connection; how many seconds each call took."""
    took: list[float] = []

    async def user() -> None:
        for _ in range(calls):
            began = time.perf_counter()
            reply = await _call(port, token)
            assert reply.startswith(b"HTTP/1.1 200"), reply
            took.append(time.perf_counter() - began)

    await asyncio.gather(*(user() for _ in range(users)))
    return took


async def _call(port: int, token: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = ("GET /api/v1/experiments HTTP/1.1", "Host: x", "Connection: close")
    writer.write("\r\n".join((*lines, f"Authorization: Bearer {token}", "", "")).encode())
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
