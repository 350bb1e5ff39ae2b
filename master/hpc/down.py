"""`windlass hpc down`: the end of the master, and of its jobs if the user says so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterator
from pathlib import Path

from master.hpc import jobs
from master.hpc.as_job import end_all, read_leg
from master.hpc.place import MasterFolder, known_place
from master.hpc.private import require_here
from provisioner.batch.base import BatchSystem, NoAnswer
from windlass.base.formats.plurals import counted
from windlass.deploy.local.cluster import LocalCluster
from windlass.deploy.local.folder import ClusterFolder


def down(dir_: Path | None, *, cancel: bool) -> Iterator[str]:
    """What to tell the user. Raises Conflict on another machine than the master's."""
    place, running = known_place(dir_)
    require_here(running, socket.gethostname(), "" if dir_ is None else f" --dir {place.path}")
    if running.job:
        place.note(running.model_copy(update={"is_up": False}))  # so that no leg follows
        ended = list(asyncio.run(end_all(read_leg(place))))
    else:
        ended, _ = LocalCluster(ClusterFolder(running.folder)).down()
    running = place.running() or running  # a leg may have written meanwhile
    place.note(running.model_copy(update={"is_up": False}))
    yield "The master is stopped." if ended else "No master was running."
    system = jobs.system_of(running)
    if cancel:
        gone = asyncio.run(jobs.cancel_all(system, running.cluster_id))
        yield f"Cancelled: {', '.join(gone)}" if gone else "It had no batch jobs."
        yield from directories_left(place, set())
    else:
        found = asyncio.run(_left_behind(system, running.cluster_id))
        yield from _left(found)
        if not isinstance(found, str):
            yield from directories_left(place, found)
    yield f"Kept: {running.folder}, {place.path}. `windlass hpc up` goes on with them."


async def _left_behind(system: BatchSystem, cluster_id: str) -> set[str] | str:
    """The names of its jobs, or why they are not known."""
    try:
        return {job.name for job in await jobs.jobs_of(system, cluster_id)}
    except NoAnswer as error:
        return error.message


def directories_left(place: MasterFolder, alive: Collection[str]) -> Iterator[str]:
    """Of jobs that are over: they hold what their agents could not tell, so nobody but a master removes them."""
    root = place.path / "jobs"
    over = [each for each in root.glob("w[lp]-*") if each.name not in alive]
    if over:
        yield (
            f"Directories of ended jobs in {root}: {len(over)}. The next `windlass hpc up` takes from them what could "
            f"not be told, and removes them. If there is to be none: rm -r {root}"
        )


def _left(found: set[str] | str) -> Iterator[str]:
    if isinstance(found, str):
        yield f"Whether jobs of it are left is not known: {found}"
    elif found:
        yield (
            f"{counted(len(found), 'batch job')} of it go on: the next `windlass hpc up` takes them over; "
            "without work they end after 10 minutes. To end them now: windlass hpc down --cancel"
        )
