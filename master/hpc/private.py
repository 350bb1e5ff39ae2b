"""The private master of one user, on this machine: its keeper is that of `det deploy local`."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from master.config import MasterConfig, load
from master.hpc.master_yaml import master_yaml
from master.hpc.place import MasterFolder, MasterRecord
from master.hpc.plan import SitePlan
from windlass.base.errors import Conflict, InvalidArgument, WindlassError
from windlass.base.files import write_atomic
from windlass.deploy.local.certificate import certificate_of, session_at
from windlass.deploy.local.cluster import LocalCluster, Started, StartOptions
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.options import Options
from windlass.deploy.local.services import MASTER, LocalService
from windlass.sdk.client import Client
from windlass.sdk.credentials import open_session

PORTS_TRIED = 20
PROBE_TIMEOUT_S = 3.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """How it went."""

    running: MasterRecord
    fingerprint: str
    wrote_yaml: bool
    was_running: bool = False
    first_password: Path | None = None
    """Of admin and determined, at the very first start."""


def command(*words: str) -> str:
    """As it is to be typed on another login node, where PATH may not have it."""
    return " ".join([str(Path(sys.executable).with_name("windlass")), "hpc", *words])


def require_here(known: MasterRecord, host: str, where: str) -> None:
    """Raises Conflict where the master of this folder is on another machine."""
    if known.job or known.host == host:  # a job is ended and submitted from anywhere
        return
    if known.is_up:
        raise Conflict(
            f"your master runs on {known.host}, at {known.url}, and this is {host}: "
            f"ssh {known.host} {command('status')}{where}"
        )
    raise Conflict(
        f"the data of your master is on a disk of {known.host} ({known.folder}), and this is {host}: "
        f"ssh {known.host} {command('up')}{where}, or begin anew here with another --dir"
    )


def write_config(place: MasterFolder, plan: SitePlan, *, overwrite: bool) -> bool:
    """Unless it is there: whether it was written. What is overwritten is kept beside it."""
    if place.master_yaml.exists():
        if not overwrite:
            return False
        shutil.copy2(place.master_yaml, place.master_yaml.with_suffix(".yaml.old"))
    port = _free_port(plan.address, plan.port)
    text = master_yaml(plan, port)
    write_atomic(place.master_yaml, text.encode())
    return True


def start(
    place: MasterFolder, folder: ClusterFolder, *, restart: bool, say: Say, host: str | None = None
) -> tuple[Started, bool]:
    """The master, and whether this was its first start. `host`: instead of that in master.yaml.

    Raises InvalidConfig, Conflict, StartFailed.
    """
    config = load(place.master_yaml, overrides={} if host is None else {"host": host})
    cluster = LocalCluster(folder, say)
    first = not folder.has_master
    if not cluster.services.of(MASTER).is_alive:
        require_free(config, place)
    options = Options(host=config.host, port=config.port, agents=0, master_config=place.master_yaml)
    return cluster.up(options, StartOptions(restart=restart), with_agents=False), first


def require_free(config: MasterConfig, place: MasterFolder) -> None:
    """Raises Conflict, InvalidArgument."""
    if (problem := _bind_problem(config.host, config.port)) is None:
        return
    if problem == errno.EADDRINUSE:
        raise Conflict(
            f"port {config.port} of {config.host} is in use: change port in {place.master_yaml}"
        )
    raise InvalidArgument(
        f"the master cannot listen on {config.host} port {config.port} ({os.strerror(problem)}): "
        f"change host or port in {place.master_yaml}"
    )


def id_of(folder: ClusterFolder, options: Options) -> str:
    with session_at(options.url, None, options, folder) as session:
        return str(Client(session).info()["cluster_id"])


def answers(running: MasterRecord) -> bool:
    """Whether it answers here. Its certificate is known on every machine that sees the user's home."""
    with (
        suppress(WindlassError, OSError),
        open_session(running.url, os.environ, timeout_s=PROBE_TIMEOUT_S) as session,
    ):
        return bool(Client(session).info().get("cluster_id") == running.cluster_id)
    return False


def fingerprint_of_master(folder: ClusterFolder, options: Options) -> str:
    certificate = certificate_of(options, folder)
    return "" if certificate is None else certificate.fingerprint


def service_of(running: MasterRecord) -> LocalService:
    """Its process, on its own machine."""
    return LocalCluster(ClusterFolder(running.folder)).services.of(MASTER)


def _free_port(address: str, first: int) -> int:
    """Others of this machine have their masters, too. Raises Conflict, InvalidArgument."""
    for port in range(first, first + PORTS_TRIED):
        problem = _bind_problem(address, port)
        if problem is None:
            return port
        if problem != errno.EADDRINUSE:
            raise InvalidArgument(
                f"the master cannot listen on {address} ({os.strerror(problem)}): "
                "give the address of the interface that compute nodes reach with --host"
            )
    raise Conflict(f"no port from {first} to {first + PORTS_TRIED - 1} is free on {address}")


def _bind_problem(address: str, port: int) -> int | None:
    """An errno."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except socket.gaierror:
            return errno.EADDRNOTAVAIL
        except OSError as error:
            return error.errno
    return None
