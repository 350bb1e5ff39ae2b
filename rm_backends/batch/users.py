"""A batch system, asked as the user of each job: whatever concerns a job is that user's business.

Whoever may not be asked any more (sudo refuses, for one), or is not answered, holds up nobody else: of their jobs
nothing is known then. Users can stop or kill what runs as them, so that says nothing of the site.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from master.core.reasons import ReasonKind
from provisioner.batch.base import (
    BatchSystem,
    JobRefused,
    JobReport,
    NoAnswer,
)
from provisioner.batch.impersonation import SiteUsers
from rm_backends.base import AllocationRequest
from rm_backends.batch.leases import Lease
from rm_backends.batch.shapes import DispatchOptions
from windlass.base.errors import BatchSystemError, Unsatisfiable

log = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE = 8
"""Users who are asked for."""
LAST_RETRY_S = 30.0
SHARE = 10
"""Who is not answered is asked again after so many times what that took: others wait for them that long."""


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


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why a user is not asked for now."""

    why: str
    until: float
    tries: int


@dataclass(slots=True)
class UserSystems:
    """Raises NoAnswer of the master's own jobs; what goes wrong with those of a user is kept in `trouble`."""

    system: BatchSystem
    """As the master's own user."""
    users: SiteUsers | None = None
    """As others. None: every job is the master's own."""
    now: Callable[[], float] = time.monotonic
    _known: dict[str, BatchSystem] = field(default_factory=dict)
    _troubles: dict[str, _Trouble] = field(default_factory=dict)

    def of(self, user: str) -> BatchSystem:
        """Raises JobRefused."""
        if not user:
            return self.system
        if self.users is None:
            text = f"jobs of {user} cannot be asked for: impersonate is not set any more"
            raise JobRefused(text, kind=ReasonKind.MISCONFIGURED, passing=False)
        if user not in self._known:
            self._known[user] = self.users.system(user)
        return self._known[user]

    def trouble(self, user: str) -> str:
        """Why nothing is known of their jobs now; empty: it is."""
        found = self._troubles.get(user)
        return "" if found is None else found.why

    def is_held(self, user: str) -> bool:
        """They are not asked for until later."""
        found = self._troubles.get(user)
        return found is not None and found.until > self.now()

    def hold(self, user: str, error: BatchSystemError, since: float) -> None:
        """What was called as this user since then (`now`) failed."""
        old = self._troubles.get(user)
        tries, now = 1 if old is None else old.tries + 1, self.now()
        if old is None or old.why != error.message:
            log.warning("jobs of %s cannot be asked for: %s", user or "the master", error.message)
        pause_s = max(min(LAST_RETRY_S, 2.0**tries), SHARE * (now - since))
        self._troubles[user] = _Trouble(error.message, now + pause_s, tries)

    async def poll(self, leases: Iterable[Lease]) -> Mapping[str, JobReport | None]:
        """By name, of those that can be told of. None: unknown to a scheduler that did answer."""
        by_user: defaultdict[str, list[str]] = defaultdict(list)
        for lease in leases:
            by_user[lease.shape.user].append(lease.tag)
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(user: str, names: list[str]) -> Mapping[str, JobReport | None]:
            async with turns:
                found = await self._asked(user, lambda system: system.poll(names))
            return {} if found is None else {name: found.get(name) for name in names}

        told: dict[str, JobReport | None] = {}
        for some in await asyncio.gather(*(ask(*one) for one in by_user.items())):
            told |= some
        return told

    async def look_up(self, lease: Lease, job_id: str) -> JobReport | None:
        """None also for who may not be asked for any more."""
        return await self._asked(lease.shape.user, lambda system: system.look_up(job_id))

    async def named_like(self, user: str, prefix: str) -> Sequence[JobReport]:
        """Jobs of this user with such names; none where they cannot be asked for."""
        return await self._asked(user, lambda system: system.named_like(prefix)) or ()

    async def cancel(self, jobs: Iterable[tuple[str, str]]) -> None:
        """By user and id. What the site does not do is tried again later."""
        ids: defaultdict[str, list[str]] = defaultdict(list)
        for user, job_id in jobs:
            ids[user].append(job_id)
        turns = asyncio.Semaphore(AT_ONCE)

        async def cancel(user: str, some: list[str]) -> None:
            try:
                async with turns:
                    await self._asked(user, lambda system: system.cancel(some))
            except NoAnswer:
                raise
            except BatchSystemError as error:
                log.warning("jobs %s are not cancelled: %s", ", ".join(some), error.message)

        await asyncio.gather(*(cancel(*one) for one in ids.items()))

    async def _asked(self, user: str, call: Callable[[BatchSystem], Awaitable[T]]) -> T | None:
        """None: nothing is known of this user's jobs."""
        if self.is_held(user):
            return None
        since = self.now()
        try:
            found = await call(self.of(user))
        except (JobRefused, NoAnswer) as error:
            if not user and isinstance(error, NoAnswer):
                raise
            self.hold(user, error, since)
            return None
        self._troubles.pop(user, None)
        return found
