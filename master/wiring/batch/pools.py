"""Pools whose work becomes jobs of a batch system: their sections of master.yaml as dispatching takes them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import select

from agent_bootstrap.agent.batch.scratch import OF_JOBS
from master.auth.join_tokens import JoinTokenSigner
from master.config import ResolvedPool
from master.data_folder import TLS
from master.store import tables
from master.store.store import Store
from master.wiring.batch.keys import jobs_root, keys_of_ways
from provisioner.batch.base import BatchSystem
from provisioner.batch.commands import Commands, LocalCommands, command_environment
from provisioner.batch.dialects import DIALECTS
from provisioner.batch.disks import Disk, LocalDisk
from provisioner.batch.impersonation import SiteUsers, Sudo, UserCommands, UserDisk
from provisioner.batch.job_files import JobFiles, Leased
from provisioner.batch.pbs.system import PbsSystem
from provisioner.batch.pipes import LocalPipes, Pipes
from provisioner.batch.slurm.pyslurm.process import PyslurmProcess
from provisioner.batch.slurm.pyslurm.system import PyslurmSystem
from provisioner.batch.slurm.rest.transports import rest_system, user_system
from provisioner.batch.slurm.system import SlurmSystem
from provisioner.sections.batch import BatchSection, SshSection
from provisioner.sections.slurm_api import SlurmApiSection
from rm_backends.batch.leases import Lease
from rm_backends.batch.shapes import DispatchOptions
from rm_backends.ports import JoinGrant, JoinKind, JoinTokens
from windlass.base.errors import InvalidConfig
from windlass.base.tls.fingerprints import certificates_in, fingerprint_of
from windlass.install.hosts import parse_host

LABEL = "label"


class Names(NamedTuple):
    """Of the experiment of a job."""

    labels: Sequence[str]
    project: str
    workspace: str


class JobProjects:
    """Of the pools of one master."""

    def __init__(self, store: Store, pools: Sequence[ResolvedPool]) -> None:
        self._store = store
        self._sources: Mapping[str, str] = {
            pool.name: pool.batch.job_project_source for pool in pools if pool.batch is not None
        }

    async def of(self, lease: Lease) -> str:
        """Empty: nothing. Tasks that are of no experiment are booked on nothing."""
        source = self._sources.get(lease.pool, "")
        if not source:
            return ""
        allocation, task = tables.Allocation, tables.Task
        experiment, project, workspace = tables.Experiment, tables.Project, tables.Workspace
        found = await self._store.read(
            select(experiment.labels, project.name, workspace.name)
            .join(task, task.experiment_id == experiment.id)
            .join(allocation, allocation.task_id == task.id)
            .join(project, project.id == experiment.project_id)
            .join(workspace, workspace.id == project.workspace_id)
            .where(allocation.id == lease.allocation_id),
            Names,
        )
        return (
            project_of(found[0], source, DIALECTS[lease.shape.system].joins_labels) if found else ""
        )


def project_of(names: Names, source: str, joined: str) -> str:
    """Pure. Letters that one of the two systems would not take become `_`."""
    if source == "project":
        words = [names.project]
    elif source == "workspace":
        words = [names.workspace]
    else:
        prefix = source.removeprefix(LABEL).removeprefix(":")
        words = [one.removeprefix(prefix) for one in names.labels if one.startswith(prefix)]
    return joined.join(
        filter(None, (re.sub(r"[^\w.@=-]", "_", word).lstrip("-") for word in words))
    )


T = TypeVar("T")

ALONE_TTL = "10m"
"""How long an agent of a job stays without work where it cannot reach its master."""


def dispatch_options(pool: ResolvedPool) -> DispatchOptions:
    """Of a pool that has such a section."""
    return DispatchOptions(
        pool=pool.name,
        section=_section(pool),
        default_priority=pool.scheduler.usual_priority,
    )


@dataclass(frozen=True, slots=True)
class SiteAccess:
    """The batch system of a master, and the disk that it shares with its nodes."""

    system: BatchSystem
    disk: Disk
    pipes: Pipes
    close: Callable[[], None] = lambda: None
    """Connections to it; they are made again when they are needed."""
    users: SiteUsers | None = None
    """Whose jobs the master may submit beside its own."""


def site_of(sections: Sequence[BatchSection]) -> SiteAccess:
    """One for all of them. Raises InvalidConfig."""
    path = _the_same("path", (section.path for section in sections))
    libraries = _the_same("ld_library_path", (section.ld_library_path for section in sections))
    kind = _the_same("type", (section.type for section in sections))
    ssh = _the_same("ssh", (section.ssh for section in sections))
    api = _the_same("api", (section.api for section in sections))
    impersonate = _the_same("impersonate", (section.impersonate for section in sections))
    if api is not None and api.is_pyslurm:
        return _with_pyslurm(path, libraries)
    if ssh is not None:
        return _over_ssh(kind, ssh, api, path, libraries)
    commands = LocalCommands(path=path, libraries=libraries)
    system = _system(kind, commands, api)
    users = None
    if impersonate is not None:
        users = _users(system, commands, Sudo(commands.for_others), api)
    pipes = LocalPipes(path=path, libraries=libraries)
    return SiteAccess(system, LocalDisk(), pipes, users=users)


def _with_pyslurm(path: str, libraries: str) -> SiteAccess:
    commands = LocalCommands(path=path, libraries=libraries)
    process = PyslurmProcess(command_environment(path, libraries))
    system = PyslurmSystem(SlurmSystem(commands), commands, process)
    return SiteAccess(system, LocalDisk(), LocalPipes(path=path, libraries=libraries), system.close)


def _users(
    system: BatchSystem, commands: Commands, sudo: Sudo, api: SlurmApiSection | None
) -> SiteUsers:
    @cache
    def of(user: str) -> UserCommands:
        return UserCommands(commands, sudo, user)

    def system_of(user: str) -> BatchSystem:
        if api is not None:
            return user_system(api, user, commands, of(user))
        if isinstance(system, SlurmSystem):
            return SlurmSystem(of(user), of=system)
        return PbsSystem(of(user))

    async def accounts_of(user: str) -> Mapping[str, frozenset[str]] | None:
        if not isinstance(system, SlurmSystem):
            return None
        return await SlurmSystem(of(user), of=system).my_accounts()

    return SiteUsers(system_of, of, lambda user: UserDisk(of(user)), sudo.words, accounts_of)


def _system(kind: str, commands: Commands, api: SlurmApiSection | None) -> BatchSystem:
    if api is not None:
        return rest_system(api, commands)
    return SlurmSystem(commands) if kind == "slurm" else PbsSystem(commands)


def _over_ssh(
    kind: str, ssh: SshSection, api: SlurmApiSection | None, path: str, libraries: str
) -> SiteAccess:
    try:  # paramiko is an extra
        from provisioner.batch.ssh import LoginNode, SftpDisk, SshCommands
        from provisioner.batch.ssh_pipes import SshPipes
        from windlass.install.ssh import Access
    except ModuleNotFoundError as error:
        problem = f"resource_pools: ssh needs {error.name}: pip install 'windlass-cluster[ssh]'"
        raise InvalidConfig([problem], what="master configuration") from None
    access = Access(
        identity=None if ssh.key_file is None else Path(ssh.key_file),
        known_hosts=None if ssh.known_hosts is None else Path(ssh.known_hosts),
        jump=ssh.jump or None,
        identity_option="ssh.key_file",
    )
    login = LoginNode(parse_host(ssh.spec), access)
    commands = SshCommands(login, path=path, libraries=libraries)
    pipes = SshPipes(login, path=path, libraries=libraries)
    return SiteAccess(_system(kind, commands, api), SftpDisk(login), pipes, login.close)


def _the_same(key: str, given: Iterable[T]) -> T:
    values = list(dict.fromkeys(given))
    if len(values) == 1:
        return values[0]
    problem = (
        f"resource_pools: {key} of slurm and pbs must be the same in all pools, "
        f"not {' and '.join(map(str, values))}: a master serves one site"
    )
    raise InvalidConfig([problem], what="master configuration")


def job_files(
    pools: Sequence[ResolvedPool],
    *,
    site: SiteAccess,
    data_dir: Path,
    master_url: str,
    master_cert: Path | None,
) -> Mapping[str, JobFiles]:
    """By pool."""
    found = {
        pool.name: files_of(
            _section(pool),
            disk=site.disk,
            data_dir=data_dir,
            master_url=master_url,
            master_cert=master_cert,
        )
        for pool in pools
    }
    if site.users is None:
        return found
    disk_of = site.users.disk
    return {name: replace(files, disk_of=disk_of) for name, files in found.items()}


def files_of(
    section: BatchSection, *, disk: Disk, data_dir: Path, master_url: str, master_cert: Path | None
) -> JobFiles:
    return JobFiles(
        root=jobs_root(section, data_dir),
        python=section.python or sys.executable,
        path=section.path,
        libraries=section.ld_library_path,
        prologue=section.job_prologue,
        agent=_agent(section, data_dir, master_url, _trust(section, data_dir, master_cert)),
        disk=disk,
    )


def _trust(section: BatchSection, data_dir: Path, master_cert: Path | None) -> dict[str, str]:
    """How agents know their master. Nodes may not see the data folder: it should be on a local disk."""
    if master_cert is None:
        return {}
    if master_cert.is_relative_to((data_dir / TLS).absolute()):
        authority = certificates_in(master_cert.read_bytes())[-1]
        return {"cert_fingerprint": fingerprint_of(authority)}
    # Over SSH nodes do not see this machine's files: they trust what their Python trusts.
    return {} if section.ssh else {"master_cert": str(master_cert)}


def _agent(
    section: BatchSection, data_dir: Path, master_url: str, trust: dict[str, str]
) -> dict[str, Any]:
    url = section.master_url or master_url
    given = {
        "visible_gpus": section.visible_gpus,
        "network_interface": section.rendezvous_network_interface,
        "container_runtime": section.container_runtime,
        "image_root": section.image_root,
    }
    return {
        "master_url": url,
        **keys_of_ways(section, url),
        "security": {"tls": trust},
        "prologue": list(section.prologue),
        "scratch_dir": [section.scratch] if section.scratch else list(OF_JOBS),
        **_shared_images(section, data_dir),
        "alone_ttl": ALONE_TTL,
        **{key: value for key, value in given.items() if value},
    }


def _shared_images(section: BatchSection, data_dir: Path) -> dict[str, str]:
    """Not between users: whoever makes an image there decides what the others run."""
    if section.impersonate is not None:
        return {}
    return {"image_cache_dir": str(jobs_root(section, data_dir) / "images")}


def job_token(signer: JoinTokenSigner, lease: Leased) -> str:
    """What the agents of one job join with: each once, as itself, for as long as the job is wanted."""
    grant = JoinGrant(
        kind=JoinKind.JOB,
        pool=lease.pool,
        id=lease.tag,
        names=frozenset(lease.agents),
        agents=len(lease.agents),
    )
    return signer.made_for(grant)


@dataclass(frozen=True, slots=True)
class TokensOfJobs:
    """Implements `rm_backends.ports.JoinTokens`: those of jobs that are not wanted any more count as revoked."""

    others: JoinTokens
    is_live: Callable[[str], bool]
    """By the name of a job."""

    def find(self, pools: Collection[str], token: str) -> JoinGrant | None:
        grant = self.others.find(pools, token)
        if grant is None or grant.kind is not JoinKind.JOB or self.is_live(grant.id):
            return grant
        return replace(grant, revoked=datetime.now(UTC))


def _section(pool: ResolvedPool) -> BatchSection:
    if pool.batch is None:
        raise ValueError(f"pool '{pool.name}' has no batch system")
    return pool.batch
