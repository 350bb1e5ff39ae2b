"""Jobs with names of this cluster that nobody here asked for, or waits for any more: they are cancelled.

Its store may be older than they are, restored from a backup. Each is looked at twice before anything is said or done:
it may just have been made, or forgotten. Those of users who are asked for are cancelled. As anybody else nothing is
done: who it is says only the name of a job, which everybody may choose.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from provisioner.batch.base import JobPhase, JobReport, NoAnswer
from provisioner.leases.job_record import JobRecord
from provisioner.leases.poller import JobPoller

log = logging.getLogger(__name__)

AT_START = 2
"""Looks at all jobs of the site, whosever they are."""


class UnclaimedJobs:
    def __init__(self, poller: JobPoller, prefix: str) -> None:
        """`prefix`: of the names of this cluster's jobs."""
        self._poller = poller
        self._prefix = prefix
        self._mine: frozenset[tuple[str, str]] = frozenset()
        """User and id, as of the last look."""
        self._others: frozenset[str] = frozenset()
        """Ids, as of the last look."""
        self._looks_left = AT_START if poller.users is not None else 0

    async def look(self, jobs: Collection[JobRecord]) -> None:
        """`jobs`: all that are known. Raises NoAnswer."""
        names = {job.job_name for job in jobs}
        found: list[tuple[str, JobReport]] = []
        for user in sorted({"", *(job.user for job in jobs)}):
            found += [(user, one) for one in await self._poller.named_like(user, self._prefix)]
        await self.end(found, names)
        if self._looks_left:
            await self._look_at_others(names)

    async def end(self, listed: Iterable[tuple[str, JobReport]], wanted: Collection[str]) -> None:
        """`listed`: each with its user; `wanted`: the names of those that stay."""
        before = self._mine
        self._mine = frozenset(
            (user, job.job_id)
            for user, job in listed
            if job.phase not in (JobPhase.ENDING, JobPhase.ENDED) and job.name not in wanted
        )
        if again := sorted(before & self._mine):
            ids = ", ".join(job_id for _, job_id in again)
            log.warning("jobs that nobody asked for are cancelled: %s", ids)
            await self._poller.cancel(again)

    async def _look_at_others(self, names: Collection[str]) -> None:
        try:
            jobs = await self._poller.system.in_queue("")
        except NoAnswer as error:
            log.info("jobs of users that are not asked for are not listed yet: %s", error.message)
            return
        known = {job_id for _, job_id in self._mine}
        found = [
            job
            for job in jobs
            if job.name.startswith(self._prefix)
            and job.name not in names
            and job.job_id not in known
        ]
        for job in found:
            if job.job_id in self._others:
                log.warning(
                    "job %s of user %s is called %s, as jobs of this cluster are, and is not known here: if the store "
                    "was restored from a backup, cancel it as that user",
                    job.job_id,
                    job.user,
                    job.name,
                )
        self._others = frozenset(job.job_id for job in found)
        self._looks_left -= 1
