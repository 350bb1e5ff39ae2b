"""What a task sees of its machine: a list of mounts, from what the machine has and what the task was given.

The system is there to be read, the task's own tree to be written, and what its configuration mounts. Nothing else of
the machine exists for it: no home folders, no other tasks, no folders of Windlass.
"""

from __future__ import annotations

import os
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import agent_bootstrap
from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import RUN_DIR, TMP_DIR
from agent_bootstrap.agent.runtimes.accounts import supplementary_groups
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.mount_list import Mount, is_in
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.protocol import Bind, ExitFailure

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix")
"""Programs and their configuration, where a machine has them. /gnu, /apps and the like: `bind_mounts`."""
EMPTY = ("/home", "/root", "/mnt", "/media", "/srv", "/var/log", "/run/sshd", "/run/lock")
"""What programs expect to be there. /run/sshd: where sshd looks for an empty folder."""
LINKS = (("/tmp", "/var/tmp"), ("/run", "/var/run"))  # noqa: S108
SECRET = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/sudoers.d", "/etc/ssl/private", "/etc/windlass", "/sys/firmware", "/sys/kernel/debug"),
)
"""Not even a task that runs as root reads these. Host keys of sshd are found by pattern."""
KERNEL_FILES = tuple(
    f"/proc/{name}"
    for name in ("kcore", "keys", "timer_list", "latency_stats", "sched_debug", "acpi", "scsi")
)
"""A proc of one's own shows these of the whole machine."""
RESOLVED_ELSEWHERE = ("/etc/resolv.conf", "/etc/hosts", "/etc/localtime", "/etc/nsswitch.conf")
"""Often links to where the system is not: /run/systemd/resolve."""
MAX_REPEATED_ENTRIES = 2000
"""A mount point in a folder of the machine is made by repeating that folder; larger ones are refused."""
MAX_LINKS = 40
HOMES = ("/home", "/root")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMounts:
    """What one task adds to what every task sees."""

    binds: Sequence[Bind] = ()
    """By its configuration, with its user's rights. Sources are without links, as those of the cluster."""
    cluster_binds: Sequence[Bind] = ()
    """By the cluster's own configuration, with the agent's rights. Sources are without links: tasks may write there."""
    own_binds: Sequence[Bind] = ()
    """Files that the agent wrote for it."""
    devices: Sequence[str] = ()
    forbidden: Sequence[str] = ()
    """Folders that stay hidden, wherever they would show up."""
    shm_bytes: int = 0
    who: OsUser | None = None
    """Whom it runs as. None: the agent's own user."""


def task_mounts(place: ContainerDir, wishes: TaskMounts) -> list[Mount]:
    """The whole root. Raises StartRefused for mounts that cannot be made."""
    made = [
        *_system(),
        _private(str(place.tmp), TMP_DIR),
        _private(str(place.rundet), RUN_DIR),
        *_interpreter(),
        Mount(kind="proc", target="/proc"),
        *_hidden_kernel_files(),
        Mount(kind="dev", target="/dev", size=wishes.shm_bytes),
        *(Mount(kind="device", target=path) for path in wishes.devices),
    ]
    extra = [
        *(
            _private(bind.source, bind.target, read_only=bind.read_only, exact=True)
            for bind in wishes.cluster_binds
        ),
        *(
            _private(bind.source, bind.target, read_only=bind.read_only)
            for bind in wishes.own_binds
        ),
        *map(_by_user, wishes.binds),
    ]
    extra = [_behind_links(mount, made) for mount in extra]
    # What lies inside of another must come later.
    extra.sort(key=lambda mount: mount.target.count("/"))
    mount_points = _MountPoints(made)
    for mount in extra:
        made += mount_points.missing(mount.target)
    made += extra
    made += list(hidden_mounts(made, [*wishes.forbidden, *_secrets()], wishes.who))
    return [*made, *(Mount(kind="seal", target=path) for path in ("/dev", *mount_points.repeated))]


def _private(source: str, target: str, *, read_only: bool = False, exact: bool = False) -> Mount:
    return Mount(
        kind="bind", source=source, target=target, read_only=read_only, private=True, exact=exact
    )


def _by_user(bind: Bind) -> Mount:
    return Mount(
        kind="bind",
        source=bind.source,
        target=bind.target,
        read_only=bind.read_only,
        by_user=True,
        exact=True,
    )


def _behind_links(mount: Mount, made: Iterable[Mount]) -> Mount:
    """With a target that leads through none of our links: bubblewrap makes no mount points behind them."""
    for link in made:
        if link.kind == "link" and mount.target != link.target and is_in(mount.target, link.target):
            to = os.path.normpath(os.path.join(os.path.dirname(link.target), link.source))
            return replace(mount, target=to + mount.target[len(link.target) :])
    return mount


def _system() -> Iterator[Mount]:
    for path in SYSTEM:
        if os.path.islink(path):
            yield Mount(kind="link", target=path, source=os.readlink(path))
        elif os.path.isdir(path):
            yield Mount(kind="bind", source=path, target=path, read_only=True)
    yield Mount(kind="bind", source="/sys", target="/sys", read_only=True)
    for path in EMPTY:
        yield Mount(kind="directory", target=path)
    for source, target in LINKS:
        yield Mount(kind="link", target=target, source=source)
    for path in RESOLVED_ELSEWHERE:
        real = os.path.realpath(path)
        if os.path.isfile(real) and not is_system(real):
            yield Mount(kind="bind", source=real, target=real, read_only=True, private=True)


