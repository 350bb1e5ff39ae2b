"""HTTP/1.1 on a few addresses of this machine: one request on each connection, bounded in number, size and time."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import h11

from agent_bootstrap.agent.metadata.broker import refusal
from agent_bootstrap.agent.metadata.http1 import HttpReply

MAX_CONNECTIONS = 512
MAX_OF_ONE_USER = 128
FEW = 64
"""So many connections in all, and nobody asks whose they are."""
REQUEST_S = 10.0
ANSWER_S = 30.0
MAX_HEAD = 16 * 1024


log = logging.getLogger(__name__)

Answer = Callable[[str, str, Mapping[str, str]], Awaitable[HttpReply]]
"""Of method, target, and headers with names in lower case."""
TABLE = Path("/proc/net/tcp")
CLOSED = "06"
"""TIME_WAIT: nobody's any more."""

Address = tuple[str, int]


class SocketOwner(NamedTuple):
    local: str
    remote: str
    uid: int


class LocalServer:
    """Open between `open` and `close`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._servers: list[asyncio.Server] = []
        self._open = 0

    async def open(self, addresses: Sequence[str], port: int) -> int:
        """The port on all of them, chosen by the system if 0. Raises OSError: nothing is open then."""
        try:
            for address in addresses:
                server = await asyncio.start_server(
                    self._serve, address, port, family=socket.AF_INET, reuse_port=False
                )
                self._servers.append(server)
                port = server.sockets[0].getsockname()[1]
        except OSError:
            await self.close()
            raise
        return port

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS and not await self._has_too_many(writer):
                await self._converse(reader, writer)
        except (OSError, h11.ProtocolError) as error:
            log.debug("a task's request failed: %s", error)
        finally:
            self._open -= 1
            with suppress(OSError):
                writer.close()

    async def _has_too_many(self, writer: asyncio.StreamWriter) -> bool:
        """Its user: who holds connections open keeps nobody else from theirs."""
        if self._open <= FEW:
            return False
        peer, ours = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        table = await asyncio.to_thread(TABLE.read_text)
        return held_by_owner_of(peer, ours, table) > MAX_OF_ONE_USER

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        try:
            async with asyncio.timeout(REQUEST_S):
                request = await _request(protocol, reader)
        except h11.RemoteProtocolError as error:
            await _send(protocol, writer, refusal(HTTPStatus.BAD_REQUEST, str(error)))
            return
        if request is None:
            return
        async with asyncio.timeout(ANSWER_S):
            headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in request.headers}
            method, target = request.method.decode("ascii"), request.target.decode("ascii")
            await _send(protocol, writer, await self._answer(method, target, headers))


async def _request(protocol: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """None: the peer went. A body is not read."""
    while True:
        event = protocol.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            return None
        protocol.receive_data(await reader.read(MAX_HEAD))


async def _send(protocol: h11.Connection, writer: asyncio.StreamWriter, reply: HttpReply) -> None:
    own = [("Content-Length", str(len(reply.body))), ("SocketOwner", "close")]
    head = h11.Response(status_code=reply.status, headers=[*reply.headers.items(), *own])
    writer.write(protocol.send(head) or b"")
    writer.write(protocol.send(h11.Data(data=reply.body)) or b"")
    await writer.drain()


def connections(table: str) -> Iterator[SocketOwner]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] != CLOSED:
            yield SocketOwner(fields[1], fields[2], int(fields[7]))


def held_by_owner_of(peer: Address, ours: Address, table: str) -> int:
    """How many connections to `ours` its user has; one from a network of its own (a container's): its address."""
    here, there = _hex(ours), _hex(peer)
    found = list(connections(table))
    users = {each.local: each.uid for each in found if each.remote == here}
    if there in users:
        return sum(uid == users[there] for uid in users.values())
    host = there.partition(":")[0]
    return sum(
        each.local == here and each.remote not in users and each.remote.startswith(f"{host}:")
        for each in found
    )


def _hex(address: Address) -> str:
    """As in the table: the address as a number of this machine's byte order."""
    host, port = address
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"
