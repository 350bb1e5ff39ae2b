"""The mounts of one task, checked again where they are made: the master could not see this machine."""

from __future__ import annotations

import posixpath
import subprocess
from collections.abc import Sequence
from pathlib import Path

from agent_bootstrap.agent.identity import shown
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.bind_rules import HostPaths, problem_of, resolved
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.protocol import Bind, ContainerSpec, ExitFailure

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
        _check(bind, rules, own, as_root=task.uid == 0)
        checked.append(bind.model_copy(update={"source": resolved(bind.source)}))
    if task.uid != agent.uid:
        cluster = tuple(resolved(path) for path in rules.cluster)
        _require_reachable(task, [bind for bind in checked if not _is_in_any(bind, cluster)])
    return tuple(checked)


def run_as(
    who: OsUser, command: Sequence[str], *, cwd: str = "/"
) -> subprocess.CompletedProcess[str]:
    """Only for an agent that is root."""
    return subprocess.run(
        command,
        cwd=cwd,
        user=who.uid,
        group=who.gid,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _check(bind: Bind, rules: HostPaths, own: HostPaths, *, as_root: bool) -> None:
    if not bind.target.startswith("/") or not posixpath.normpath(bind.target).strip("/"):
        raise user_error(
            f"bind mount of {bind.source}: {bind.target} is not a usable container path"
        )
    problem = problem_of(bind.source, rules, as_root=as_root)
    if problem is None and own.allowed is not None:
        problem = problem_of(bind.source, own, as_root=as_root)
    if problem is not None:
        raise user_error(f"bind mount: host_path {bind.source} {problem}")
    if not Path(bind.source).exists():
        raise user_error(
            f"bind mount {bind.source} at {bind.target}: it does not exist on this machine"
        )


def _require_reachable(task: OsUser, binds: Sequence[Bind]) -> None:
    if not binds:
        return
    done = run_as(task, ["sh", "-c", _UNREACHABLE, "sh", *(bind.source for bind in binds)])
    if done.returncode != 0:
        raise user_error(
            f"bind mount: host_path {done.stdout} is not accessible to {shown(task)}, whom the task runs as"
        )


def _is_in_any(bind: Bind, folders: Sequence[str]) -> bool:
    return any(Path(bind.source).is_relative_to(folder) for folder in folders)


def user_error(message: str) -> StartRefused:
    return StartRefused(ExitFailure.TASK_ERROR, message)