def _interpreter() -> Iterator[Mount]:
    """The interpreter and our own code, where they are not of the system. Links on the way are repeated."""
    ours = Path(agent_bootstrap.__file__).resolve().parent.parent
    # Of a checkout nothing else is seen.
    wanted = {str(ours / "agent_bootstrap"), str(ours / "windlass")}
    for prefix in (sys.prefix, sys.base_prefix):
        wanted |= {prefix} if not is_shared(prefix) else set(sysconfig.get_paths().values())
    if site.ENABLE_USER_SITE:
        wanted.add(site.getusersitepackages())
    wanted.add(os.path.realpath(sys.executable))
    shown = topmost(path for path in wanted if os.path.exists(path) and not is_system(path))
    for path in shown:
        yield _private(path, path, read_only=True)
    for link, says in _links_to(sys.executable):
        if not is_system(link) and not any(is_in(link, path) for path in shown):
            yield Mount(kind="link", target=link, source=says)


def is_shared(folder: str) -> bool:
    """Whether the folder holds more than a Python installation: the root of the machine, or somebody's home."""
    return folder in ("/", *HOMES, os.path.expanduser("~")) or os.path.dirname(folder) == HOMES[0]


def _links_to(path: str) -> Iterator[tuple[str, str]]:
    """The links that are followed from `path` on: (link, what it says)."""
    for _ in range(MAX_LINKS):
        if not os.path.islink(path):
            return
        says = os.readlink(path)
        yield path, says
        path = os.path.normpath(os.path.join(os.path.dirname(path), says))


def topmost(paths: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for path in sorted(paths):
        if not any(is_in(path, parent) for parent in kept):
            kept.append(path)
    return kept


def is_system(path: str) -> bool:
    return any(is_in(path, folder) for folder in SYSTEM)


class _MountPoints:
    """Makes mount points where the machine has none, without making them on the machine."""

    def __init__(self, base: Sequence[Mount]) -> None:
        self._read_only = [m.target for m in base if m.kind == "bind" and m.read_only]
        self._ours: list[str] = []
        """Mount points so far: what is asked for below one is made in what is mounted there."""
        self.repeated: list[str] = []
        """Folders of the machine that became copies of ours."""

    def missing(self, target: str) -> Iterator[Mount]:
        """The nearest existing folder above `target` becomes one of ours, with the same in it. Raises StartRefused."""
        is_ours = any(is_in(target, path) for path in self._ours)
        self._ours.append(target)
        if is_ours or os.path.lexists(target):
            return
        if not any(is_in(target, path) for path in self._read_only):
            return
        nearest = os.path.dirname(target)
        while not os.path.isdir(nearest):
            nearest = os.path.dirname(nearest)
        if nearest in self.repeated:
            return
        names = os.listdir(nearest)
        if len(names) > MAX_REPEATED_ENTRIES:
            raise StartRefused(
                ExitFailure.TASK_ERROR,
                f"cannot mount at {target}: it does not exist on this machine, and {nearest} is too large to be "
                f"extended ({len(names)} entries); create {target} on the machine",
            )
        self.repeated.append(nearest)
        yield Mount(kind="tmpfs", target=nearest, size=1 << 20)
        yield from _repeat(nearest, names)


def _repeat(folder: str, names: Iterable[str]) -> Iterator[Mount]:
    for name in sorted(names):
        path = os.path.join(folder, name)
        if os.path.islink(path):
            yield Mount(kind="link", target=path, source=os.readlink(path))
        elif os.access(path, os.R_OK):
            yield Mount(kind="bind", source=path, target=path, read_only=True)


def _hidden_kernel_files() -> Iterator[Mount]:
    for path in KERNEL_FILES:
        if os.path.exists(path):
            what = "folder" if os.path.isdir(path) else "file"
            yield Mount(kind="hide", target=path, source=what)


def _secrets() -> Iterator[str]:
    yield from SECRET
    yield from (str(path) for path in Path("/etc/ssh").glob("ssh_host_*_key"))


def hidden_mounts(
    mounts: Sequence[Mount], forbidden: Iterable[str], who: OsUser | None = None
) -> Iterator[Mount]:
    """Whatever of the forbidden a mount would show, in the place where it would.

    What lies in a hidden folder needs no place of its own, and could get none: nothing is made in there. `who` makes
    the places: behind a folder that this user cannot pass there can be none, so that this folder is hidden.
    """
    real = {os.path.realpath(path) for path in forbidden if os.path.lexists(path)}
    for mount in mounts:
        source = os.path.realpath(mount.source) if mount.kind == "bind" else ""
        inside = {path for path in real if source and path != source and is_in(path, source)}
        for path in topmost({_reachable(path, source, who) for path in inside}):
            what = "folder" if os.path.isdir(path) else "file"
            shown = mount.target.rstrip("/") + path[len(source.rstrip("/")) :]
            yield Mount(kind="hide", target=shown, source=what)


def _reachable(path: str, source: str, who: OsUser | None) -> str:
    """`path`, or the first folder on the way to it from `source` that `who` cannot pass."""
    if who is None:
        return path
    way = [parent for parent in PurePosixPath(path).parents if str(parent) != source]
    below = [str(parent) for parent in reversed(way) if is_in(str(parent), source)]
    return next((folder for folder in below if not _can_pass(folder, who)), path)


def _can_pass(folder: str, who: OsUser) -> bool:
    """By its mode alone: a task has no rights of root."""
    status = os.stat(folder)
    if status.st_uid == who.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid in (who.gid, *supplementary_groups(who)):
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)
