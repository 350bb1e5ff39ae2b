"""The listening socket of the HTTP server: bounded in what it takes at once, and calm when open files run out."""

from __future__ import annotations

import errno
import socket
from time import monotonic
from typing import Any

BACKLOG = 2048
"""That wait to be taken: the published client opens a connection per call."""
TAKEN_AT_ONCE = 64
"""In one step of the event loop: those beyond what open files allow are cut before the next ones are taken."""
PAUSE_S = 0.5
"""After files have run out; asyncio comes back after 1 s."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener(socket.socket):
    """For `create_server(sock=listener, backlog=TAKEN_AT_ONCE)`.

    asyncio has one number for both: how many connections may wait, and how often it calls `accept` in one step. And it
    goes on with that when files have run out, though it logs the error each time and means to pause for a second.
    """

    _paused_until = 0.0

    def listen(self, backlog: int = BACKLOG, /) -> None:
        super().listen(max(backlog, BACKLOG))

    def accept(self) -> tuple[socket.socket, Any]:
        if monotonic() < self._paused_until:
            raise BlockingIOError(errno.EAGAIN, "paused: open files have run out")
        try:
            return super().accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._paused_until = monotonic() + PAUSE_S
            raise


def bound(host: str, port: int) -> Listener:
    """The address is ours before the lease is: a second master started by mistake must not end the first one.

    It does not listen yet: until the master is ready, callers are refused and try again.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = Listener(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listener
