"""The master as a batch job, where login nodes end long processes: legs of one walltime each.

Each leg submits the next one at its start, which waits for its end and for the same node: so agents and tasks find the
master again where it was. The data is in the shared folder, on which locks must work: the kernel lets one leg at a time
hold it.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from master.hpc.place import MasterFolder
from master.hpc.plan import SitePlan
from master.hpc.site.gather import batch_system
from provisioner.batch.base import (
    SCRIPT_NAME,
    BatchSystem,
    JobPhase,
    JobReport,
    JobSpec,
)
from provisioner.batch.commands import LocalCommands
from provisioner.batch.disks import LocalDisk
from windlass.base.errors import BatchSystemError, Conflict, InvalidArgument
from windlass.base.formats.durations import format_duration

USUAL_WALLTIME_S = 24 * 3600.0
CPUS, MEMORY_MIB = 2, 4096
END_LIMIT_S = 90.0
"""How long the site may take to end it: a master commits and hangs up when it is told to."""
LOOK_S = 0.5


class MasterJobSpec(BaseModel):
    """Content of master-job/leg.json: how each leg is submitted."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Legs are called NAME-1, NAME-2, ..."""
    system: str
    path: str = ""
    queue: str
    walltime_s: float
    account: str = ""
    python: str

    @property
    def prefix(self) -> str:
        return f"{self.name}-"

    def batch(self) -> BatchSystem:
        return batch_system(self.system, LocalCommands(path=self.path))

    def job(self, place: MasterFolder, number: int, *, after: str = "", node: str = "") -> JobSpec:
        """`after`: the job whose end it waits for; `node`: the one that it wants."""
        directory = folder_of(place)
        words = [self.python, "-P", "-m", "master.hpc.leg", str(place.path), str(number)]
        return JobSpec(
            name=f"{self.prefix}{number}",
            queue=self.queue,
            nodes=1,
            gpus_per_node=0,
            cpus_per_node=CPUS,
            memory_mib_per_node=MEMORY_MIB,
            walltime_s=self.walltime_s,
            arguments=self._arguments(after, node),
            directory=directory,
            script=f"#!/bin/sh\nexec {shlex.join(words)}\n",
        )

    def _arguments(self, after: str, node: str) -> tuple[str, ...]:
        if self.system == "slurm":
            given = {"account": self.account, "nodelist": node}
            words = [f"--{key}={value}" for key, value in given.items() if value]
            return (*words, *([f"--dependency=afterany:{after}"] if after else []))
        words = [f"-A {self.account}"] if self.account else []
        words += [f"-l select=1:host={node}"] if node else []
        return (*words, *([f"-W depend=afterany:{after}"] if after else []))


def folder_of(place: MasterFolder) -> Path:
    """The directory of its legs."""
    return place.path / "master-job"


def new_leg(plan: SitePlan, *, queue: str, walltime_s: float | None) -> MasterJobSpec:
    """Raises InvalidArgument."""
    wanted = queue or plan.aux_pool
    pool = next((pool for pool in plan.pools if pool.name == wanted), None)
    if pool is None:
        known = ", ".join(pool.name for pool in plan.pools)
        raise InvalidArgument(f"--queue {wanted}: give one of {known}")
    if plan.shared is not None and not plan.shared.has_locks:
        raise InvalidArgument(
            f"{plan.shared.path} ({plan.shared.file_system}) has no file locks, which the database of a master that is "
            "a batch job needs: give a folder on another shared file system with --dir, or set db.url of master.yaml "
            "to a PostgreSQL and run `windlass master run` yourself"
        )
    most = pool.queue.max_walltime_s
    if walltime_s is not None and most is not None and walltime_s > most:
        raise InvalidArgument(
            f"--walltime: {_shown(walltime_s)} is more than {wanted} gives ({_shown(most)})"
        )
    return MasterJobSpec(
        name=f"wm-{secrets.token_hex(4)}",
        system=plan.system,
        path=plan.path,
        queue=wanted,
        walltime_s=walltime_s or min(USUAL_WALLTIME_S, most or USUAL_WALLTIME_S),
        account=plan.payer,
        python=plan.python,
    )


def _shown(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


def write_leg(place: MasterFolder, leg: MasterJobSpec) -> None:
    LocalDisk().write(folder_of(place) / "leg.json", leg.model_dump_json(indent=2).encode())


def read_leg(place: MasterFolder) -> MasterJobSpec:
    """Raises Conflict."""
    file = folder_of(place) / "leg.json"
    try:
        return MasterJobSpec.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        raise Conflict(
            f"{file} cannot be read: `windlass hpc up --as-job` writes it anew"
        ) from None


async def submit(
    place: MasterFolder, leg: MasterJobSpec, number: int, *, after: str = "", node: str = ""
) -> str:
    """Raises JobRefused, NoAnswer."""
    job = leg.job(place, number, after=after, node=node)
    script = job.directory / SCRIPT_NAME
    await asyncio.to_thread(LocalDisk().write, script, job.script.encode())
    return await leg.batch().submit(job)


async def legs(leg: MasterJobSpec) -> list[JobReport]:
    """Those that are not over; the one that runs first. Raises NoAnswer."""
    found = await leg.batch().named_like(leg.prefix)
    alive = [job for job in found if job.phase is not JobPhase.ENDED]
    return sorted(alive, key=lambda job: (job.phase is JobPhase.QUEUED, job.name))


async def end_all(leg: MasterJobSpec) -> Sequence[str]:
    """Until none is left: one that was about to start may have submitted another. Raises BatchSystemError."""
    ended: dict[str, None] = {}
    deadline = time.monotonic() + END_LIMIT_S
    while alive := await legs(leg):
        if time.monotonic() > deadline:
            left = ", ".join(job.job_id for job in alive)
            raise BatchSystemError(f"the site has not ended jobs {left} after {END_LIMIT_S:g} s")
        # The next leg first: else it would start when this one ends.
        new = [job.job_id for job in reversed(alive) if job.job_id not in ended]
        for job_id in new:
            await leg.batch().cancel([job_id])
        ended |= dict.fromkeys(new)
        await asyncio.sleep(LOOK_S)
    return list(ended)
