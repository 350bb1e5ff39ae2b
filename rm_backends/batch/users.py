"""A batch system, asked as the user of each job: whatever concerns a job is that user's business.

Whoever may not be asked any more (sudo refuses, for one) holds up nobody else: of their jobs nothing is known then.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from provisioner.providers.batch.base import (
    BatchSystem,
    JobPhase,
    JobRefused,
    JobReport,
    NoAnswer,
)
from provisioner.providers.batch.impersonation import SiteUsers
from rm_backends.base import AllocationRequest
from rm_backends.batch.leases import Lease
from rm_backends.batch.shapes import DispatchOptions
from windlass.base.errors import BatchSystemError, Unsatisfiable

log = logging.getLogger(__name__)


def require_user(request: AllocationRequest, options: DispatchOptions) -> None:
    """Where jobs are of their users. Raises Unsatisfiable for one that is linked to nobody, or to root."""
    if not options.as_users:
        return
    who, whose = request.os_user, request.user or "its user"
    if who is None:
        raise Unsatisfiable(
            f"Pool '{options.pool}' submits each job as its user, and {whose} is linked to none: an administrator does "
            "that with `det user link-with-agent-user`"
        )
    if who.uid == 0 or who.user == "root":
        raise Unsatisfiable(
            f"Pool '{options.pool}' submits no job as root, to whom {whose} is linked: link them to another one "
            "with `det user link-with-agent-user`"
        )


@dataclass(slots=True)
class UserSystems:
    """Raises what its systems raise."""

    system: BatchSystem
    """As the master's own user."""
    users: SiteUsers | None = None
    """As others. None: every job is the master's own."""
    _known: dict[str, BatchSystem] = field(default_factory=dict)
    _troubles: dict[str, str] = field(default_factory=dict)

    def of(self, user: str) -> BatchSystem:
        if not user:
            return self.system
        if self.users is None:
            raise BatchSystemError(f"jobs of {user} cannot be looked after: impersonate is not set")
        if user not in self._known:
            self._known[user] = self.users.system(user)
        return self._known[user]

    async def poll(self, leases: Iterable[Lease]) -> Mapping[str, JobReport | None]:
        """By name, of those that can be told of. None: unknown to a scheduler that did answer."""
        told: dict[str, JobReport | None] = {}
        by_user: defaultdict[str, list[str]] = defaultdict(list)
        for lease in leases:
            by_user[lease.shape.user].append(lease.tag)
        for user, names in by_user.items():
            try:
                found = await self.of(user).poll(names)
            except JobRefused as error:
                self._note(user, error.message)
                continue
            self._note(user, "")
            told |= {name: found.get(name) for name in names}
        return told

    async def ended(self, lease: Lease, job_id: str) -> JobReport | None:
        """None also for who may not be asked for any more."""
        try:
            return await self.of(lease.shape.user).ended(job_id)
        except JobRefused as error:
            self._note(lease.shape.user, error.message)
            return None

    async def strange(self, prefix: str, leases: Mapping[str, Lease]) -> frozenset[tuple[str, str]]:
        """User and id of jobs that are not over, are called so, and have no lease."""
        found = set()
        for user in sorted({"", *(lease.shape.user for lease in leases.values())}):
            try:
                jobs = await self.of(user).named_like(prefix)
            except JobRefused as error:
                self._note(user, error.message)
                continue
            found |= {(user, job.job_id) for job in jobs if _is_strange(job, leases)}
        return frozenset(found)

    async def cancel(self, jobs: Iterable[tuple[str, str]]) -> None:
        """By user and id. Raises NoAnswer. What the site does not do is tried again later."""
        ids: defaultdict[str, list[str]] = defaultdict(list)
        for user, job_id in jobs:
            ids[user].append(job_id)
        for user, some in ids.items():
            try:
                await self.of(user).cancel(some)
            except NoAnswer:
                raise
            except BatchSystemError as error:
                log.warning("jobs %s are not cancelled: %s", ", ".join(some), error.message)

    def _note(self, user: str, trouble: str) -> None:
        if trouble and self._troubles.get(user) != trouble:
            log.warning("jobs of %s cannot be asked for: %s", user or "the master", trouble)
        self._troubles[user] = trouble


def _is_strange(job: JobReport, leases: Mapping[str, Lease]) -> bool:
    return job.phase is not JobPhase.ENDED and job.name not in leases
