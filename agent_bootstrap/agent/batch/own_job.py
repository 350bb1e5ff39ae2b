"""An agent that a user started inside a job of Slurm or PBS: it is called after the job, and knows when that ends.

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
from typing import Literal

from agent_bootstrap.agent.options import AgentOptions

log = logging.getLogger(__name__)

LOOK_S = 60.0
COMMAND_LIMIT_S = 30.0
KILL_WAIT = {"slurm": timedelta(seconds=30), "pbs": timedelta(seconds=10)}
"""Their defaults, between SIGTERM and SIGKILL; what is left where the end of the job has passed or nobody knows it."""
DIFFERS = timedelta(seconds=30)
"""An end that is so much earlier than it was has been moved; the rest is rounding."""
_COMMANDS = ("PATH", "HOME", "USER", "SLURM_CONF", "PBS_CONF_FILE", "LD_LIBRARY_PATH")
_PBS_ID = re.compile(r"(\d{1,19})(?:\[(\d{1,9})\])?(?:\.[A-Za-z0-9._-]{1,253})?")
_PBS_START = re.compile(r'\bstime"?\s*[:=]\s*"?(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4})')
_PBS_LIMIT = re.compile(
    r'Resource_List(?:\.walltime = |"\s*:\s*\{[^{}]*?"walltime"\s*:\s*")(\d+):(\d\d):(\d\d)'
)
"""In text, and in the JSON of releases that print it broken."""


@dataclass(frozen=True, slots=True)
class OwnJob:
    """The batch job around this process."""

    id: str
    node: str
    """Its number in the job."""
    system: Literal["slurm", "pbs"] = "slurm"

    @property
    def agent_id(self) -> str:
        name = "-".join(filter(None, found.groups())) if (found := _PBS_ID.match(self.id)) else ""
        return f"{self.system}-{name or self.id}-{self.node}"


def own_job(options: AgentOptions, environ: Mapping[str, str]) -> OwnJob | None:
    """None: there is none, or the master submitted it."""
    if options.instance_id is not None:
        return None
    if re.fullmatch(r"\d{1,19}", id_ := environ.get("SLURM_JOB_ID", "")):
        return OwnJob(id_, _number(environ.get("SLURM_NODEID", "")))
    if _PBS_ID.fullmatch(id_ := environ.get("PBS_JOBID", "")):
        return OwnJob(id_, _number(environ.get("PBS_NODENUM", "")), "pbs")
    return None


def _number(given: str) -> str:
    return given if re.fullmatch(r"\d{1,9}", given) else "0"


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
    if job.system == "pbs":
        return pbs_end(await _said(job, environ, "qstat", "-f", "-F", "json", job.id))
    said = await _said(job, environ, "squeue", "-h", "-j", job.id, "-o", "%e")
    said = said or environ.get("SLURM_JOB_END_TIME", "")
    return datetime.fromtimestamp(int(said), UTC) if re.fullmatch(r"\d{9,11}", said) else None


def pbs_end(said: str) -> datetime | None:
    """Of `qstat -f` with TZ=UTC: its start and its limit, which qalter may have changed. Pure."""
    start, limit = _PBS_START.search(said), _PBS_LIMIT.search(said)
    if start is None or limit is None:
        return None
    hours, minutes, seconds = map(int, limit.groups())
    try:
        begun = datetime.strptime(start[1], "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
        return begun + timedelta(hours=hours, minutes=minutes, seconds=seconds)
    except (ValueError, OverflowError):
        return None


def last_moment(job: OwnJob | None, end: datetime | None, now: datetime) -> datetime:
    """Until when work may take that is asked to leave because the job got SIGTERM."""
    wait = KILL_WAIT["slurm" if job is None else job.system]
    return end if end is not None and end > now else now + wait


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
            await leave(end, "its batch job ends sooner than it was to")
        known = end or known


async def _said(job: OwnJob, environ: Mapping[str, str], *words: str) -> str:
    keep = {key: environ[key] for key in _COMMANDS if key in environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**keep, "LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s"},
        )
    except OSError as error:
        log.warning("the end of job %s is not known: %s: %s", job.id, words[0], error.strerror)
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
