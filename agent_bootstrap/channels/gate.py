"""A port on 127.0.0.1 of a node that leads to the master, for the agent and its tasks, whichever way that is now.

It carries bytes and reads none: TLS is between who connects and the master. On a machine that others use, too, only the
agent's own user is let in, unless that is root.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

from agent_bootstrap.channels.streams import LOOPBACK, SocketStream, Stream, join
from windlass.base.files import write_atomic

PORT_FILE = "gate-port"
MAX_CONNECTIONS = 2048
_SOCKETS = Path("/proc/net/tcp")
_SOCKETS_6 = Path("/proc/net/tcp6")
"""Programs that speak IPv6 and IPv4 by one socket are here, also where they connect to 127.0.0.1."""
_MAPPED = f"{0:016X}{int.from_bytes(bytes((0, 0, 255, 255)), 'little'):08X}"

log = logging.getLogger(__name__)


class Gate:
    """Open between `open` and `close`."""

    def __init__(self, onward: Callable[[], Awaitable[Stream]], folder: Path) -> None:
        """`folder`: where the port is remembered, for tasks outlive the agent that told them."""
        self._onward = onward
        self._folder = folder
        self._server: asyncio.Server | None = None
        self._conversations: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def was_open(self) -> bool:
        """An agent before this one has told tasks of it."""
        return (self._folder / PORT_FILE).exists()

    async def open(self) -> int:
        """Its port. Repeating it changes nothing. Raises OSError."""
        if self._server is None:
            self._server = await self._listen()
            self.port = self._server.sockets[0].getsockname()[1]
            write_atomic(self._folder / PORT_FILE, str(self.port).encode())
        return self.port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for conversation in list(self._conversations):
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)

    async def _listen(self) -> asyncio.Server:
        for port in self._ports():
            with suppress(OSError):
                return await asyncio.start_server(
                    self._take, LOOPBACK, port, family=socket.AF_INET, reuse_port=False
                )
        raise ConnectionError(f"no port of {LOOPBACK} is free for tasks")

    def _ports(self) -> Iterator[int]:
        """That of the agent before us first: its tasks know it."""
        with suppress(OSError, ValueError):
            yield int((self._folder / PORT_FILE).read_text())
        yield 0

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._conversations.add(task)
        stream = SocketStream(reader, writer)
        try:
            if len(self._conversations) <= MAX_CONNECTIONS and await _may_enter(writer):
                await join(stream, await self._onward())
        except OSError as error:
            log.info("a connection of this node did not reach the master: %s", error)
        except asyncio.CancelledError:
            pass  # the gate closes
        finally:
            stream.close()
            if task is not None:
                self._conversations.discard(task)


async def _may_enter(writer: asyncio.StreamWriter) -> bool:
    me = os.geteuid()
    ends = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
    return me == 0 or await asyncio.to_thread(owner_of, *ends) == me


def owner_of(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """The user of the other end of a connection within this machine. None: it is not known.

    Blocks: a node with many connections has long tables.
    """
    for table, before in ((_SOCKETS, ""), (_SOCKETS_6, _MAPPED)):
        wanted = f" {before}{_spelled(peer)} {before}{_spelled(own)} "
        with suppress(OSError), table.open() as lines:
            for line in lines:
                if wanted in line:
                    return int(line.split()[7])
    return None


def _spelled(address: tuple[str, int]) -> str:
    """As the kernel lists it."""
    host = int.from_bytes(socket.inet_aton(address[0]), "little")
    return f"{host:08X}:{address[1]:04X}"
