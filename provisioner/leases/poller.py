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
    JobPhase,
    JobRefused,
    JobReport,
    NoAnswer,
    SiteFacts,
)
from provisioner.batch.impersonation import SiteUsers
from provisioner.leases.job_record import JobRecord
from windlass.base.errors import BatchSystemError

log = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE = 8
"""Users who are asked for."""
LAST_RETRY_S = 30.0
SHARE = 10
"""Who is not answered is asked again after so many times what that took: others wait for them that long."""


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why a user is not asked for now."""

    why: str
    until: float
    tries: int


@dataclass(slots=True)
class JobPoller:
    """Of one part of a master: dispatch, or a provider of pilots. Times are of `now`.

    Raises NoAnswer of the master's own jobs, which whoever asks may `hold`; that of a user is held here.
    """

    system: BatchSystem
    """As the master's own user."""
    check_lease: Callable[[], Awaitable[None]]
    """As `FleetStore` has it: before anything is cancelled."""
    users: SiteUsers | None = None
    """As others. None: every job is the master's own."""
    now: Callable[[], float] = time.monotonic
    site: SiteFacts | None = None
    """What it last said of itself, perhaps before a restart."""
    polled_at: float = float("-inf")
    """When the site last told of jobs."""
    changed_at: float = 0.0
    """When anything last became of one."""
    _known: dict[str, BatchSystem] = field(default_factory=dict)
    _troubles: dict[str, _Trouble] = field(default_factory=dict)

    @property
    def every_s(self) -> float:
        """Jobs that have just changed are polled soon, then less often."""
        return min(10.0, max(1.0, (self.now() - self.changed_at) / 5))

    def note_change(self) -> None:
        self.changed_at = self.now()

    def is_unknown(self, job: JobRecord) -> bool:
        """Nobody can say now what became of it."""
        return self.polled_at == float("-inf") or bool(self.trouble(job.user))

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

    def trouble(self, user: str = "") -> str:
        """Why nothing is known of their jobs now; empty: it is. Of the master's own: of nobody's."""
        found = self._troubles.get("") or self._troubles.get(user)
        return "" if found is None else found.why

    def is_held(self, user: str = "") -> bool:
        """They are not asked for until later."""
        found = self._troubles.get(user)
        return found is not None and found.until > self.now()

    def hold(self, user: str, error: BatchSystemError, since: float) -> None:
        """What was called as this user since then failed."""
        old = self._troubles.get(user)
        tries, now = 1 if old is None else old.tries + 1, self.now()
        if old is None or old.why != error.message:
            what = (
                f"jobs of {user} cannot be asked for"
                if user
                else "the batch system does not answer"
            )
            log.warning("%s: %s", what, error.message)
        pause_s = max(min(LAST_RETRY_S, 2.0**tries), SHARE * (now - since))
        self._troubles[user] = _Trouble(error.message, now + pause_s, tries)

    def heard(self, user: str = "") -> None:
        self._troubles.pop(user, None)

    async def ask_site(self) -> SiteFacts:
        self.site = await self.system.site()
        return self.site

    async def poll(self, jobs: Iterable[JobRecord]) -> Mapping[str, JobReport | None]:
        """By name, of those that can be told of. None: unknown to a scheduler that did answer."""
        by_user: defaultdict[str, list[str]] = defaultdict(list)
        for job in jobs:
            by_user[job.user].append(job.job_name)
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(user: str, names: list[str]) -> Mapping[str, JobReport | None]:
            async with turns:
                found = await self._asked(user, lambda system: system.poll(names))
            return {} if found is None else {name: found.get(name) for name in names}

        told: dict[str, JobReport | None] = {}
        for some in await asyncio.gather(*(ask(*one) for one in by_user.items())):
            told |= some
        self.polled_at = self.now()
        return told

    async def confirmed(
        self, job: JobRecord, told: JobReport | None
    ) -> tuple[JobReport | None, bool]:
        """What became of it, None: the site does not know it; and whether that is known.

        `told`: by a list. One that says that it is over, or leaves it out, counts when the site, asked for it alone,
        says so too.
        """
        job_id = job.job_id if told is None else told.job_id
        if job_id is None or (told is not None and told.phase is not JobPhase.ENDED):
            return told, True
        found = await self._asked(job.user, lambda system: system.look_up(job_id))
        return found or told, found is not None or not self.trouble(job.user)

    async def by_name(self, job: JobRecord) -> JobReport | None:
        """That one alone, listed or not: nobody knows yet whether it was submitted."""
        found = await self._asked(job.user, lambda system: system.poll([job.job_name]))
        return (found or {}).get(job.job_name)

    async def all_own(self, prefix: str) -> Mapping[str, JobReport]:
        """All of the master's own with such names, by name. A site that does not answer is held here."""
        begun = self.now()
        try:
            found = {job.name: job for job in await self.named_like("", prefix)}
        except NoAnswer as error:
            self.hold("", error, begun)
            raise
        self.heard()
        self.polled_at = begun
        return found

    async def named_like(self, user: str, prefix: str) -> Sequence[JobReport]:
        """Jobs of this user with such names; none where they cannot be asked for."""
        return await self._asked(user, lambda system: system.named_like(prefix)) or ()

    async def cancel(self, jobs: Iterable[tuple[str, str]]) -> None:
        """By user and id. What the site does not do is tried again later."""
        ids: defaultdict[str, list[str]] = defaultdict(list)
        for user, job_id in jobs:
            ids[user].append(job_id)
        if ids:
            await self.check_lease()
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
        if user and self.is_held(user):
            return None
        since = self.now()
        try:
            found = await call(self.of(user))
        except (JobRefused, NoAnswer) as error:
            if not user:
                raise
            self.hold(user, error, since)
            return None
        if user:
            self.heard(user)
        return found
