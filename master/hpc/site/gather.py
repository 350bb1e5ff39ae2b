"""Finds out what a cluster has: by its commands, and by trying what we would do. Changes nothing."""

from __future__ import annotations

import asyncio
import grp
import os
import platform
import pwd
import re
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_bootstrap.agent.batch.node_probe import RUNTIMES, contained_by
from master.hpc.site.access import ASSOCIATIONS, accounts_of, closed_partitions, closed_queues
from master.hpc.site.facts import Association, Facts, Folder
from master.hpc.site.file_systems import look_at
from master.hpc.site.limits import OF_QOS, limits_of_qos
from provisioner.batch.base import BatchSystem, NoAnswer, SiteFacts
from provisioner.batch.commands import PLACES, Commands, LocalCommands
from provisioner.batch.pbs.system import PbsSystem
from provisioner.batch.pbs.text import NODES, QUEUES, Record, documents
from provisioner.batch.slurm.system import SlurmSystem
from provisioner.batch.slurm.text import records

SYSTEMS = {"slurm": "sbatch", "pbs": "qsub"}
"""By the command that submits. Slurm may have a qsub beside its own: it comes first."""
FOLDER_NAME = "windlass"
SHARED_VARIABLES = ("WORK", "PROJECT", "SCRATCH")
LINGER = Path("/var/lib/systemd/linger")
LOGIND = (Path("/etc/systemd/logind.conf"), *Path("/etc/systemd/logind.conf.d").glob("*.conf"))
_KILLS = re.compile(
    r"^\s*KillUserProcesses\s*=\s*(yes|true|1|on)\s*$", re.MULTILINE | re.IGNORECASE
)
_NODES_TRIED = 3
_DISCARD_PORT = 9
"""Nothing is sent to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPlaces:
    """What the user says of places; None: find out."""

    shared: Path | None = None
    data: Path | None = None
    address: str | None = None
    path: str = ""
    """Folders where the commands of the batch system are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SiteFacts:
    site: SiteFacts = SiteFacts()  # noqa: RUF009 - frozen
    problem: str = ""
    closed: Mapping[str, str]
    accounts: tuple[Association, ...] = ()
    qos_limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    """Addresses or names of nodes."""
    hosts: frozenset[str] = frozenset()
    """The machines that they are."""


def system_of(path: str) -> str:
    """slurm or pbs, whichever comes first on PATH; empty: neither is there."""
    places = ":".join(filter(None, (path, os.environ.get("PATH", ""), PLACES))).split(":")
    for place in places:
        for name, command in SYSTEMS.items():
            if shutil.which(command, path=place):
                return name
    return ""


def batch_system(name: str, commands: Commands) -> BatchSystem:
    return SlurmSystem(commands) if name == "slurm" else PbsSystem(commands)


async def gather(where: GivenPlaces) -> Facts:
    user = pwd.getpwuid(os.geteuid()).pw_name
    name = system_of(where.path)
    commands = LocalCommands(path=where.path)
    groups = [grp.getgrgid(gid).gr_name for gid in os.getgroups() if _is_named(gid)]
    found = _SiteFacts(closed={})
    if name:
        ask = _slurm if name == "slurm" else _pbs
        try:
            found = await ask(commands, user, groups)
        except NoAnswer as error:
            found = _SiteFacts(closed={}, problem=error.message)
    address, problem = _address(where.address, found.nodes)
    here = await asyncio.to_thread(_here, where)
    return replace(
        here,
        user=user,
        host=socket.gethostname(),
        system=name,
        system_problem=found.problem,
        site=found.site,
        closed_to_us=found.closed,
        accounts=found.accounts,
        qos_limits=found.qos_limits,
        is_only_machine=bool(found.hosts) and found.hosts <= _own_names(),
        address=address,
        address_problem=problem,
    )


def _here(where: GivenPlaces) -> Facts:
    """What needs no batch system. Blocks."""
    isolation, problem = _isolation()
    return Facts(
        user="",
        host="",
        shared=tuple(_shared(where.shared)),
        local=tuple(_local(where.data)),
        python=sys.executable,
        python_folder=look_at(Path(sys.prefix), "the environment of Windlass"),
        runtimes={name: at for name in RUNTIMES if (at := shutil.which(name)) is not None},
        isolation=isolation,
        isolation_problem=problem,
        kernel=platform.release(),
        ends_processes=_ends_processes(),
        own_job=os.environ.get("SLURM_JOB_ID") or os.environ.get("PBS_JOBID") or "",
    )


