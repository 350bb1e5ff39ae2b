"""How tasks are kept apart on this machine: found out once, by doing the real thing.

A way works when a task in it ran as the user that it shall, with what it needs, and without what it must not have.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.isolation import SUPERVISOR_DIR, Isolation
from agent_bootstrap.agent.runtimes.task_tree import Ground, prepare
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.protocol import ContainerSpec, IsolationKind
from windlass.base.errors import InvalidConfig

PROBE_LIMIT_S = 20.0
_PROBE = """
import os, sys
lines = [line.partition(":") for line in open("/proc/self/status")]
status = {key: value.strip() for key, _, value in lines}
ok = (
    os.getpid() == 2
    and {status[key] for key in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    and status["NoNewPrivs"] == "1"
    and status["Seccomp"] == "2"
    and os.path.isdir("/run/determined")
    and not (os.path.isdir(sys.argv[1]) and os.listdir(sys.argv[1]))
)
raise SystemExit(0 if ok else 3)
"""


def find_isolation(
    wanted: Literal["auto", "bubblewrap", "namespace", "directory"], work_dir: Path
) -> Isolation:
    """Try bubblewrap, then the built-in way, then fall back. Blocks for tenths of a second. Raises InvalidConfig."""
    if wanted == "directory":
        return Isolation(note=_fallback_note("the agent is configured so (isolation: directory)"))
    reasons = []
    for way in _ways(wanted):
        problem = _try(way, work_dir)
        if not problem:
            return way
        reasons.append(f"{way.kind}: {problem}")
    if wanted != "auto":
        raise InvalidConfig(
            [f"isolation: {wanted} does not work here ({'; '.join(reasons)})"], what="agent options"
        )
    return Isolation(note=_fallback_note("; ".join(reasons)))


def _ways(wanted: str) -> Iterator[Isolation]:
    if wanted in ("auto", "bubblewrap"):
        yield Isolation(IsolationKind.BUBBLEWRAP, program=shutil.which("bwrap") or "")
    if wanted in ("auto", "namespace"):
        yield Isolation(IsolationKind.NAMESPACES)


def _fallback_note(why: str) -> str:
    return (
        "tasks are not contained: they run with the rights of the agent and can read and change what it can; "
        "/run/determined, /tmp and bind mounts are directories of each task, "
        f"named by DET_RUN_DIR, TMPDIR and WINDLASS_SHARED_FS; shm_size has no effect ({why})"
    )


def _try(way: Isolation, work_dir: Path) -> str:
    """Run a task that looks around. Empty if it found what it should, else what went wrong."""
    if way.kind is IsolationKind.BUBBLEWRAP and not way.program:
        return "the program bwrap (package bubblewrap) is not installed"
    work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="probe-", dir=work_dir))
    try:
        spec = ContainerSpec(
            container_id=directory.name,
            allocation_id="probe",
            task_id="probe",
            task_type="COMMAND",
            entrypoint=("{python}", "-I", "-S", "-c", _PROBE, str(work_dir)),
            environment={},
        )
        rules = HostPaths(file="agent.yaml", forbidden=(str(work_dir.absolute()),))
        prepare(ContainerDir(directory), spec, _NODE, Ground(isolation=way, rules=rules))
        return _run(directory)
    except OSError as error:
        return f"{error.filename or ''} {error.strerror}".strip()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


_NODE = NodeFacts(master_url="http://localhost", agent_id="probe", cluster_id="", master_id="")


def _run(directory: Path) -> str:
    command = [sys.executable, "-I", "-S", str(SUPERVISOR_DIR / "supervisor.py"), str(directory)]
    try:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PROBE_LIMIT_S:.0f} s"
    told = ContainerDir(directory).read_json("exit.json")
    if told is None:
        return "the probe did not end properly"
    if told["exit_code"] == 0 and told["started"]:
        return ""
    if isinstance(said := told["setup_error"], dict):
        return str(said["message"])
    lines = (directory / "output.log").read_text(errors="replace").strip().splitlines()
    return lines[-1].split(" ", 2)[-1] if lines else f"the probe ended with {told['exit_code']}"
