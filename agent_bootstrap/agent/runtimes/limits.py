"""What a task may use of its machine."""

from __future__ import annotations

import resource

from agent_bootstrap.container_options import Limits

MAX_PIDS = 32768
"""Of one user in one user namespace, which with bubblewrap is one task: far above any training run, and a fork bomb
ends there."""


def task_limits(limits: Limits) -> dict[str, int]:
    """Resource limits by name. No core files: the machine's handler for them runs outside, as root.

    Memory has none here: RLIMIT_AS counts what CUDA only reserves.
    """
    return {"CORE": 0, "NPROC": min(limits.pids or MAX_PIDS, _most_processes())}


def _most_processes() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    return MAX_PIDS if hard == resource.RLIM_INFINITY else hard
