"""Limits of tasks: by cgroup v2 where the agent may make groups (as root, or by systemd's `Delegate=yes`), and of
resources."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.runtimes.task_lines import lines_of
from agent_bootstrap.container_options import ContainerLimits
from agent_bootstrap.supervisor import cgroup

MOUNT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory", "pids")
ROOTS_NAME = "windlass"
"""Of a root agent's groups, beside those of systemd."""
LEAF = "agent"
"""Where a delegated agent puts itself, as `DelegateSubgroup=agent` does: a group with groups in it has no processes."""
PERIOD_US = 100_000
MAX_PIDS = 32768
"""Of one user in one user namespace, which with bubblewrap is one task: far above any training run, and a fork bomb
ends there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroups:
    """Where groups of tasks are made."""

    base: Path | None = None
    absent: str = "nobody looked for one"
    """Why there is no base."""

    def make(self, name: str, limits: ContainerLimits) -> Path | None:
        """Of one task. Raises OSError. None: there are no groups here."""
        if self.base is None:
            return None
        group = self.base / name
        group.mkdir(mode=0o755, exist_ok=True)
        for file, value in _values(limits).items():
            (group / file).write_text(value)
        with suppress(OSError):  # not on machines without swap
            if limits.memory_bytes is not None:
                (group / "memory.swap.max").write_text("0")
        return group

    def end(self, name: str) -> None:
        """Kill what its supervisor left in it, and remove it."""
        if self.base is not None and (self.base / name).is_dir():
            cgroup.end(str(self.base / name))


def limited(
    place: ContainerDir, limits: ContainerLimits, cgroups: Cgroups, *, own_user: bool
) -> dict[str, Any]:
    """Keys of the specification. Without a group the supervisor watches the memory; what then has no effect is said in
    the task's log. Raises OSError."""
    group = cgroups.make(place.path.name, limits)
    if group is None and (names := without_effect(limits, own_user=own_user)):
        text = (
            f"resources.limits: {', '.join(names)} without effect on this machine: {cgroups.absent}"
        )
        lines_of(place)(text, "WARNING")
    return {
        "limits": task_limits(limits, own_user=own_user),
        "cgroup": None if group is None else str(group),
        "memory_bytes": limits.memory_bytes or 0,
        "watched_bytes": limits.memory_bytes or 0 if group is None else 0,
    }


def _values(limits: ContainerLimits) -> dict[str, str]:
    found = {"pids.max": str(limits.pids or MAX_PIDS), "memory.oom.group": "1"}
    if limits.memory_bytes is not None:
        found["memory.max"] = str(limits.memory_bytes)
    if limits.cpus is not None:
        found["cpu.max"] = f"{max(1000, int(limits.cpus * PERIOD_US))} {PERIOD_US}"
    return found


def find_cgroups(
    mount: Path = MOUNT, own: Path = Path("/proc/self/cgroup"), *, is_root: bool | None = None
) -> Cgroups:
    """Changes the agent's own group at most. Never raises."""
    try:
        if not (mount / "cgroup.controllers").exists():
            return Cgroups(absent="this machine has no cgroup v2")
        base = _base(mount, own, os.geteuid() == 0 if is_root is None else is_root)
        if base is None:
            return Cgroups(absent="its cgroup is not the agent's to change (systemd: Delegate=yes)")
        missing = set(CONTROLLERS) - _enabled(base)
    except OSError as error:
        return Cgroups(absent=f"{error.filename}: {error.strerror}")
    if missing:
        return Cgroups(absent=f"cgroups here have no {', '.join(sorted(missing))}")
    return Cgroups(base=base)


def _base(mount: Path, own: Path, is_root: bool) -> Path | None:
    if is_root:
        _enabled(mount)
        base = mount / ROOTS_NAME
        base.mkdir(mode=0o755, exist_ok=True)
        return base
    path = next((x[3:] for x in own.read_text().splitlines() if x.startswith("0::/")), "/")
    group = mount / path.lstrip("/")
    if group.name == LEAF:
        group = group.parent
    elif os.access(group / "cgroup.procs", os.W_OK):
        (group / LEAF).mkdir(exist_ok=True)
        (group / LEAF / "cgroup.procs").write_text("0")
    return group if os.access(group / "cgroup.procs", os.W_OK) else None


def _enabled(group: Path) -> set[str]:
    """The controllers of the groups below it, after asking for those that there are."""
    there = (group / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in CONTROLLERS if name in there)
    (group / "cgroup.subtree_control").write_text(wanted)
    return {word.lstrip("+") for word in (group / "cgroup.subtree_control").read_text().split()}


def task_limits(limits: ContainerLimits, *, own_user: bool) -> dict[str, int]:
    """Resource limits by name. No core files: the machine's handler for them runs outside, as root.

    `own_user`: the task is alone in its user namespace. Elsewhere NPROC counts what others run as the same user, and a
    small number would stop them. Memory has none here: see `supervisor.memory_watch`.
    """
    wanted = limits.pids if own_user else None
    return {"CORE": 0, "NPROC": min(wanted or MAX_PIDS, _most_processes())}


def without_effect(limits: ContainerLimits, *, own_user: bool) -> list[str]:
    """Those that need a cgroup."""
    values: dict[str, float | None] = {"cpus": limits.cpus}
    values |= {} if own_user else {"pids": limits.pids}
    return [name for name, value in values.items() if value is not None]


def _most_processes() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    return MAX_PIDS if hard == resource.RLIM_INFINITY else hard
