"""What an agent needs of its machine, for `windlass doctor`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agent_bootstrap.agent.runtimes.isolation import find_isolation
from agent_bootstrap.agent.slots import nvidia_gpus
from windlass.base.checks import Check, Status


def checks() -> list[Check]:
    return [_namespaces(), _gpus()]


def _namespaces() -> Check:
    name = "agent: namespaces"
    with tempfile.TemporaryDirectory(prefix="windlass-doctor-") as folder:
        isolation = find_isolation("auto", Path(folder))
    if isolation.unshare:
        return Check(name=name, found=f"work ({' '.join(isolation.unshare)})")
    return Check(
        name=name,
        status=Status.WARNING,
        found=isolation.note,
        advice="allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "kernel.apparmor_restrict_unprivileged_userns=0), or run the agent as root",
    )


def _gpus() -> Check:
    gpus = nvidia_gpus()
    if gpus:
        names = sorted({gpu.name for gpu in gpus})
        return Check(name="agent: GPUs", found=f"{len(gpus)} by NVML: {', '.join(names)}")
    return Check(
        name="agent: GPUs",
        found="none by NVML: the agent offers one CPU slot, or artificial slots if told to",
    )
