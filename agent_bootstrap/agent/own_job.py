"""An agent that a user started inside a job of Slurm: it is called after the job, and knows when that ends.

In jobs that the master submits, the master says both: one look at the scheduler there, not one on each node.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agent_bootstrap.agent.options import AgentOptions

log = logging.getLogger(__name__)

LOOK_S = 60.0
COMMAND_LIMIT_S = 30.0
KILL_WAIT = timedelta(seconds=30)
"""Slurm's default, between SIGTERM and SIGKILL; what is left where the end of the job has passed or nobody knows it."""
DIFFERS = timedelta(seconds=30)
"""An end that is so much earlier than it was has been moved; the rest is rounding."""
_COMMANDS = ("PATH", "HOME", "USER", "SLURM_CONF", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class OwnJob:
    """The job of Slurm around this process."""

    id: str
    node: str
    """Its number in the job."""

    @property
    def agent_id(self) -> str:
        return f"slurm-{self.id}-{self.node}"


def own_job(options: AgentOptions, environ: Mapping[str, str]) -> OwnJob | None:
    """None: there is none, or the master submitted it."""
    id_ = environ.get("SLURM_JOB_ID", "")
    if options.instance_id is not None or not re.fullmatch(r"\d{1,19}", id_):
        return None
    node = environ.get("SLURM_NODEID", "0")
    return OwnJob(id_, node if re.fullmatch(r"\d{1,9}", node) else "0")


def named_after(job: OwnJob, options: AgentOptions) -> AgentOptions:
    """With a name and a directory of its own, where nobody gave one: jobs may share nodes, and nodes a home."""
    given = options.model_fields_set
    changes: dict[str, object] = {}
    if "agent_id" not in given:
        changes["agent_id"] = job.agent_id
    if "work_dir" not in given:
        changes["work_dir"] = options.work_dir / job.agent_id
    return options.model_copy(update=changes)


async def end_of(job: OwnJob, environ: Mapping[str, str] = os.environ) -> datetime | None:
    """By the scheduler, which may have moved it; else as it was at the start of the job. None: nobody says."""
    said = await _squeue(job, environ) or environ.get("SLURM_JOB_END_TIME", "")
    return datetime.fromtimestamp(int(said), UTC) if re.fullmatch(r"\d{9,11}", said) else None


def last_moment(end: datetime | None, now: datetime) -> datetime:
    """Until when work may take that is asked to leave because the job got SIGTERM."""
    return end if end is not None and end > now else now + KILL_WAIT


async def follow_end(
    look: Callable[[], Awaitable[datetime | None]],
    leave: Callable[[datetime, str], Awaitable[None]],
    known: datetime | None,
) -> None:
    """Until cancelled: an end that is nearer than it was is told at once, as that of a machine that goes."""
    while True:
        await asyncio.sleep(LOOK_S)
        end = await look()
        if end is not None and known is not None and end < known - DIFFERS:
            await leave(end, "its Slurm job ends sooner than it was to")
        known = end or known


async def _squeue(job: OwnJob, environ: Mapping[str, str]) -> str:
    keep = {key: environ[key] for key in _COMMANDS if key in environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *("squeue", "-h", "-j", job.id, "-o", "%e"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**keep, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"},
        )
    except OSError as error:
        log.warning("the end of Slurm job %s is not known: squeue: %s", job.id, error.strerror)
        return ""
    try:
        async with asyncio.timeout(COMMAND_LIMIT_S):
            said, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return said.decode(errors="replace").strip() if process.returncode == 0 else ""
