"""What a task may use of its machine by resource limits. Memory, processors and more are limited by `cgroups`."""

from __future__ import annotations

import resource

from agent_bootstrap.container_options import Limits

MAX_PIDS = 32768
"""Of one user in one user namespace, which with bubblewrap is one task: far above any training run, and a fork bomb
ends there."""


def task_limits(limits: Limits, *, own_user: bool) -> dict[str, int]:
    """Resource limits by name. No core files: the machine's handler for them runs outside, as root.

    `own_user`: the task is alone in its user namespace. Elsewhere NPROC counts what others run as the same user, and a
    small number would stop them. Memory has none here: see `supervisor.memory_watch`.
    """
    wanted = limits.pids if own_user else None
    return {"CORE": 0, "NPROC": min(wanted or MAX_PIDS, _most_processes())}


def without_effect(limits: Limits, *, own_user: bool) -> list[str]:
    """Those that need a cgroup."""
    values: dict[str, float | None] = {"cpus": limits.cpus}
    values |= {} if own_user else {"pids": limits.pids}
    return [name for name, value in values.items() if value is not None]


def _most_processes() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    return MAX_PIDS if hard == resource.RLIM_INFINITY else hard
