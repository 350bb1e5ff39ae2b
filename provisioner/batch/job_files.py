"""The directory of a job: the script, and what each of its nodes is told. Blocking.

    DIR/batch.sh             the script
    DIR/batch.log            what it says
    DIR/told-to-end          when PBS told it to end
    DIR/nodes/K/host.json    node K: its agent's settings and the token of this job; mode 0600
    DIR/nodes/K/host.state   written by its host before anything else
    DIR/nodes/K/agent/       the work_dir of its agent
    DIR/nodes/K/collect.log  what was said when that was read after the end of the job

Each job of an array has a directory of its own: DIR.0, DIR.1, ...

The folder must be seen by the master and by all nodes under the same path. Nothing secret is in the script, on a
command line or in an environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from agent_bootstrap.bounds import MAX_ERROR_CHARS, one_line
from provisioner.batch.base import SCRIPT_NAME, EndCause, JobSpec, NoAnswer
from provisioner.batch.disks import Disk, LocalDisk
from provisioner.batch.script import (
    BEGIN_NAME,
    PROLOGUE_FAILED,
    TOLD_NAME,
    begin_script,
    job_script,
)

LOG_TAIL_BYTES = 2000
MOST_HEARD = 4
"""Nodes whose logs are looked at: a reason is mostly that of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """What is asked of the site, the same in every repetition. A pydantic type adapter writes it down."""

    system: str = "slurm"
    """slurm or pbs."""
    queue: str
    nodes: int
    slots_per_node: int
    gpus_per_node: int
    slot_type: str = "cuda"
    """cuda, rocm or cpu."""
    gpu_type: str = ""
    asks_for_gpus: bool = True
    """False: its site does not know them; the first ones of each node are taken."""
    cpus_per_node: int | None = None
    memory_mib_per_node: int | None = None
    walltime_s: float | None = None
    nice: int = 0
    avoid: tuple[str, ...] = ()
    """Nodes that it must not run on."""
    arguments: tuple[str, ...] = ()
    user: str = ""
    """Of the operating system: whose job it is. Empty: of whoever submits it."""


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """What a job noted of its life, for a site that does not know it any more."""

    begun: bool = True
    """False: its script surely never ran."""
    told_to_end_at: float | None = None
    """By PBS; seconds since the epoch."""


