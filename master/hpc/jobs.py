"""The batch jobs of a private master: which there are, and their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from master.hpc.place import MasterRecord
from master.hpc.site.gather import batch_system
from provisioner.batch.base import (
    DISPATCHED,
    PILOTS,
    BatchSystem,
    JobPhase,
    JobReport,
    job_prefix,
)
from provisioner.batch.commands import LocalCommands
from windlass.base.errors import BatchSystemError

END_LIMIT_S = 60.0
"""How long the site may take to end cancelled jobs."""
LOOK_S = 0.5


def system_of(running: MasterRecord) -> BatchSystem:
    return batch_system(running.system, LocalCommands(path=running.path))


async def jobs_of(system: BatchSystem, cluster_id: str) -> list[JobReport]:
    """Those that are not over, by name. Raises NoAnswer."""
    found: list[JobReport] = []
    for kind in (DISPATCHED, PILOTS):
        found += await system.named_like(job_prefix(kind, cluster_id))
    return sorted((job for job in found if job.phase is not JobPhase.ENDED), key=lambda j: j.name)


async def cancel_all(system: BatchSystem, cluster_id: str) -> list[str]:
    """Until none is left: the ids of those that there were. Raises BatchSystemError."""
    ended: dict[str, None] = {}
    deadline = time.monotonic() + END_LIMIT_S
    while jobs := await jobs_of(system, cluster_id):
        if time.monotonic() > deadline:
            left = ", ".join(job.job_id for job in jobs)
            raise BatchSystemError(f"the site has not ended jobs {left} after {END_LIMIT_S:g} s")
        new = [job.job_id for job in jobs if job.job_id not in ended]
        if new:
            await system.cancel(new)
            ended |= dict.fromkeys(new)
        await asyncio.sleep(LOOK_S)
    return list(ended)


def described(jobs: Sequence[JobReport]) -> list[dict[str, object]]:
    return [
        {
            "id": job.job_id,
            "name": job.name,
            "state": job.state,
            "nodes": list(job.nodes),
            "reason": job.words or job.reason,
        }
        for job in jobs
    ]
