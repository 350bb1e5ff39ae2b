"""bubblewrap's command line for a list of mounts. Pure. What each option does is in bwrap(1)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from agent_bootstrap.agent.runtimes.mount_list import Mount
from agent_bootstrap.supervisor.protocol import FILTER_FD

STAGE = "/run/windlass/stage"
"""An empty folder of the machine over which a root agent's launcher lays, for itself alone, what the task's user could
not reach. Every user can pass it."""


def command(program: str, mounts: Sequence[Mount], *, staged: bool) -> list[str]:
    """The command up to what it shall run. `staged`: private sources are at `STAGE`, numbered."""
    words = [
        program,
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-cgroup-try"),
        *("--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"),
        *("--seccomp", str(FILTER_FD)),
    ]
    number = 0
    for mount in mounts:
        source = mount.source
        if staged and mount.private:
            source = posixpath.join(STAGE, str(number))
            number += 1
        words += _words(mount, source)
    return [*words, "--remount-ro", "/", "--"]


def _words(mount: Mount, source: str) -> Iterator[str]:
    target = mount.target
    match mount.kind:
        case "bind":
            yield from ("--ro-bind" if mount.read_only else "--bind", source, target)
        case "device":
            yield from ("--dev-bind", target, target)
        case "directory":
            yield from ("--perms", f"{mount.mode:04o}", "--dir", target)
        case "link":
            yield from ("--symlink", source, target)
        case "tmpfs":
            yield from _tmpfs(mount)
        case "seal":
            yield from ("--remount-ro", target)
        case "hide":
            yield from _hidden(mount)
        case "proc":
            yield from ("--proc", target)
        case "dev":
            yield from ("--dev", target)
            yield from _tmpfs(
                Mount(kind="tmpfs", target="/dev/shm", mode=0o1777, size=mount.size)  # noqa: S108
            )


def _tmpfs(mount: Mount) -> Iterator[str]:
    if mount.size:
        yield from ("--size", str(mount.size))
    yield from ("--perms", f"{mount.mode:04o}", "--tmpfs", mount.target)


def _hidden(mount: Mount) -> Iterator[str]:
    """`source` says what it is: a folder, or something else."""
    if mount.source == "folder":
        yield from ("--perms", "0555", "--tmpfs", mount.target, "--remount-ro", mount.target)
    else:
        yield from ("--ro-bind", "/dev/null", mount.target)
