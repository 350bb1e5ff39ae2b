"""A site that several parts of one master ask: about jobs of their own, and about pilots.

Each asks at its own pace. A list of jobs that another part has just been given is given again: so those who ask every
10 seconds soon ask together, and the site answers one query for all of them.
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from provisioner.batch.base import BatchSystem, ForeignJob, JobReport, JobSpec, SiteFacts
from windlass.base.clock import Clock

OLDEST_S = 5.0
"""How old a list may be that is given again: half of what passes between two queries of one part."""
SHARE = 10
"""While jobs change, parts ask more often: a list is given again for this part of the time without a change."""
SITE_FRESH_S = 30.0


@dataclass(frozen=True, slots=True)
class JobListing:
    at: float
    """When it was asked for."""
    jobs: Mapping[str, JobReport]
    """By name."""


@dataclass(slots=True)
class SharedSite:
    """`part` for each who asks."""

    system: BatchSystem
    prefixes: tuple[str, ...]
    """The name of each of our jobs begins with one of them."""
    clock: Clock
    _listing: JobListing | None = None
    _site: tuple[float, SiteFacts] | None = None
    _changed_at: float = float("-inf")
    """When a job was last submitted or ended by us, or a list differed from the one before it."""
    _listing_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _site_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def part(self) -> BatchSystem:
        return _Part(self)

    async def site(self, newer_than: float) -> tuple[float, SiteFacts]:
        """With when it was asked. `newer_than`: as of `listing`."""
        async with self._site_lock:
            now, old = self.clock.monotonic(), self._site
            if old is None or old[0] <= newer_than or now - old[0] > SITE_FRESH_S:
                old = now, await self.system.site()
                self._site = old
            return old

    async def listing(self, newer_than: float) -> JobListing:
        """Of all our jobs. `newer_than`: when the one was asked for that is known already."""
        async with self._listing_lock:
            now, old = self.clock.monotonic(), self._listing
            oldest_s = min(OLDEST_S, (now - self._changed_at) / SHARE)
            if (
                old is not None
                and max(newer_than, self._changed_at) < old.at
                and now - old.at <= oldest_s
            ):
                return old
            common = os.path.commonprefix(self.prefixes)  # noqa: RUF071 - of names
            found = await self.system.named_like(common)
            jobs = {job.name: job for job in found if job.name.startswith(self.prefixes)}
            if old is None or jobs != old.jobs:
                self._changed_at = now
            self._listing = JobListing(now, jobs)
            return self._listing

    @contextmanager
    def change(self) -> Iterator[None]:
        """No list that was asked for before its end tells of it, whatever became of it."""
        try:
            yield
        finally:
            self._changed_at = self.clock.monotonic()


class _Part:
    """Implements BatchSystem."""

    def __init__(self, shared: SharedSite) -> None:
        self._shared = shared
        self._system = shared.system
        self._heard_at = float("-inf")
        self._site_heard_at = float("-inf")

    @property
    def name(self) -> str:
        return self._system.name

    @property
    def most_tasks(self) -> int:
        return self._system.most_tasks

    async def site(self) -> SiteFacts:
        """Never the same twice: who asks again soon has a reason, such as a refusal by what it heard."""
        self._site_heard_at, found = await self._shared.site(self._site_heard_at)
        return found

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        """What the list lacks is asked for by name: it may be over."""
        listed = await self._listed()
        found = {name: listed[name] for name in names if name in listed}
        missing = [name for name in names if name not in found]
        return {**found, **await self._system.poll(missing)} if missing else found

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        return [job for name, job in (await self._listed()).items() if name.startswith(prefix)]

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        return await self._system.in_queue(queue)

    async def look_up(self, job_id: str) -> JobReport | None:
        return await self._system.look_up(job_id)

    async def submit(self, job: JobSpec) -> str:
        with self._shared.change():
            return await self._system.submit(job)

    async def cancel(self, job_ids: Collection[str]) -> None:
        with self._shared.change():
            await self._system.cancel(job_ids)

    async def signal(self, job_id: str, signal: str) -> None:
        with self._shared.change():
            await self._system.signal(job_id, signal)

    async def _listed(self) -> Mapping[str, JobReport]:
        found = await self._shared.listing(self._heard_at)
        self._heard_at = found.at
        return found.jobs
