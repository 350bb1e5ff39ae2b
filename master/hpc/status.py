"""`windlass hpc status`: where the master runs, and its batch jobs."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path

from master.hpc import jobs
from master.hpc.as_job import legs, read_leg
from master.hpc.place import MasterFolder, MasterRecord, known_place
from master.hpc.private import answers, command, service_of
from master.hpc.up import ssh_line
from provisioner.batch.base import JobReport, NoAnswer
from windlass.base.errors import Conflict
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.services import MASTER, Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    running: MasterRecord
    is_up: bool
    words: str
    jobs: tuple[JobReport, ...] = ()
    jobs_problem: str = ""
    """Why it is not known which there are."""


async def look(dir_: Path | None) -> ClusterStatus:
    """Raises InvalidArgument where no master was ever started."""
    place, running = known_place(dir_)
    is_up = await asyncio.to_thread(answers, running)
    words = _words(place, running, is_up)
    if running.job and running.is_up:
        words = await _words_of_legs(place, words) if is_up else await _words_of_job(place)
    try:
        found = await jobs.jobs_of(jobs.system_of(running), running.cluster_id)
    except NoAnswer as error:
        return ClusterStatus(running=running, is_up=is_up, words=words, jobs_problem=error.message)
    return ClusterStatus(running=running, is_up=is_up, words=words, jobs=tuple(found))


def _words(place: MasterFolder, running: MasterRecord, is_up: bool) -> str:
    if is_up:
        line = ssh_line(running)
        return f"The master runs on {running.host}, at {running.url}. From your computer: {line}"
    if not running.is_up and running.job:
        return (
            f"The master of {place.path} was stopped. Start it again: {command('up', '--as-job')}"
        )
    if not running.is_up:
        return f"The master of {place.path} was stopped. Start it again: {command('up')} on {running.host}"
    if running.host != socket.gethostname():
        return (
            f"The master on {running.host} does not answer at {running.url}: "
            f"ssh {running.host} {command('up')} starts it again"
        )
    service = service_of(running)
    log = ClusterFolder(running.folder).log(MASTER)
    if service.condition is Condition.GONE:
        end = service.ended or "unknown"
        return f"The master does not run (last end: {end}, log: {log}). Start it: {command('up')}"
    return (
        f"The master does not answer at {running.url} ({service.condition.value}); its log: {log}"
    )


async def _words_of_job(place: MasterFolder) -> str:
    try:
        found = await legs(read_leg(place))
    except NoAnswer as error:
        return f"The master is a batch job, and the site does not answer: {error.message}"
    if not found:
        return f"The master was a batch job, which has ended: {command('up', '--as-job')}"
    job = found[0]
    why = f": {job.words or job.reason}" if job.words or job.reason else ""
    return (
        f"The master is batch job {job.job_id} ({job.state}{why}). Where it waits for a node that does not come back: "
        f"{command('up', '--as-job', '--restart')}"
    )


async def _words_of_legs(place: MasterFolder, words: str) -> str:
    """Of a master that answers."""
    try:
        found = await legs(read_leg(place))
    except (NoAnswer, Conflict):  # where it runs is known all the same
        return words
    shown = ", then ".join(f"{job.job_id} ({job.state})" for job in found)
    return f"{words}\nIt is batch job {shown}" if shown else words


def described(found: ClusterStatus) -> dict[str, object]:
    """For programs."""
    return {
        "isUp": found.is_up,
        "url": found.running.url,
        "host": found.running.host,
        "folder": str(found.running.folder),
        "clusterId": found.running.cluster_id,
        "jobs": jobs.described(found.jobs),
        "jobsProblem": found.jobs_problem,
    }
