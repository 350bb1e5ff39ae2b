"""The port of a service on its node: where it listens, and that nobody else has it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.base.errors import InvalidArgument
from windlass.core._info import ClusterInfo
from windlass.core._session import TaskSession

MAX_PORTS = 50
"""Tried before a node counts as one without a free port."""
LISTEN_ADDRESS = "WINDLASS_LISTEN_ADDRESS"
LOOPBACK = "127.0.0.1"


def listen_address() -> str:
    """The agent reaches services by the loopback; in a container with a network of its own it says otherwise."""
    return os.environ.get(LISTEN_ADDRESS, LOOPBACK)


@contextmanager
def own_port(variable: str, session: TaskSession, info: ClusterInfo) -> Iterator[int]:
    """The one that the master chose, or another if somebody else on the node has it. Raises InvalidArgument.

    No other task of this machine takes it before our service listens there: that may take seconds.
    """
    port = int(os.environ[variable])
    path = f"/api/v1/allocations/{info.allocation_id}/another_port"
    for _ in range(MAX_PORTS):
        held = hold(port)
        if held is not None:
            os.environ[variable] = str(port)
            with held:
                yield port
            return
        print(f"windlass launch: port {port} is in use on this node: trying another", flush=True)
        port = int(session.post(path, {"variable": variable, "taken": port})["port"])
    raise InvalidArgument(f"{variable}: {MAX_PORTS} ports of this node are in use, up to {port}")


def hold(port: int) -> socket.socket | None:
    """A socket with which nobody else gets the port, but a service that sets SO_REUSEADDR does. None: it is in use."""
    held = socket.socket()
    try:
        held.bind((listen_address(), port))
    except OSError as problem:
        held.close()
        if problem.errno == errno.EADDRINUSE:
            return None
        raise
    # Only now: else it would be shared with another that is held.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held
