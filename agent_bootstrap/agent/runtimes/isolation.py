"""How tasks are kept apart on this machine: found out once, by doing the real thing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import agent_bootstrap.supervisor
from agent_bootstrap.protocol import IsolationKind
from windlass.base.errors import InvalidConfig
from windlass.base.files import write_atomic

SUPERVISOR_DIR = Path(agent_bootstrap.supervisor.__file__).parent
PROBE_LIMIT_S = 20.0
_NAMESPACES = ("-m", "-p", "-f", "--kill-child")
_WAYS = (("unshare", *_NAMESPACES), ("unshare", "-U", "-r", *_NAMESPACES))
"""As root, and as anybody. Root without CAP_SYS_ADMIN is anybody."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """`unshare`: the command that makes the namespaces; empty: one directory per task, and a note that says why."""

    unshare: tuple[str, ...] = ()
    note: str = ""

    @property
    def kind(self) -> IsolationKind:
        return IsolationKind.NAMESPACES if self.unshare else IsolationKind.DIRECTORY

    @property
    def private_root(self) -> bool:
        return bool(self.unshare)


def find_isolation(wanted: Literal["auto", "namespace", "directory"], work_dir: Path) -> Isolation:
    """Try plain namespaces, then a user namespace, then fall back. Blocks for tens of milliseconds."""
    if wanted == "directory":
        return Isolation(note=_fallback_note("the agent is configured so (isolation: directory)"))
    if shutil.which("unshare") is None:
        reasons = ["the program unshare (util-linux) is not installed"]
    else:
        reasons = []
        for way in _WAYS:
            problem = _try(way, work_dir)
            if not problem:
                return Isolation(unshare=way)
            reasons.append(f"{' '.join(way[: way.index('-m')])}: {problem}")
    if wanted == "namespace":
        raise InvalidConfig(
            [f"isolation: namespaces cannot be made here ({'; '.join(reasons)})"],
            what="agent options",
        )
    return Isolation(note=_fallback_note("; ".join(reasons)))


def _fallback_note(why: str) -> str:
    return (
        "tasks run without private namespaces: /run/determined, /tmp and bind mounts are directories of each task, "
        f"named by DET_RUN_DIR, TMPDIR and WINDLASS_SHARED_FS; shm_size has no effect ({why})"
    )


def _try(way: tuple[str, ...], work_dir: Path) -> str:
    """Build a private root and run a program in it. Empty if that works, else what went wrong."""
    directory = Path(tempfile.mkdtemp(prefix="probe-", dir=work_dir))
    try:
        for name in ("rundet", "tmp"):
            (directory / name).mkdir()
        spec = directory / "spec.json"
        document = {
            "dir": str(directory),
            "namespace": True,
            "work_dir": "/",
            "argv": ["sh", "-c", "test -d /run/determined && test -e /proc/self/stat"],
            "env": {"PATH": os.environ.get("PATH", os.defpath)},
            "binds": [],
        }
        write_atomic(spec, json.dumps(document).encode())
        return _run(way, spec)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(way: tuple[str, ...], spec: Path) -> str:
    init = (sys.executable, "-I", "-S", str(SUPERVISOR_DIR / "task_init.py"), str(spec))
    # The script reports on file descriptor 3; a shell puts the pipe there without touching our own descriptors.
    command = ["sh", "-c", 'exec 3>&1 1>&2; exec "$@"', "sh", *way, *init]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PROBE_LIMIT_S:.0f} s"
    if done.returncode == 0:
        return ""
    said = done.stdout.partition("\n")[0]
    if said:
        return str(json.loads(said).get("message", f"a program in it ended with {done.returncode}"))
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
