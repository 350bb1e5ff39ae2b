"""What a node of a batch system has for our agents: the body of the jobs of `windlass hpc check --probe`.

usage: python -P -m agent_bootstrap.agent.node_probe REPORT HOST PORT

Writes REPORT, a NodeReport as JSON. HOST and PORT are where the master is to be reached from here.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.probe import find_isolation
from agent_bootstrap.agent.slots import find_hardware
from agent_bootstrap.protocol import IsolationKind
from windlass.base.files import write_atomic
from windlass.base.packages import VERSION

CONNECT_S = 10.0
RUNTIMES = ("apptainer", "singularity", "podman", "enroot")


class NodeReport(BaseModel):
    """As the node itself found it."""

    model_config = ConfigDict(frozen=True)

    node: str
    python: str
    windlass: str
    kernel: str
    gpus: tuple[str, ...]
    """Names of those that an agent in this job would offer."""
    gpu_notes: tuple[str, ...]
    isolation: str
    """bubblewrap, namespaces; empty: tasks cannot be contained."""
    isolation_problem: str
    runtimes: tuple[str, ...]
    way_problem: str
    """Why the master cannot be reached; empty: it can."""
    scratch: str
    """Where temporary files of tasks go."""
    scratch_free_bytes: int | None
    scratch_problem: str


def look(host: str, port: int) -> NodeReport:
    hardware = find_hardware(AgentOptions(master_url=f"http://{host}:{port}", slot_type="cuda"))
    scratch = tempfile.gettempdir()
    isolation, problem = _isolation(Path(scratch))
    free, scratch_problem = _free(scratch)
    return NodeReport(
        node=socket.gethostname(),
        python=platform.python_version(),
        windlass=VERSION,
        kernel=platform.release(),
        gpus=tuple(slot.brand for slot in hardware.slots),
        gpu_notes=hardware.notes,
        isolation=isolation,
        isolation_problem=problem,
        runtimes=tuple(name for name in RUNTIMES if shutil.which(name)),
        way_problem=_way(host, port),
        scratch=scratch,
        scratch_free_bytes=free,
        scratch_problem=scratch_problem,
    )


def contained_by(folder: Path) -> tuple[str, str]:
    """How tasks can be contained on this machine, or why not. Blocks for tenths of a second."""
    try:
        found = find_isolation("auto", folder)
    except OSError as error:
        return "", str(error.strerror)
    kinds = (IsolationKind.BUBBLEWRAP, IsolationKind.NAMESPACES)
    return (found.kind.value, "") if found.kind in kinds else ("", found.note)


def _isolation(scratch: Path) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="windlass-", dir=scratch) as folder:
        return contained_by(Path(folder))


def _way(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except TimeoutError:
        return f"no answer within {CONNECT_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _free(folder: str) -> tuple[int | None, str]:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
        status = os.statvfs(folder)
    except OSError as error:
        return None, error.strerror or str(error)
    return status.f_bavail * status.f_frsize, ""


if __name__ == "__main__":
    found = look(sys.argv[2], int(sys.argv[3]))
    write_atomic(Path(sys.argv[1]), found.model_dump_json().encode())