async def _slurm(commands: Commands, user: str, groups: Collection[str]) -> _SiteFacts:
    site = await SlurmSystem(commands).site()
    partitions = await _said(commands, "scontrol", "show", "partition", "-o")
    nodes = list(records(await _said(commands, "scontrol", "show", "node", "-o")))
    fields = ",".join(ASSOCIATIONS)
    show = ("sacctmgr", "-n", "-P", "show")
    default = await _said(commands, *show, "user", user, "format=defaultaccount")
    associations = await _said(commands, *show, "assoc", f"user={user}", f"format={fields}")
    accounts = accounts_of(associations, default)
    qos = await _said(commands, *show, "qos", f"format={','.join(OF_QOS)}")
    up = [node for node in nodes if "DOWN" not in node.get("State", "")] or nodes
    return _SiteFacts(
        site=site,
        closed=closed_partitions(
            partitions, groups=groups, accounts=accounts, is_root=os.geteuid() == 0
        ),
        accounts=accounts,
        qos_limits=limits_of_qos(qos),
        nodes=tuple(filter(None, (node.get("NodeAddr") for node in up))),
        hosts=frozenset(filter(None, (node.get("NodeHostName") for node in nodes))),
    )


async def _pbs(commands: Commands, user: str, groups: Collection[str]) -> _SiteFacts:
    site = await PbsSystem(commands).site()
    queues = await _documents(commands, QUEUES, "qstat", "-Q", "-f", "-F", "json")
    vnodes = await _documents(commands, NODES, "pbsnodes", "-av", "-F", "json")
    hosts = dict.fromkeys(filter(None, (one.get("Mom") for one in vnodes.values())))
    return _SiteFacts(
        site=site,
        closed=closed_queues(queues, user=user, groups=groups),
        nodes=tuple(hosts),
        hosts=frozenset(hosts),
    )


async def _said(commands: Commands, *words: str) -> str:
    """Empty where it cannot be asked: a site may have no accounting, or hide things."""
    try:
        done = await commands.run(words)
    except NoAnswer:
        return ""
    return done.out if done.code == 0 else ""


async def _documents(commands: Commands, kind: str, *words: str) -> Mapping[str, Record]:
    return documents(await _said(commands, *words), kind) or {}


def _shared(given: Path | None) -> list[Folder]:
    if given is not None:
        return [look_at(given.absolute(), "--dir")]
    folders = [look_at(Path.home() / FOLDER_NAME, "$HOME")]
    for name in SHARED_VARIABLES:
        if path := os.environ.get(name):
            folders.append(look_at(Path(path) / FOLDER_NAME, f"${name}"))
    return folders


def _local(given: Path | None) -> list[Folder]:
    if given is not None:
        return [look_at(given.absolute(), "--data-dir")]
    mine = f"{FOLDER_NAME}-{os.geteuid()}"
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    places = ((home / "windlass/hpc", "$HOME"), (Path("/var/tmp") / mine, "/var/tmp"))  # noqa: S108
    last = Path(tempfile.gettempdir()) / mine
    return [look_at(path, origin) for path, origin in (*places, (last, str(last.parent)))]


def _address(given: str | None, nodes: Sequence[str]) -> tuple[str, str]:
    if given is not None:
        return given, _why_not_ours(given)
    try:
        return address_towards(nodes[:_NODES_TRIED]), ""
    except OSError as error:
        return "", f"{socket.gethostname()}: {error.strerror}"


def _why_not_ours(host: str) -> str:
    """Nothing listens there afterwards."""
    try:
        family, _, _, _, at = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(at)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def address_towards(machines: Sequence[str]) -> str:
    """Of the interface from which packets to them leave; nothing is sent. Else of our own name. Raises OSError."""
    for node in machines:
        try:
            family, _, _, _, at = socket.getaddrinfo(node, _DISCARD_PORT, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(at)
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return socket.gethostbyname(socket.gethostname())


def _isolation() -> tuple[str, str]:
    """By doing what an agent does."""
    with tempfile.TemporaryDirectory(prefix="windlass-hpc-") as folder:
        return contained_by(Path(folder))


def _ends_processes() -> str:
    limit = resource.getrlimit(resource.RLIMIT_CPU)[0]
    if limit != resource.RLIM_INFINITY:
        return f"a process may use {limit / 60:g} minutes of CPU on this machine (ulimit -t)"
    user = pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0 or (LINGER / user).exists():
        return ""
    for file in LOGIND:
        try:
            if _KILLS.search(file.read_text()):
                return f"processes end when you log out (KillUserProcesses in {file})"
        except OSError:
            continue
    return ""


def _own_names() -> frozenset[str]:
    name = socket.gethostname()
    return frozenset({name, name.split(".")[0], socket.getfqdn(), "localhost"})


def _is_named(gid: int) -> bool:
    try:
        grp.getgrgid(gid)
    except KeyError:
        return False
    return True
