"""Connections of the HTTP server: which are waited for, how long, and how many unauthenticated ones there may be.

Uvicorn limits neither heads nor half-sent requests nor slow readers; these protocols do. A connection counts as
unauthenticated until a request on it has been authenticated (`KNOWN` in its scope). Those that the master
waits for are bounded: beyond the bound the one that has kept it waiting longest is cut, so somebody who says who he is
at once always gets in.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Any

import structlog
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from master.api.access import KNOWN
from master.api.http.middleware import PROXY
from master.config.sections import Connections

log = structlog.get_logger(__name__)

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers. The longest honest ones are lists of ids in queries."""
WINDOW_S = 10.0
"""How often a half-sent body, or a reply that is not read, must have moved on ..."""
WINDOW_BYTES = 8 * 1024
"""... by so many bytes, or to its end."""
IDLE_S = 30.0
"""Beyond `MASTER_KEEPS_S`: the peer does not read what was left to say."""
SWEEP_S = 1.0
RESERVED_FILES = 256
"""Open files that are not connections: databases, logs, blobs, processes."""
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class WaitsFor(Enum):
    """What the master waits for on a connection."""

    HEAD = "half_sent_heads"
    BODY = "half_sent_bodies"
    READER = "unread_replies"
    IDLE = "idle"
    NOTHING = ""
    """It works on a request, or the connection is a WebSocket of a known peer who reads."""


class TimedConnection:
    """One connection, as `ConnectionTable` sees it."""

    __slots__ = (
        *("address", "below", "deadline", "flow", "known", "moved", "transport", "unread"),
        "waiting",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        address: str,
        flow: FlowControl,
        below: asyncio.Transport | None = None,
    ) -> None:
        self.transport = transport
        self.below = below
        """What carries it, for TLS."""
        self.address = address
        self.flow = flow
        self.known = False
        self.waiting = WaitsFor.NOTHING
        self.deadline = 0.0
        self.moved = 0
        """Bytes of a body that came in this window."""
        self.unread = 0
        """Bytes of a reply that were not read when this window began."""

    def moves_on(self) -> bool:
        """At the end of a window: whether enough has come or gone. Begins the next one."""
        moved, self.moved = self.moved, 0
        if self.waiting is WaitsFor.BODY and self.flow.read_paused:
            return True  # the master does not read
        if self.waiting is WaitsFor.READER:
            left = self.unread_bytes()
            moved, self.unread = self.unread - left, left
        return moved >= WINDOW_BYTES

    def unread_bytes(self) -> int:
        """Of replies, that the peer has not taken."""
        below = self.below.get_write_buffer_size() if self.below is not None else 0
        return self.transport.get_write_buffer_size() + below


class ConnectionTable:
    """All connections of a server. `sweep` cuts those that keep the master waiting for too long."""

    def __init__(self, limits: Connections) -> None:
        self._limits = limits
        self.most = most_connections()
        self._all: dict[asyncio.BaseTransport, TimedConnection] = {}
        self._timed: dict[TimedConnection, None] = {}
        self._unauthenticated: dict[str, dict[TimedConnection, None]] = {}
        self._waiting: dict[TimedConnection, None] = {}
        """Those that are waited for, the one that is waited for longest first; in `_unauthenticated` by address."""
        self._cut: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._all)

    def add(
        self,
        transport: asyncio.Transport,
        address: str,
        flow: FlowControl,
        below: asyncio.Transport | None = None,
    ) -> TimedConnection:
        connection = TimedConnection(transport, address, flow, below)
        self._all[transport] = connection
        self.wait_for(connection, WaitsFor.HEAD)
        if len(self._all) > self.most:
            self._cut_one(next(iter(self._waiting)), "too_many_open_files")
        return connection

    def of(self, transport: asyncio.BaseTransport) -> TimedConnection | None:
        """None once it has been cut."""
        return self._all.get(transport)

    def remove(self, connection: TimedConnection) -> None:
        self._all.pop(connection.transport, None)
        self._timed.pop(connection, None)
        self._forget_unauthenticated(connection)

    def know(self, connection: TimedConnection) -> None:
        connection.known = True
        self._forget_unauthenticated(connection)

    def wait_for(self, connection: TimedConnection, what: WaitsFor) -> None:
        if connection.waiting is what or connection.transport not in self._all:
            return
        connection.waiting = what
        if what is WaitsFor.NOTHING:
            self._timed.pop(connection, None)
            self._forget_unauthenticated(connection)
            return
        self._timed[connection] = None
        window = {
            WaitsFor.HEAD: self._limits.header_timeout.total_seconds(),
            WaitsFor.IDLE: IDLE_S,
        }.get(what, WINDOW_S)
        connection.deadline = self._loop.time() + window
        connection.moved = 0
        if what is WaitsFor.READER:
            connection.unread = connection.unread_bytes()
        if not connection.known:
            self._note_unauthenticated(connection)

    def _note_unauthenticated(self, connection: TimedConnection) -> None:
        """Waited for longest means: since it connected, or since its last request was answered."""
        mine = self._unauthenticated.setdefault(connection.address, {})
        mine[connection] = None
        self._waiting[connection] = None
        if len(mine) > self._limits.unauthenticated_per_address:
            self._cut_one(next(iter(mine)), "unauthenticated_of_one_address")
        if len(self._waiting) > self._limits.unauthenticated:
            self._cut_one(next(iter(self._waiting)), "unauthenticated")

    def _forget_unauthenticated(self, connection: TimedConnection) -> None:
        self._waiting.pop(connection, None)
        mine = self._unauthenticated.get(connection.address)
        if mine is not None:
            mine.pop(connection, None)
            if not mine:
                del self._unauthenticated[connection.address]

    def _cut_one(self, connection: TimedConnection, why: str) -> None:
        self._cut[why] += 1
        self.remove(connection)
        connection.transport.abort()

    async def sweep(self) -> None:
        """Every `SWEEP_S`: cut those that are overdue, and tell how many were cut since the last time."""
        for connection in list(self._overdue(self._loop.time())):
            self._cut_one(connection, connection.waiting.value)
        if self._cut:
            log.warning("connections cut", **self._cut)
            self._cut.clear()

    def _overdue(self, now: float) -> Iterator[TimedConnection]:
        for connection in self._timed:
            if now < connection.deadline:
                continue
            moves = connection.waiting in (WaitsFor.BODY, WaitsFor.READER) and connection.moves_on()
            if not moves:
                yield connection
            connection.deadline = now + WINDOW_S


