"""The mounts of one task, checked again where they are made: the master could not see this machine."""

from __future__ import annotations

import posixpath
import subprocess
from collections.abc import Sequence
from pathlib import Path

from agent_bootstrap.agent.identity import shown
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.mount_list import is_in
from agent_bootstrap.bind_rules import HostPaths, problem_of, resolved
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.protocol import Bind, ContainerSpec, ExitFailure
from agent_bootstrap.supervisor.kernel import opened

RESERVED = ("/.host", "/oldroot", "/newroot", "/proc")
"""The machine's root while a task's is built, and the kernel's own."""
_UNREACHABLE = 'for path; do test -e "$path" || { printf %s "$path"; exit 1; }; done'


def checked_mounts(
    spec: ContainerSpec, own: HostPaths, *, agent: OsUser, task: OsUser
) -> tuple[Bind, ...]:
    """With every source as it is without links: what was checked is what must be mounted.

    `own`: the agent's rules. Where the agent is root a task gets nothing that its user could not reach by itself,
    but for what the cluster mounts. Raises StartRefused. Blocks.
    """
    master = spec.options.host_paths
    rules = master.model_copy(update={"forbidden": (*master.forbidden, *own.forbidden)})
    checked = []
    for bind in spec.binds:
        # Looked up once: what is checked is what is mounted.
        found = bind.model_copy(
            update={"source": resolved(bind.source), "target": normal(bind.target)}
        )
        _check(bind, found, rules, own, as_root=task.uid == 0)
        checked.append(found)
    if task.uid != agent.uid:
        cluster = {resolved(path) for path in rules.cluster}
        _require_reachable(task, [bind for bind in checked if bind.source not in cluster])
    return tuple(checked)


def normal(target: str) -> str:
    """A path in the task, without `..` and doubled slashes."""
    return "/" + posixpath.normpath(target).lstrip("/")


def check_targets(binds: Sequence[Bind], own: Sequence[str]) -> None:
    """No mount may lie in what another one shows: a link in there would lead it anywhere. Raises StartRefused.

    `own`: where the agent mounts files of its own.
    """
    for bind in binds:
        if any(is_in(bind.target, path) for path in RESERVED):
            raise user_error(
                f"bind mount of {bind.source}: {bind.target} is not a usable container path"
            )
        inside = [other.target for other in binds if other.target != bind.target]
        for target in (*inside, *own):
            if is_in(target, bind.target):
                raise user_error(
                    f"bind mount of {bind.source}: container_path {bind.target} holds {target}, where something else "
                    "is mounted: mount them beside each other"
                )


def identities(binds: Sequence[Bind]) -> list[tuple[str, int, int]]:
    """Target, device and inode of each, by which the start finds whether it is still what was checked.

    Raises StartRefused for one that has become a link.
    """
    found = []
    for bind in binds:
        try:
            with opened(bind.source, exact=True) as held:
                status = Path(held).stat()
        except OSError as error:
            raise user_error(f"bind mount {bind.source}: {error.strerror}") from error
        found.append((bind.target, status.st_dev, status.st_ino))
    return found


def run_as(
    who: OsUser, command: Sequence[str], *, cwd: str = "/", path: str = "/usr/bin:/bin"
) -> subprocess.CompletedProcess[str]:
    """Only for an agent that is root."""
    return subprocess.run(
        command,
        cwd=cwd,
        user=who.uid,
        group=who.gid,
        extra_groups=[],
        env={"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _check(bind: Bind, found: Bind, rules: HostPaths, own: HostPaths, *, as_root: bool) -> None:
    """`found`: with its source as it is without links."""
    if not bind.target.startswith("/") or not found.target.strip("/"):
        raise user_error(
            f"bind mount of {bind.source}: {bind.target} is not a usable container path"
        )
    sides = (rules,) if own.allowed is None else (rules, own)
    # First as it is written, for a message that names the link.
    for source in (bind.source, found.source):
        for side in sides:
            if problem := problem_of(source, side, as_root=as_root):
                raise user_error(f"bind mount: host_path {bind.source} {problem}")
    if not Path(found.source).exists():
        raise user_error(
            f"bind mount {bind.source} at {bind.target}: it does not exist on this machine: "
            "make it there, or correct bind_mounts"
        )


def _require_reachable(task: OsUser, binds: Sequence[Bind]) -> None:
    if not binds:
        return
    done = run_as(task, ["sh", "-c", _UNREACHABLE, "sh", *(bind.source for bind in binds)])
    if done.returncode != 0:
        raise user_error(
            f"bind mount: host_path {done.stdout} is not accessible to {shown(task)}, whom the task runs as"
        )


def user_error(message: str) -> StartRefused:
    return StartRefused(ExitFailure.TASK_ERROR, message)
