"""A stream of bytes to the master's port, and what joins two of them.

Whatever carries it, a stream is a TCP connection to the people at both ends: in order, with back-pressure, closed in
each direction by itself. What is inside (TLS to the master, where nodes share a network) is nobody's business here.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Protocol

CHUNK_BYTES = 64 * 1024
OPEN_LIMIT_S = 10.0
KEEP_ALIVE_S = 15
"""A peer that is gone without a word is noticed about three times as long after its last."""


class Stream(Protocol):
    """All calls raise OSError once it is broken."""

    async def read(self) -> bytes:
        """Some bytes; none: the peer has sent all."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when more may be written."""
        ...

    async def end(self) -> None:
        """No more will be written. What the peer writes still comes."""
        ...

    def close(self) -> None:
        """Both directions, at once. What was not sent may be lost."""
        ...


class Transport(Protocol):
    """One way to the master."""

    @property
    def name(self) -> str:
        """As `channels` in a configuration names it."""
        ...

    async def open(self) -> Stream:
        """To the master's port. Raises OSError with words for people: why this way does not lead there."""
        ...

    async def close(self) -> None:
        """End what was started for it."""
        ...


class SocketStream:
    """Implements `Stream` on a socket of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        if (sock := writer.get_extra_info("socket")) is not None:
            keep_alive(sock)

    async def read(self) -> bytes:
        return await self._reader.read(CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        with suppress(OSError):
            self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()


class Direct:
    """Implements `Transport`: the network."""

    name = "direct"

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    async def open(self) -> Stream:
        return await connected(self._host, self._port)

    async def close(self) -> None:
        """Nothing was started."""


async def connected(host: str, port: int) -> Stream:
    """By TCP. Raises OSError with words."""
    try:
        async with asyncio.timeout(OPEN_LIMIT_S):
            return SocketStream(*await asyncio.open_connection(host, port))
    except TimeoutError:
        raise ConnectionError(f"{host}:{port} does not answer within {OPEN_LIMIT_S:g} s") from None
    except OSError as error:
        raise ConnectionError(f"{host}:{port}: {reason(error)}") from None


def reason(error: OSError) -> str:
    """Of asyncio's words for errors of the system, the readable part."""
    if isinstance(error, socket.gaierror):
        return "the name is not known"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def keep_alive(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_ALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)


async def join(one: Stream, other: Stream) -> None:
    """Carry bytes both ways until both directions have ended or one is broken; then both are closed."""
    pumps = [asyncio.create_task(_pump(one, other)), asyncio.create_task(_pump(other, one))]
    try:
        await asyncio.gather(*pumps)
    except OSError:
        pass  # the other end learns of it by the close
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        one.close()
        other.close()


async def _pump(source: Stream, sink: Stream) -> None:
    while data := await source.read():
        await sink.write(data)
    await sink.end()
