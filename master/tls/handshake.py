"""A connection until its TLS handshake is over: bounded and timed as every other that is not authenticated yet.

asyncio would do the handshake before its server hears of the connection. So the server takes plain connections, and
this protocol starts TLS on them; then the protocol of the HTTP server has the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

from master.server.connections import ConnectionTable, TimedConnection

NEVER_S = 24 * 3600.0
"""The table's deadlines are the ones that count."""
GOODBYE_S = 5.0
"""How long a peer may take to confirm that the connection ends."""

Next = Callable[[asyncio.Transport], asyncio.Protocol]
"""Makes the protocol for what is inside. It is given the transport below, for how much of it is not read yet."""


class TlsHandshake(asyncio.Protocol):
    """Hands the connection on once both sides have agreed."""

    def __init__(self, table: ConnectionTable, context: ssl.SSLContext, then: Next) -> None:
        self._table = table
        self._context = context
        self._then = then
        self._connection: TimedConnection
        self._task: asyncio.Task[None]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.pause_reading()
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        self._connection = self._table.add(transport, address, FlowControl(transport))
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    def connection_lost(self, exc: Exception | None) -> None:
        """Only before TLS has begun."""
        self._table.remove(self._connection)
        self._task.cancel()

    async def _shake_hands(self, plain: asyncio.Transport) -> None:
        early = _Early()
        try:
            secure = await asyncio.get_running_loop().start_tls(
                plain,
                early,
                self._context,
                server_side=True,
                ssl_handshake_timeout=NEVER_S,
                ssl_shutdown_timeout=GOODBYE_S,
            )
        except OSError:
            return  # the peer's problem: asyncio has closed the connection
        finally:
            self._table.remove(self._connection)
        if secure is not None and not early.is_lost:
            early.hand_over(secure, self._then(plain))


class _Early(asyncio.Protocol):
    """Keeps what comes with the end of the handshake, before the next protocol is there."""

    def __init__(self) -> None:
        self.is_lost = False
        self._came: list[bytes] = []
        self._ended = False
        self._next: asyncio.Protocol | None = None

    def data_received(self, data: bytes) -> None:
        self._came.append(data)

    def eof_received(self) -> None:
        self._ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._next is not None:
            self._next.connection_lost(exc)

    def hand_over(self, secure: asyncio.Transport, to: asyncio.Protocol) -> None:
        self._next = to
        secure.set_protocol(to)
        to.connection_made(secure)
        if self._came:
            to.data_received(b"".join(self._came))
        if self._ended:
            to.eof_received()