class Leased(Protocol):
    """A job, as its directory needs it."""

    @property
    def tag(self) -> str:
        """By what we know it; what its token is for."""
        ...

    @property
    def job_name(self) -> str:
        """As of `JobReport`; so is its directory called."""
        ...

    @property
    def pool(self) -> str: ...

    @property
    def agents(self) -> Sequence[str]:
        """Of each node."""
        ...

    @property
    def shape(self) -> JobShape: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Makes and removes the directories of jobs."""

    root: Path
    python: str
    """The interpreter that runs our agents on the nodes."""
    agent: Mapping[str, Any]
    """Keys of agent.yaml, the same for all: where the master is, and how to trust it."""
    path: str = ""
    """Folders before the PATH of jobs."""
    libraries: str = ""
    """Folders before the LD_LIBRARY_PATH of jobs."""
    prologue: tuple[str, ...] = ()
    """Lines of shell before our agents, on each node."""
    disk: Disk = field(default_factory=LocalDisk)
    disk_of: Callable[[str], Disk] | None = None
    """Of a user of the operating system. None: everything is on `disk`."""

    def write(self, job: Leased, token: str) -> JobSpec:
        """Repeating it changes nothing. Raises OSError; NoAnswer where the disk cannot be reached."""
        directory, disk = self.root / job.job_name, self._disk(job)
        for number, agent_id in enumerate(job.agents):
            node = directory / "nodes" / str(number)
            settings = {
                "resource_pool": job.pool,
                **_slots(job),
                **self.agent,
                **({"job_folder": str(node)} if "channels" in self.agent else {}),
                "agent_id": agent_id,
                "instance_id": agent_id,
                "join_token": token,
                "work_dir": str(node / "agent"),
            }
            told = {
                "instance_id": agent_id,
                "boot_s": 0,
                "until_dismissed": True,
                "agent": settings,
            }
            disk.write(node / "host.json", json.dumps(told).encode())
        shape = job.shape
        if self.prologue:
            disk.write(directory / BEGIN_NAME, begin_script(self.python, self.prologue).encode())
        script = self._script(directory, shape.nodes)
        disk.write(directory / SCRIPT_NAME, script.encode())
        return JobSpec(
            name=job.job_name,
            queue=shape.queue,
            nodes=shape.nodes,
            gpus_per_node=shape.gpus_per_node if shape.asks_for_gpus else 0,
            gpu_type=shape.gpu_type,
            cpus_per_node=shape.cpus_per_node,
            memory_mib_per_node=shape.memory_mib_per_node,
            walltime_s=shape.walltime_s,
            nice=shape.nice,
            avoid=shape.avoid,
            arguments=shape.arguments,
            user=shape.user,
            directory=directory,
            script=script,
        )

    def write_array(self, name: str, jobs: Sequence[tuple[Leased, str]]) -> JobSpec:
        """Of jobs of one node and one shape, in the order of their numbers, with their tokens. As `write`."""
        specs = [self.write(job, token) for job, token in jobs]
        directory = self.root / name
        script = self._script(directory, specs[0].nodes, of_array=True)
        return replace(specs[0], name=name, tasks=len(specs), directory=directory, script=script)

    def _script(self, directory: Path, nodes: int, *, of_array: bool = False) -> str:
        return job_script(
            directory,
            self.python,
            nodes=nodes,
            path=self.path,
            libraries=self.libraries,
            has_prologue=bool(self.prologue),
            of_array=of_array,
        )

    def log_tail(self, job: Leased) -> list[str]:
        """The last lines of its log; none if it cannot be read."""
        try:
            said = self._disk(job).tail(self.root / job.job_name / "batch.log", LOG_TAIL_BYTES)
        except (OSError, NoAnswer):
            return []
        lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
        return [one_line(line)[:MAX_ERROR_CHARS] for line in lines if line]

    def last_words(self, job: Leased) -> str:
        """The last line of its log, or why its prologue failed; empty if there is none."""
        lines = self.log_tail(job)[::-1]
        return next((line for line in lines if PROLOGUE_FAILED in line), next(iter(lines), ""))

    def why_it_ended(self, job: Leased, cause: EndCause | None) -> str:
        """The last line of its log. Where nothing of it is seen: the likely cause, with the way out."""
        said = self.last_words(job)
        failed = cause is EndCause.FAILED and not said and not self.own_record(job).begun
        if said or not (failed or cause is EndCause.LAUNCH_FAILED):
            return said
        return (
            f"it left no log in its directory {self.root / job.job_name}, which its node must see and "
            "its user may write: set job_storage_root to a folder on a file system that all nodes share, "
            "with space left"
        )

    def agents_say(self, job: Leased) -> str:
        """Why agents of it have not reached the master, by the last line of the first that complains."""
        for number in range(min(job.shape.nodes, MOST_HEARD)):
            log = self.root / job.job_name / "nodes" / str(number) / "agent.log"
            with suppress(OSError, NoAnswer):
                if said := _complaint(self._disk(job).tail(log, LOG_TAIL_BYTES)):
                    return f"node {number}: {said}"
        return ""

    def nodes_say(self, job: Leased) -> str:
        """How many of its nodes have begun, and what keeps their agents; else the last line of its log."""
        heard = min(job.shape.nodes, MOST_HEARD)
        begun = sum(self._has_begun(job, number) for number in range(heard))
        said = self.agents_say(job)
        if begun == heard and said:
            return said
        of = f"the first {heard}" if heard < job.shape.nodes else str(heard)
        told = [f"{begun} of {of} nodes have reported", said]
        if not begun and (last := self.last_words(job)):
            told.append(f"its log ends with: {last}")
        return "; ".join(filter(None, told))

    def _has_begun(self, job: Leased, number: int) -> bool:
        """Its host runs there, or has."""
        node = self.root / job.job_name / "nodes" / str(number)
        with suppress(OSError, NoAnswer):
            return bool(self._disk(job).tail(node / "host.state", 1))
        return False

    def own_record(self, job: Leased) -> OwnRecord:
        """As far as it can be read."""
        try:
            if self._tail(job, SCRIPT_NAME) is None:
                return OwnRecord()
            told = (self._tail(job, TOLD_NAME) or b"").strip()
            traces = [self._tail(job, name) for name in ("batch.log", "nodes/0/host.state")]
        except NoAnswer:
            return OwnRecord()
        begun = any(trace is not None for trace in traces)
        return OwnRecord(begun, float(told) if told.isdigit() else None)

    def _tail(self, job: Leased, name: str) -> bytes | None:
        try:
            return self._disk(job).tail(self.root / job.job_name / name, 20)
        except OSError:
            return None

    def said(self, job: Leased) -> str:
        """By its agents, else by its script."""
        return self.agents_say(job) or self.last_words(job)

    def left_behind(self, job: Leased) -> list[Path]:
        """The directories of its nodes on which there are containers."""
        nodes = (self.root / job.job_name / "nodes" / str(n) for n in range(job.shape.nodes))
        disk = self._disk(job)
        return [node for node in nodes if disk.has_entries(node / "agent" / "containers")]

    def has_left(self, job: Leased) -> bool:
        """There are containers, as far as that can be read."""
        with suppress(OSError):
            return bool(self.left_behind(job))
        return False

    def remove(self, job: Leased) -> None:
        """Whatever is left there was told."""
        self._disk(job).remove(self.root / job.job_name)

    def _disk(self, job: Leased) -> Disk:
        return self.disk_of(job.shape.user) if job.shape.user and self.disk_of else self.disk


def _complaint(log: bytes) -> str:
    """The last line of an agent's log, if it is a warning, or what an interpreter said that failed."""
    lines = [line for line in log.decode(errors="replace").splitlines() if line.strip()]
    try:
        event: Any = json.loads(lines[-1])
        told = event["event"] if event["level"] in ("warning", "error", "critical") else ""
    except IndexError:
        return ""
    except (ValueError, KeyError, TypeError):
        told = lines[-1]
    return one_line(str(told))[:MAX_ERROR_CHARS]


def _slots(job: Leased) -> dict[str, Any]:
    shape = job.shape
    if shape.gpus_per_node:
        first = ",".join(map(str, range(shape.gpus_per_node)))
        unknown = {} if shape.asks_for_gpus else {"visible_gpus": first}
        return {"slot_type": shape.slot_type, **unknown}
    if shape.slots_per_node == 0:
        return {"slot_type": "none"}
    return {"artificial_slots": shape.slots_per_node}
