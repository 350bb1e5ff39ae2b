"""A stream of bytes to the master's port, and what joins two of them.

Whatever carries it, a stream is a TCP connection to the people at both ends: in order, with back-pressure, closed in
each direction by itself. What is inside (TLS to the master, where nodes share a network) is nobody's business here.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

LOOPBACK = "127.0.0.1"
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


class PlainSocket:
    """Implements `Stream` on a connected socket of this machine, which it owns.

    What the peer has said can still be read after a write has failed, which asyncio's own transports do not allow: a
    server may answer, and reset the connection because it takes no more of the request.
    """

    def __init__(self, sock: socket.socket) -> None:
        """`sock` does not block."""
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        keep_alive(sock)

    async def read(self) -> bytes:
        return await self._loop.sock_recv(self._sock, CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, data)

    async def end(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Nobody reads or writes any more."""
        self._sock.close()


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
    async with _connecting(host, port):
        return SocketStream(*await asyncio.open_connection(host, port))


async def connected_here(port: int) -> Stream:
    """By TCP, to a port of this machine's loopback. Raises OSError with words."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with _connecting(LOOPBACK, port):
            await asyncio.get_running_loop().sock_connect(sock, (LOOPBACK, port))
    except BaseException:
        sock.close()
        raise
    return PlainSocket(sock)


@asynccontextmanager
async def _connecting(host: str, port: int) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(OPEN_LIMIT_S):
            yield
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
    """Carry bytes both ways until both directions have ended or a source is broken; then both are closed.

    A sink that takes no more ends its own direction alone: what its peer has still to say may be why.
    """
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
        try:
            await sink.write(data)
        except OSError:
            return
    await sink.end()
