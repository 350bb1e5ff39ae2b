"""Jobs with names of this cluster that its store does not know: of a store that is older than they are, restored from a
backup. Looked at twice before anything is said or done: one may just have been made.

Those of users who are asked for are cancelled, for nobody waits for them. As anybody else nothing is done: who it is
says only the name of a job, which everybody may choose.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from provisioner.batch.base import JobPhase, NoAnswer
from rm_backends.batch.leases import Lease
from rm_backends.batch.users import UserSystems

log = logging.getLogger(__name__)

AT_START = 2
"""Looks at all jobs of the site, whosever they are."""


class ForeignJobs:
    def __init__(self, systems: UserSystems, prefix: str) -> None:
        """`prefix`: of the names of this cluster's jobs."""
        self._systems = systems
        self._prefix = prefix
        self._mine: frozenset[tuple[str, str]] = frozenset()
        """User and id, as of the last look."""
        self._others: frozenset[str] = frozenset()
        """Ids, as of the last look."""
        self._looks_left = AT_START if systems.users is not None else 0

    async def look(self, leases: Mapping[str, Lease]) -> None:
        """Raises NoAnswer."""
        mine = await self._of_users(leases)
        if old := mine & self._mine:
            ids = ", ".join(sorted(job_id for _, job_id in old))
            log.warning("jobs that nobody asked for are cancelled: %s", ids)
            await self._systems.cancel(old)
        self._mine = mine
        if self._looks_left:
            await self._look_at_others(leases)

    async def _of_users(self, leases: Mapping[str, Lease]) -> frozenset[tuple[str, str]]:
        found = set()
        for user in sorted({"", *(lease.shape.user for lease in leases.values())}):
            jobs = await self._systems.named_like(user, self._prefix)
            strange = (job for job in jobs if job.phase is not JobPhase.ENDED)
            found |= {(user, job.job_id) for job in strange if job.name not in leases}
        return frozenset(found)

    async def _look_at_others(self, leases: Mapping[str, Lease]) -> None:
        try:
            jobs = await self._systems.system.in_queue("")
        except NoAnswer as error:
            log.info("jobs of users that are not asked for are not listed yet: %s", error.message)
            return
        known = {job_id for _, job_id in self._mine}
        found = [
            job
            for job in jobs
            if job.name.startswith(self._prefix)
            and job.name not in leases
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
