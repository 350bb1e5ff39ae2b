"""Slurm by its commands, with listings of jobs by pyslurm where that is usable."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from provisioner.batch.base import ForeignJob, JobReport, JobSpec, NoAnswer, SiteFacts
from provisioner.batch.commands import Commands
from provisioner.batch.slurm.pyslurm.process import NotUsable, PyslurmProcess
from provisioner.batch.slurm.system import SlurmSystem, by_name
from provisioner.batch.slurm.text import JobLine, hosts, series

log = logging.getLogger(__name__)

TRIED_AGAIN_S = 3600.0
MOST_ENDS = 3
"""In a row: then it is not usable for some time."""
_OVER = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED"}
    | {"OUT_OF_MEMORY", "DEADLINE", "REVOKED"}
)


class PyslurmSystem:
    """Implements `provisioner.batch.base.BatchSystem`.

    Only listings are pyslurm's: what it submits with, and how jobs ended, it tells less well than the commands do.
    """

    name = "slurm"
    most_tasks = 1
    """How pyslurm lists an array of which some jobs wait was never recorded."""

    def __init__(
        self,
        system: SlurmSystem,
        commands: Commands,
        process: PyslurmProcess,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._system = system
        self._commands = commands
        self._process = process
        self._now = now
        self._tried_at = -TRIED_AGAIN_S
        self._is_usable = False
        self._ends = 0
        self._me = ""

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        """Anybody may give a job a name of ours."""
        if (jobs := await self._jobs()) is None:
            return await self._system.poll(names)
        wanted = frozenset(names)
        return by_name([line for line in await self._mine(jobs) if line.name in wanted])

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        if (jobs := await self._jobs()) is None:
            return await self._system.named_like(prefix)
        lines = [line for line in await self._mine(jobs) if line.name.startswith(prefix)]
        return tuple(by_name(lines).values())

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        if (jobs := await self._jobs()) is None:
            return await self._system.in_queue(queue)
        return tuple(
            _foreign(job)
            for job in jobs
            if _state(job) not in _OVER
            and (not queue or queue in _text(job, "partition").split(","))
        )

    async def site(self) -> SiteFacts:
        return await self._system.site()

    async def submit(self, job: JobSpec) -> str:
        return await self._system.submit(job)

    async def look_up(self, job_id: str) -> JobReport | None:
        return await self._system.look_up(job_id)

    async def cancel(self, job_ids: Collection[str]) -> None:
        await self._system.cancel(job_ids)

    async def signal(self, job_id: str, signal: str) -> None:
        await self._system.signal(job_id, signal)

    async def version(self) -> str:
        """Of pyslurm, which fits the site. Raises NotUsable, NoAnswer."""
        version = await asyncio.to_thread(self._process.version)
        await self._require_match(version)
        return version

    def close(self) -> None:
        self._process.close()

    async def _jobs(self) -> Sequence[Mapping[str, Any]] | None:
        """None: by commands. Raises NoAnswer."""
        if not self._is_usable and self._now() < self._tried_at + TRIED_AGAIN_S:
            return None
        try:
            if not self._is_usable:
                await self.version()
            jobs = await asyncio.to_thread(self._process.jobs)
        except NotUsable as error:
            await self._give_up(error.message)
            return None
        except NoAnswer as error:
            self._ends += 1
            if self._ends >= MOST_ENDS:
                await self._give_up(error.message)
            raise
        self._is_usable, self._ends = True, 0
        return jobs

    async def _require_match(self, version: str) -> None:
        """Another release of Slurm speaks another protocol. Raises NotUsable, NoAnswer."""
        done = await self._commands.run(["sinfo", "--version"])
        if done.code:
            raise NoAnswer(f"sinfo: {done.last}")
        site = done.out.strip().rpartition(" ")[2]
        if series(site) != series(version):
            text = f"{version} is not for Slurm {site}"
            major, minor = re.split(r"[.-]", f"{site}.0")[:2]
            raise NotUsable(f"{text}: install pyslurm=={major}.{minor.lstrip('0') or '0'}.*")

    async def _give_up(self, why: str) -> None:
        self._is_usable, self._ends, self._tried_at = False, 0, self._now()
        await asyncio.to_thread(self._process.close)
        log.warning("pyslurm is not used, commands of Slurm are: %s", why)

    async def _mine(self, jobs: Sequence[Mapping[str, Any]]) -> list[JobLine]:
        if not self._me:
            done = await self._commands.run(["id", "-un"])
            if done.code:
                raise NoAnswer(f"id: {done.last}")
            self._me = done.out.strip()
        return [_line(job) for job in jobs if job.get("user_name") == self._me and _state(job)]


def _line(job: Mapping[str, Any]) -> JobLine:
    return JobLine(
        job_id=str(job.get("id")),
        name=_text(job, "name"),
        state=_state(job),
        reason=_text(job, "state_reason"),
        start=_time(job, "start_time"),
        end=_time(job, "end_time"),
        nodes=hosts(_text(job, "allocated_nodes")),
        account=_text(job, "account"),
    )


def _foreign(job: Mapping[str, Any]) -> ForeignJob:
    nodes, array, task = job.get("num_nodes"), job.get("array_id"), job.get("array_task_id")
    is_task = isinstance(array, int) and isinstance(task, int)
    return ForeignJob(
        system="slurm",
        job_id=f"{array}_{task}" if is_task else str(job.get("id")),
        name=_text(job, "name"),
        user=_text(job, "user_name"),
        waits=_state(job) == "PENDING",
        nodes=nodes if isinstance(nodes, int) else 0,
        submitted=_time(job, "submit_time"),
    )


def _state(job: Mapping[str, Any]) -> str:
    """`COMPLETED+COMPLETING`, too."""
    words = _text(job, "state").upper().split("+")
    return "COMPLETING" if "COMPLETING" in words else words[0]


def _text(job: Mapping[str, Any], key: str) -> str:
    value = job.get(key)
    return value if isinstance(value, str) else ""


def _time(job: Mapping[str, Any], key: str) -> float | None:
    value = job.get(key)
    return float(value) if isinstance(value, int | float) and value > 0 else None
