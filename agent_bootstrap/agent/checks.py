"""What an agent needs of its machine, for `windlass doctor`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.gpus.amd import amd_gpus
from agent_bootstrap.agent.gpus.nvidia import nvidia_gpus
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.probe import find_isolation
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, find_images
from agent_bootstrap.protocol import IsolationKind
from windlass.base.checks import Check, CheckStatus


def checks() -> list[Check]:
    return [_isolation(), _containers(), _gpus()]


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
        status=CheckStatus.WARNING,
        found=isolation.note,
        advice="install bubblewrap; allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "kernel.apparmor_restrict_unprivileged_userns=0), or run the agent as root",
    )


def _containers() -> Check:
    """By an agent's own trial before it joins, with `container_runtime: auto`."""
    name = "agent: containers"
    node = NodeFacts(master_url="http://localhost", agent_id="doctor", cluster_id="", master_id="")
    with tempfile.TemporaryDirectory(prefix="windlass-doctor-") as folder:
        options = AgentOptions(master_url=node.master_url, agent_id="doctor", work_dir=Path(folder))
        images, problems = find_images(RuntimeSetup(options=options, trial_on=node))
    works = f"{images.name} starts them" if images else "no engine: tasks run as processes"
    if problems:
        advice = "mend the engine, or set container_runtime in agent.yaml"
        return Check(
            name=name, status=CheckStatus.WARNING, found="; ".join(problems), advice=advice
        )
    return Check(name=name, found=works)


def _gpus() -> Check:
    name = "agent: GPUs"
    found = (nvidia_gpus(), amd_gpus())
    gpus = next((one.gpus for one in found if one.gpus), ())
    names = ", ".join(sorted({gpu.name for gpu in gpus}))
    has = (
        f"{len(gpus)}: {names}"
        if gpus
        else "none: the agent offers one CPU slot, or artificial slots if told to"
    )
    if notes := [note for one in found for note in one.notes]:
        return Check(name=name, status=CheckStatus.WARNING, found=has, advice="; ".join(notes))
    return Check(name=name, found=has)
