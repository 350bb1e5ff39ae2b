"""What a node of a batch system has for our agents: the body of the jobs of `windlass hpc check --probe`.

usage: python -P -m agent_bootstrap.agent.batch.node_probe REPORT HOST PORT WAYS

Writes REPORT, a NodeReport as JSON. HOST and PORT are where the master is to be reached from here; WAYS names the ways
to try, with commas between. What a way needs of this node is in nodes/0 beside REPORT.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agent_bootstrap.agent.batch.scratch import OF_JOBS, find_scratch
from agent_bootstrap.agent.connection.master_transports import transports_of
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.probe import find_isolation
from agent_bootstrap.agent.slots import find_hardware
from agent_bootstrap.bounds import one_line
from agent_bootstrap.channels.requested_transport import RequestedTransport
from agent_bootstrap.channels.streams import Transport
from agent_bootstrap.protocol import IsolationKind
from windlass.base.files import write_atomic
from windlass.base.packages import VERSION

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
    ways: dict[str, str]
    """By name, why it does not lead to the master; empty: it does."""
    scratch: str
    """Where temporary files of tasks go."""
    scratch_free_bytes: int | None
    scratch_problem: str


def look(host: str, port: int, ways: Sequence[str], folder: Path) -> NodeReport:
    options = AgentOptions.model_validate(
        {
            "master_url": f"https://{host}:{port}",
            "slot_type": "cuda",
            "channels": ways,
            "job_folder": folder,
        }
    )
    hardware = find_hardware(options)
    scratch = str(find_scratch(OF_JOBS, os.environ) or tempfile.gettempdir())
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
        ways=asyncio.run(_tried(options)),
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


async def _tried(options: AgentOptions) -> dict[str, str]:
    """All at once, for one that leads nowhere takes its time; but a node asks a relay for one pipe at a time."""
    asking = asyncio.Lock()
    transports = transports_of(options, os.environ)
    problems = await asyncio.gather(*(_problem(way, asking) for way in transports.values()))
    return dict(zip(transports, problems, strict=True))


async def _problem(way: Transport, asking: asyncio.Lock) -> str:
    if isinstance(way, RequestedTransport):
        async with asking:
            return await _why_not(way)
    return await _why_not(way)


async def _why_not(way: Transport) -> str:
    try:
        (await way.open()).close()
    except OSError as error:
        return one_line(str(error))
    finally:
        await way.close()
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
    report = Path(sys.argv[1])
    found = look(
        sys.argv[2], int(sys.argv[3]), sys.argv[4].split(","), report.parent / "nodes" / "0"
    )
    write_atomic(report, found.model_dump_json().encode())
