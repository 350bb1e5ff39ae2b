"""What an agent needs of its machine, for `windlass doctor`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agent_bootstrap.agent.runtimes.probe import find_isolation
from agent_bootstrap.agent.slots import nvidia_gpus
from agent_bootstrap.protocol import IsolationKind
from windlass.base.checks import Check, Status


def checks() -> list[Check]:
    return [_isolation(), _gpus()]


def _isolation() -> Check:
    name = "agent: isolation of tasks"
    with tempfile.TemporaryDirectory(prefix="windlass-doctor-") as folder:
        isolation = find_isolation("auto", Path(folder))
    if isolation.kind is IsolationKind.BUBBLEWRAP:
        return Check(name=name, found="bubblewrap")
    if isolation.kind is IsolationKind.NAMESPACES:
        return Check(
            name=name,
            found="namespaces of our own",
            advice="install bubblewrap, which is reviewed by many",
        )
    return Check(
        name=name,
        status=Status.WARNING,
        found=isolation.note,
        advice="install bubblewrap; allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
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
