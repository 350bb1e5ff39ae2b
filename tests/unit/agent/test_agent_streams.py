"""Connections to ports of tasks, and what joins two streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_bootstrap.channels.streams import LOOPBACK, Stream, connected_here, join
from tests.fakes.memory_pipe import memory_pipe

LIMIT_S = 60
ANSWER = b"too large"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Of a server that answers the first byte, and closes with the others unread: its end is reset."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, LOOPBACK)
    yield server.sockets[0].getsockname()[1]
    server.close()


class ReadsLast:
    """Implements `Stream`: what comes is read when nothing can be written any more."""

    def __init__(self, inner: Stream) -> None:
        self._inner = inner
        self._has_failed = asyncio.Event()
        self.end = inner.end
        self.close = inner.close

    async def write(self, data: bytes) -> None:
        try:
            await self._inner.write(data)
        except OSError:
            self._has_failed.set()
            raise

    async def read(self) -> bytes:
        await self._has_failed.wait()
        return await self._inner.read()


async def _fill(stream: Stream) -> None:
    while True:
        await stream.write(bytes(100_000))


async def test_an_answer_can_be_read_after_a_write_has_failed(port: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        stream = await connected_here(port)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            await _fill(stream)
        assert await stream.read() == ANSWER
        stream.close()


async def test_the_answer_to_a_request_that_a_server_does_not_take_whole_arrives(port: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        near, far = memory_pipe()
        joined = asyncio.create_task(join(far, ReadsLast(await connected_here(port))))
        filling = asyncio.create_task(_fill(near))
        assert await near.read() == ANSWER
        assert await near.read() == b""
        await joined
        with pytest.raises(ConnectionError):
            await filling


async def test_nobody_listens_there(unused_tcp_port: int) -> None:
    with pytest.raises(ConnectionError, match=f"{LOOPBACK}:{unused_tcp_port}: Connection refused"):
        await connected_here(unused_tcp_port)
