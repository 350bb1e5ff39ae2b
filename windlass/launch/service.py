"""What tasks that serve users share: their folder, a port that is free on the node, and when they are ready."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.core._info import ClusterInfo, run_dir, write_info
from windlass.core._session import TaskSession
from windlass.launch.accelerators import find_accelerators, report_accelerators
from windlass.launch.context_files import install_model_definition
from windlass.launch.task_folder import enter_task

MAX_PORTS = 50
"""Tried before a node counts as one without a free port."""
LISTEN_ADDRESS = "WINDLASS_LISTEN_ADDRESS"
LOOPBACK = "127.0.0.1"


def listen_address() -> str:
    """The agent reaches services by the loopback; in a container with a network of its own it says otherwise."""
    return os.environ.get(LISTEN_ADDRESS, LOOPBACK)


def prepare(info: ClusterInfo, session: TaskSession) -> None:
    """Everything that comes before the startup hooks. Leaves us in the working directory."""
    work_dir = enter_task(info)
    install_model_definition(session, info.task_id, (work_dir,))
    accelerators = find_accelerators(info.slot_ids, os.environ)
    write_info(run_dir() / "info", "resources.json", accelerators.to_json())
    report_accelerators(session, info, accelerators, os.environ.get("DET_CONTAINER_ID", ""))


def require_module(python: str, module: str, called: str) -> None:
    """Raises InvalidArgument with the ways to have it."""
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    try:
        found = subprocess.run([python, "-c", probe], check=False).returncode == 0
    except FileNotFoundError:
        raise InvalidArgument(f"{python} is not on PATH") from None
    if not found:
        raise InvalidArgument(
            f"{called} is not installed for {python}: use an image that has it, name a Python that has it in "
            f"environment.python, or install it in a startup hook (pip install {module})"
        )


def end_told(ends_at: str) -> str:
    """`ends_at`: as the API writes times."""
    when = datetime.fromisoformat(ends_at).astimezone(UTC)
    return (
        f"This task ends at {when:%Y-%m-%d %H:%M} UTC, with the time of its node. Then only what lies in mounted "
        "folders (bind_mounts) is kept: save files there"
    )


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


def until_ready(
    pattern: str,
    session: TaskSession,
    info: ClusterInfo,
    *,
    on_end_known: Callable[[str], object] = lambda _: None,
    **told: str,
) -> Callable[[IO[bytes]], threading.Thread]:
    """Copies what a service prints to our stderr; the master is told at the first line that matches.

    `told`: what it is told beside that. `on_end_known`: is given a sentence for its users, if its machine has an end.
    """
    line_of_ready = re.compile(pattern)

    def tell() -> None:
        try:
            path = f"/api/v1/allocations/{info.allocation_id}/ready"
            ends_at = session.request("POST", path, query=told).get("endsAt")
            if ends_at:
                said = end_told(str(ends_at))
                print(f"windlass launch: {said}", flush=True)
                on_end_known(said)
        except WindlassError as problem:
            print(
                f"windlass launch: cannot tell the master that it is ready: {problem}", flush=True
            )

    def copy(output: IO[bytes]) -> None:
        waiting = True
        for line in output:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            if waiting and line_of_ready.search(line.decode(errors="replace")):
                waiting = False
                threading.Thread(target=tell, name="ready", daemon=True).start()

    def watch(output: IO[bytes]) -> threading.Thread:
        thread = threading.Thread(target=copy, args=[output], name="output", daemon=True)
        thread.start()
        return thread

    return watch