class HttpConnection(HttpToolsProtocol):
    """Uvicorn's protocol, which tells a table what it waits for, and refuses long heads."""

    def __init__(
        self, table: ConnectionTable, below: asyncio.Transport | None = None, **uvicorns: Any
    ) -> None:
        super().__init__(**uvicorns)
        self._table = table
        self._below = below
        self._head_bytes = 0
        self._body_open = False
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connection = self._table.add(
            transport, self.client[0] if self.client else "", self.flow, self._below
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._connection.waiting is WaitsFor.IDLE:
            self._table.wait_for(self._connection, WaitsFor.HEAD)
        super().data_received(data)
        if self._connection.waiting is WaitsFor.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse()

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        if len(self.url) + sum(len(n) + len(v) for n, v in self.headers) > MAX_HEAD_BYTES:
            self._refuse()
            return
        self._body_open = True
        self._table.wait_for(self._connection, WaitsFor.BODY)
        super().on_headers_complete()
        self.scope[KNOWN] = self._know  # type: ignore[literal-required]

    def on_body(self, body: bytes) -> None:
        self._connection.moved += len(body)
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._refused:
            return
        super().on_message_complete()
        self._body_open = False
        self._table.wait_for(self._connection, self._due())

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._connection.waiting is not WaitsFor.READER:
            self._table.wait_for(self._connection, self._due())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._table.wait_for(self._connection, WaitsFor.READER)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._table.wait_for(self._connection, self._due())

    def _due(self) -> WaitsFor:
        if self._body_open:
            return WaitsFor.BODY
        idle = self.cycle is None or self.cycle.response_complete
        return WaitsFor.IDLE if idle else WaitsFor.NOTHING

    def _know(self) -> None:
        self._table.know(self._connection)

    def _refuse(self) -> None:
        self._refused = True
        self.transport.write(TOO_LONG)
        self.transport.close()
        self._table.wait_for(self._connection, WaitsFor.IDLE)


MAX_TO_TASK_BYTES = 16 * 1024 * 1024
"""Of one message to a task's WebSocket: kernels of notebooks take 10 MiB."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    """Uvicorn's protocol, for a connection that was an `HttpConnection` so far."""

    def __init__(self, table: ConnectionTable, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._table = table
        self._connection: TimedConnection | None = None
        self._leads_to_task = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection = self._table.of(transport)
        if self._connection is not None:
            self._table.wait_for(self._connection, WaitsFor.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._table.remove(self._connection)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Whoever stops a program that reads from a task may go on later; the task waits meanwhile, nothing else does.
        if self._connection is not None and not (self._leads_to_task and self._connection.known):
            self._table.wait_for(self._connection, WaitsFor.READER)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._connection is not None:
            known = self._connection.known
            self._table.wait_for(self._connection, WaitsFor.NOTHING if known else WaitsFor.HEAD)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.handshake_initiated and not self.handshake_complete:
            self.scope[KNOWN] = self._know  # type: ignore[literal-required]
            self._leads_to_task = self.scope["path"].startswith(PROXY)
            if self._leads_to_task:
                self.conn.max_message_size = MAX_TO_TASK_BYTES
                # While client or task take nothing, pongs come late or not at all. Pings still keep open what lies
                # between; TCP notices a peer that is gone.
                self.ping_timeout = None

    def _know(self) -> None:
        if self._connection is not None:
            self._table.know(self._connection)
            self._table.wait_for(self._connection, WaitsFor.NOTHING)


def most_connections() -> int:
    """What the open files of this process allow."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(files - RESERVED_FILES, files // 2)
