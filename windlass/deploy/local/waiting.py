"""Until what was started answers: a master by REST, agents by the master's word. What ended instead is quoted."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from windlass.base.errors import Conflict, InvalidArgument, WindlassError
from windlass.deploy.local.certificate import ANYBODY, session_at
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.options import Options
from windlass.deploy.local.services import MASTER, LocalService, LocalServices, StartFailed
from windlass.sdk.client import Client
from windlass.sdk.credentials import DEFAULT_USER, TokenCache
from windlass.sdk.session import Session
from windlass.sdk.wire import Json, MasterError, MasterUnreachable

PROBE_TIMEOUT_S = 3.0
READY_TIMEOUT_S = 60.0
"""The first start makes tables."""
JOIN_TIMEOUT_S = 60.0
ELSEWHERE_S = 10.0
"""How long `agent-up` waits for a master that it did not start."""
POLL_S = 0.1

LogStarts = Mapping[str, int]
"""Where in its log the output of this start of a process begins."""


def require_free(host: str, port: int, url: str, folder: ClusterFolder) -> None:
    """Whatever answers at our address must be what we are about to start. Raises Conflict, InvalidArgument."""
    where = urlsplit(url).hostname or host
    with socket.socket(socket.AF_INET6 if ":" in where else socket.AF_INET) as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        try:
            if probe.connect_ex((where, port)) != 0:
                return
        except socket.gaierror as error:
            raise InvalidArgument(
                f"--host {where}: this name cannot be resolved here ({error.strerror}): give an address of this "
                "machine, or a name that it knows"
            ) from None
    info = _info_at(f"http://{urlsplit(url).netloc}") or _info_at(f"https://{urlsplit(url).netloc}")
    who = "another program"
    if "cluster_id" in info:
        name = info.get("cluster_name") or info["cluster_id"]
        who = f"another master (cluster {name}, not started from {folder.path})"
    raise Conflict(f"Port {port} is in use by {who}: stop it, or choose another --port")


def _info_at(url: str) -> Json:
    """What a master says of itself there; empty: there is none."""
    with (
        suppress(WindlassError),
        Session(url, trust=ANYBODY, timeout_s=PROBE_TIMEOUT_S) as session,
    ):
        return Client(session).info()
    return {}


def log_sizes(folder: ClusterFolder, names: Collection[str]) -> dict[str, int]:
    return {name: _size(folder.log(name)) for name in names}


def await_master(
    url: str, services: LocalServices, folder: ClusterFolder, starts: LogStarts
) -> None:
    """Raises StartFailed if it ended or does not answer in time."""

    def answers(session: Session) -> bool:
        _require_running(services.of(MASTER), folder, starts)
        try:
            Client(session).info()
        except (MasterUnreachable, MasterError):
            return False
        return True

    with Session(url, trust=ANYBODY) as session:
        if not _within(READY_TIMEOUT_S, lambda: answers(session)):
            raise StartFailed(
                f"The master does not answer after {READY_TIMEOUT_S:.0f} s; see {folder.log(MASTER)}"
            )


def await_elsewhere(url: str) -> None:
    """A master that somebody else keeps. Raises MasterUnreachable."""
    deadline = time.monotonic() + ELSEWHERE_S
    with Session(url, trust=ANYBODY) as session:
        while True:
            try:
                Client(session).info()
            except MasterUnreachable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)
            else:
                return


def await_agents(
    url: str,
    names: Collection[str],
    services: LocalServices,
    folder: ClusterFolder,
    starts: LogStarts,
    *,
    own: Options | None,
) -> Mapping[str, int]:
    """Until they have joined: their slots. Nothing if we are not logged in there. Raises StartFailed.

    `own`: of our own master, if it is that.
    """
    token = TokenCache().token(url, DEFAULT_USER)
    if token is None:
        return {}
    joined: dict[str, int] = {}

    def all_joined(session: Session) -> bool:
        for name in names:
            _require_running(services.of(name), folder, starts)
        for agent in Client(session).agents():
            if agent["id"] in names and agent.get("connected"):
                joined[agent["id"]] = len(agent["slots"])
        return joined.keys() >= set(names)

    with session_at(url, token, own, folder) as session:
        if not _within(JOIN_TIMEOUT_S, lambda: all_joined(session)):
            missing = ", ".join(sorted(set(names) - joined.keys()))
            raise StartFailed(
                f"{missing} has not joined the master after {JOIN_TIMEOUT_S:.0f} s: "
                f"{last_line(folder.log(missing.split(', ')[0]))}"
            )
    return joined


def require_gpus(slots: Mapping[str, int]) -> None:
    """Of agents that were told to have some, by their slots. Raises StartFailed."""
    if without := [name for name, found in slots.items() if not found]:
        raise StartFailed(
            f"--gpu: {', '.join(without)} found no GPU on this machine: see `windlass doctor`, "
            "or use its CPUs with --no-gpu"
        )


def _require_running(service: LocalService, folder: ClusterFolder, starts: LogStarts) -> None:
    if not service.is_alive or service.ended:
        who = "The master" if service.name == MASTER else service.name
        log = folder.log(service.name)
        raise StartFailed(f"{who} ended: {last_line(log, starts.get(service.name, 0))}")


def last_line(log: Path, start: int = 0) -> str:
    """What was said last, and where."""
    try:
        with log.open(errors="replace") as file:
            file.seek(start)
            lines = file.read().strip().splitlines()
    except OSError:
        lines = []
    return f"{_plain(lines[-1])} ({log})" if lines else f"see {log}"


def _plain(line: str) -> str:
    """An event of the log by its words alone."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(line)["event"])
    return line.removeprefix("error: ")


def _within(seconds: float, look: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
