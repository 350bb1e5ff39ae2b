"""Batch jobs as machines of elastic pools: each launch is one job, and our agents on its nodes take many tasks.

    launch() ── written down, submitted ──> group ── has nodes ──> machines ── over ──> ended, forgotten later

A job is found by its name, which comes from the launch's token, or from those of all that were submitted as one array
(`submissions.py`). The site is asked with one call for all jobs. What it does not answer is unknown: an end is believed
when the site says it, or when it twice, `PROOF_S` apart, does not know the job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from provisioner.batch.base import (
    ARRIVAL_S,
    PILOTS,
    PROOF_S,
    SITE_EVERY_S,
    BatchSystem,
    EndCause,
    JobPhase,
    JobRefused,
    JobReport,
    NoAnswer,
    job_prefix,
)
from provisioner.batch.collector import EndCollector
from provisioner.batch.disks import Disk
from provisioner.capacity.refusals import BlockKind
from provisioner.leases import job_record
from provisioner.leases.job_record import JobEnd, tag_of
from provisioner.leases.job_views import BatchJobView
from provisioner.leases.poller import JobPoller
from provisioner.leases.shapes import job_shape
from provisioner.leases.unclaimed_jobs import UnclaimedJobs
from provisioner.ports import PilotHost
from provisioner.providers.base import (
    Accepted,
    CannotStop,
    FoundInstance,
    Inventory,
    LaunchAnswer,
    LaunchIntent,
    LaunchResult,
    LimitedCall,
    Rate,
)
from provisioner.providers.errors import Refusal
from provisioner.providers.pilots.answers import (
    DELIVERED,
    accepted,
    machines,
    refusal,
    refusal_of_queued,
    seen,
    time_is_over,
    waiting_group,
)
from provisioner.providers.pilots.book import SHAPES, Pilot, PilotBook
from provisioner.providers.pilots.job_views import job_view
from provisioner.providers.pilots.nodes import AVOIDED_S, avoided, noted_nodes
from provisioner.providers.pilots.offers import PilotOptions, offers_of, queue_of, sold_as
from provisioner.providers.pilots.stages import PilotStages
from provisioner.providers.pilots.submissions import GATHER_S, SUBMISSIONS, Submissions
from provisioner.types import Offer
from windlass.base.clock import Clock
from windlass.base.formats.json_types import JsonMapping

log = logging.getLogger(__name__)

FRESH_S = 5.0
"""Who asks for one launch hears what the last list said."""
KEEP_S = 600.0
"""How long the end of a job is told, and its directory kept."""
TERMINATIONS = Rate(burst=10, per_s=2)


class PilotProvider(CannotStop):
    """Implements `provisioner.providers.base.Provider`: one site, by one user."""

    list_grace_s = 0.0

    def __init__(
        self,
        *,
        name: str,
        system: BatchSystem,
        pools: Sequence[PilotOptions],
        book: PilotBook,
        token: Callable[[Pilot], str],
        clock: Clock,
        cluster_id: str,
        disk: Disk,
        check_lease: Callable[[], Awaitable[None]],
        host: PilotHost,
        gather_s: float = GATHER_S,
        proof_s: float = PROOF_S,
        arrival_s: float = ARRIVAL_S,
        fresh_s: float = FRESH_S,
        list_every_s: float | None = None,
    ) -> None:
        """`token`: what the agents of a job join with. `check_lease`: as `FleetStore` has it."""
        self._name = name
        self._system = system
        self._poller = JobPoller(system, check_lease, now=clock.monotonic)
        self.pools = tuple(pools)
        self._book = book
        self._disk = disk
        self._clock = clock
        self._cluster_id = cluster_id
        self._prefix = job_prefix(PILOTS, cluster_id)
        self._unclaimed = UnclaimedJobs(self._poller, self._prefix)
        self._submissions = Submissions(
            system, book, disk, token, clock, prefix=self._prefix, gather_s=gather_s
        )
        self._arrival_s = arrival_s
        self._proof_s, self._fresh_s, self._every_s = proof_s, fresh_s, list_every_s
        self._seen: dict[str, JobReport] = {}
        """What the site last said of the jobs in the book."""
        self._submitted: dict[str, float] = {}
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self._launching: dict[str, asyncio.Lock] = {}
        self._collector = EndCollector(self._note_change)
        self._host = host
        self._stages = PilotStages(host, disk, clock.monotonic)

    @property
    def name(self) -> str:
        return self._name

    @property
    def rates(self) -> Mapping[LimitedCall, Rate]:
        """Of launches: what comes together may be one submission, and these are paced by themselves."""
        most = self._system.most_tasks
        launches = Rate(burst=most, per_s=most) if most > 1 else SUBMISSIONS
        return {LimitedCall.LAUNCH: launches, LimitedCall.TERMINATE: TERMINATIONS}

    @property
    def list_every_s(self) -> float:
        if self._every_s is not None:
            return self._every_s
        return self._poller.every_s

    def is_live(self, tag: str) -> bool:
        """Whether agents may still join with the token of that job."""
        pilot = self._book.get(tag)
        return pilot is not None and pilot.ended_at is None and not pilot.cancelled

    def may_be_away(self, agent_id: str) -> bool:
        """Its job is over and still to be told of, is suspended, or nobody can say now whether it runs."""
        pilot = self._book.get(tag_of(agent_id))
        if pilot is None or pilot.ended_at is not None:
            return False
        job = self._seen.get(pilot.tag)
        paused = job is not None and job.phase is JobPhase.PAUSED
        return paused or pilot.over_at is not None or self._poller.is_unknown(pilot)

    def batch_jobs(self) -> Sequence[BatchJobView]:
        """Those that are not over."""
        found = ((pilot, self._seen.get(pilot.tag)) for pilot in self._book)
        views = (job_view(pilot, job, self._stages.words(pilot, job)) for pilot, job in found)
        return tuple(view for view in views if view is not None)

    def offers(self, pool: str) -> Sequence[Offer] | None:
        sold = self._offers(pool)
        buys = any(options.pool == pool for options in self.pools)
        return None if buys and self._poller.site is None else sold

    def could_offer(self, pool: str) -> Sequence[Offer]:
        return self._offers(pool)

    async def open(self) -> None:
        await self._poller.ask_site()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._collector.run())
            tasks.create_task(self._follow_site())

    async def _follow_site(self) -> None:
        while True:
            await asyncio.sleep(SITE_EVERY_S)
            with suppress(NoAnswer):  # lists say so
                await self._poller.ask_site()

    async def close(self) -> None:
        """Jobs stay."""

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        options, walltime_s = sold_as(self._name, self.pools, self._poller.site, intent)
        queue, files = queue_of(options, self._poller.site), options.files
        shape = job_shape(options.section, queue, intent.count, intent.offer.slots)
        return {
            "shape": SHAPES.dump_python(replace(shape, walltime_s=walltime_s), mode="json"),
            "root": str(files.root),
            "python": files.python,
            "agent": dict(files.agent),
            "prologue": list(files.prologue),
        }

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        tag = f"{self._prefix}{intent.token[:16]}"
        async with self._launching.setdefault(tag, asyncio.Lock()):
            pilot = self._book.get(tag)
            if pilot is None:
                return await self._submit(Pilot(tag=tag, intent=intent, written_at=self._now()))
            if pilot.job_id is None:
                return await self._submit_if_absent(pilot)
        return await self.answer(tag)

    async def answer(self, handle: str) -> LaunchAnswer:
        await self._look(self._fresh_s)
        pilot = self._book.get(handle)
        if pilot is not None and pilot.refused:
            raise refusal_of_queued(pilot)
        if pilot is None or (pilot.ended_at is not None and not pilot.ran):
            how = pilot.how if pilot is not None else "the job ended without nodes"
            raise Refusal(BlockKind.CAPACITY, how)
        job = self._seen.get(handle)
        if pilot.over_at is None and (job is None or job.phase not in DELIVERED):
            return accepted(pilot, job, self._system.name)
        return LaunchResult(
            instance_ids=pilot.agents, started_at=None if job is None else job.starts_at
        )

    async def cancel(self, handle: str) -> None:
        pilot = self._book.get(handle)
        if pilot is None or pilot.over_at is not None:
            return
        job_id = pilot.job_id
        if job_id is None and (job := await self._poller.by_name(pilot)) is not None:
            job_id = job.job_id
        await self._put(pilot, partial(replace, cancelled=True, job_id=job_id))
        if job_id is not None:
            await self._system.cancel([job_id])
        self._note_change()

    async def list(self) -> Inventory:
        await self._look(0.0)
        for agent_id in [agent_id for pilot in self._book for agent_id in pilot.unused]:
            self._host.drain(agent_id)
        return Inventory(
            instances=tuple(one for pilot in self._book for one in self._machines(pilot)),
            groups=tuple(
                waiting_group(pilot, job, self._system.name)
                for pilot in self._book
                if not pilot.cancelled
                and pilot.ended_at is None
                and (job := self._seen.get(pilot.tag)) is not None
                and job.phase not in DELIVERED
            ),
        )

    def _machines(self, pilot: Pilot) -> Sequence[FoundInstance]:
        job = self._seen.get(pilot.tag)
        return machines(pilot, job, self._stages.words(pilot, job))

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """Whole jobs."""
        tags = {tag_of(id_) for id_ in instance_ids}
        found = [pilot for tag in tags if (pilot := self._book.get(tag)) is not None]
        job_ids = [pilot.job_id for pilot in found if pilot.job_id and pilot.over_at is None]
        if job_ids:
            await self._system.cancel(job_ids)
            self._note_change()

    async def console(self, instance_id: str) -> str:
        """What keeps its agents from the master; else the last line of the log of its job."""
        pilot = self._book.get(tag_of(instance_id))
        if pilot is None:
            return ""
        return await asyncio.to_thread(pilot.files_on(self._disk).said, pilot)

    # Submissions

    async def _submit(self, pilot: Pilot) -> Accepted:
        nodes = avoided(self._book, pilot.pool, self._host, self._poller.site)
        try:
            job_id = await self._submissions.submit(pilot, nodes)
        except JobRefused as error:
            await self._forget(pilot)
            raise refusal(pilot, error, nodes) from None
        except NoAnswer as error:
            await self._put(pilot, partial(job_record.unanswered, why=error))
            raise TimeoutError(error.message) from None
        except OSError as error:
            await self._forget(pilot)
            text = f"the directory of its job cannot be written: {error.filename}: {error.strerror}"
            raise Refusal(BlockKind.UNKNOWN, text) from None
        job = JobReport(job_id=job_id, name=pilot.tag, phase=JobPhase.QUEUED, state="submitted")
        self._submitted[pilot.tag] = self._clock.monotonic()
        self._seen[pilot.tag] = job
        await self._put(pilot, partial(job_record.submitted, job_id=job_id))
        log.info("job %s submitted as %s", pilot.tag, job_id)
        return accepted(pilot, job, self._system.name)

    async def _submit_if_absent(self, pilot: Pilot) -> LaunchAnswer:
        """Nobody knows whether the site took it."""
        try:
            job = await self._poller.by_name(pilot)
        except NoAnswer as error:
            raise TimeoutError(error.message) from None
        if job is not None:
            await self._put(pilot, partial(job_record.submitted, job_id=job.job_id))
            self._looked_at = float("-inf")
            return await self.answer(pilot.tag)
        now = self._now()
        proof = {"proof_s": self._proof_s, "arrival_s": self._arrival_s}
        if job_record.is_surely_absent(job_record.missed(pilot, now), now, **proof):
            return await self._submit(pilot)
        await self._put(pilot, partial(job_record.missed, now=now))
        raise TimeoutError(f"job {pilot.tag} was not answered for, and is being looked for")

    # What the site says

    async def _look(self, fresh_s: float) -> None:
        """One call for all jobs. Raises NoAnswer."""
        asked_at = self._clock.monotonic()
        async with self._looking:
            begun = self._clock.monotonic()
            if self._looked_at > asked_at or begun - self._looked_at < fresh_s:
                return
            try:
                found = await self._poller.all_own(self._prefix)
            except NoAnswer:
                for one in self._book:
                    await self._put(one, job_record.in_doubt)
                raise
            for tag in [pilot.tag for pilot in self._book]:
                if (pilot := self._book.get(tag)) is None:
                    continue
                if pilot.over_at is not None and pilot.ended_at is None:
                    await self._collect(pilot)
                elif pilot.ended_at is None:
                    await self._take(pilot, found.get(pilot.job_name), begun)
                elif self._now() - pilot.ended_at > (AVOIDED_S if pilot.disabled else KEEP_S):
                    await self._forget(pilot)
            await self._end_unwanted(found)
            self._looked_at = begun

    async def _take(self, pilot: Pilot, job: JobReport | None, begun: float) -> None:
        if job is None and self._submitted.get(pilot.tag, float("-inf")) >= begun:
            return
        job, _ = await self._poller.confirmed(pilot, job)
        await (self._miss(pilot) if job is None else self._see(pilot, job))

    async def _see(self, pilot: Pilot, job: JobReport) -> None:
        tag, now = pilot.tag, self._now()
        if job.phase is JobPhase.ENDED:
            await self._end(pilot, job_record.end_of(job, now))
            return
        await self._stages.look(pilot, job)
        if self._seen.get(tag) != job:
            self._note_change()
        self._seen[tag] = job
        delivered = job.phase in DELIVERED
        nodes = noted_nodes(pilot, job, self._book, self._host, delivered=delivered)
        await self._put(pilot, lambda one: replace(seen(one, job, now, self._system.name), **nodes))

    async def _miss(self, pilot: Pilot) -> None:
        """The site answered, and does not know it."""
        now = self._now()
        if pilot.job_id is None:
            launching = self._launching.get(pilot.tag)
            if launching is not None and launching.locked():
                return  # it is being submitted
            if now - pilot.written_at > KEEP_S:
                await self._forget(pilot)  # its launch was given up
            return
        pilot = await self._put(pilot, partial(job_record.missed, now=now))
        own = await asyncio.to_thread(pilot.files_on(self._disk).own_record, pilot)
        system, waited = self._system.name, not pilot.ran
        end = job_record.end_of_missed(
            pilot, now, own, system=system, waited=waited, proof_s=self._proof_s
        )
        if end is not None:
            await self._end(pilot, end)
        elif pilot.tag not in self._seen:
            phase = JobPhase.RUNNING if pilot.ran else JobPhase.QUEUED
            self._seen[pilot.tag] = JobReport(
                job_id=pilot.job_id or "",
                name=pilot.tag,
                phase=phase,
                state="not known to the site",
            )

    async def _end(self, pilot: Pilot, end: JobEnd) -> None:
        cause, last, now = end.cause, self._seen.get(pilot.tag), self._now()
        if cause is EndCause.CANCELLED and last and time_is_over(pilot, last, now):
            cause = EndCause.TIMEOUT
        how = job_record.end_words(
            f"job {pilot.job_id or pilot.tag}", cause, end.nodes, end.exit_code
        )
        files = pilot.files_on(self._disk)
        if cause in (EndCause.FAILED, EndCause.LAUNCH_FAILED):
            said = await asyncio.to_thread(files.why_it_ended, pilot, cause)
            how = f"{how}: {said}" if said else how
        left = await asyncio.to_thread(files.has_left, pilot)
        over = partial(
            replace,
            ran=pilot.ran or bool(end.nodes),
            over_at=now,
            bad_before=job_record.bad_ends_count_before(cause, end.at),
            ended_at=None if left else now,
            cause=cause,
            how=how,
        )
        await self._put(pilot, over)
        self._seen.pop(pilot.tag, None)
        self._note_change()
        log.info("%s", how)

    async def _collect(self, pilot: Pilot) -> None:
        """Its machines count as there until that is told."""
        if self._collector.is_done(pilot, pilot.files_on(self._disk), pilot.bad_before):
            self._collector.forget(pilot)
            await self._put(pilot, partial(replace, ended_at=self._now()))
            self._note_change()

    async def _end_unwanted(self, found: Mapping[str, JobReport]) -> None:
        pilots, now = {pilot.job_name: pilot for pilot in self._book}, self._now()
        over = [
            ("", job.job_id)
            for name, job in found.items()
            if name in pilots and time_is_over(pilots[name], job, now)
        ]
        await self._poller.cancel(over)
        wanted = {name for name, pilot in pilots.items() if not pilot.cancelled}
        await self._unclaimed.end((("", job) for job in found.values()), wanted)

    async def _forget(self, pilot: Pilot) -> None:
        """Nothing more is to be told of it."""
        pilot = self._book.get(pilot.tag) or pilot
        await asyncio.to_thread(pilot.files_on(self._disk).remove, pilot)
        await asyncio.to_thread(self._book.drop, pilot.tag)
        for known in (self._seen, self._submitted, self._launching):
            known.pop(pilot.tag, None)
        self._stages.forget(pilot.tag)

    # Small things

    def _offers(self, pool: str) -> Sequence[Offer]:
        queued = sum(
            pilot.intent.count
            for pilot in self._book
            if pilot.pool == pool and pilot.ended_at is None and not pilot.ran
        )
        return tuple(
            offer
            for options in self.pools
            if options.pool == pool
            for offer, _ in offers_of(self._name, options, self._poller.site, queued)
        )

    async def _put(self, pilot: Pilot, step: Callable[[Pilot], Pilot]) -> Pilot:
        known = self._book.get(pilot.tag)
        if known is not None and step(known) == known:
            return known
        return await asyncio.to_thread(self._book.put, pilot, step)

    def _note_change(self) -> None:
        self._poller.note_change()
        self._looked_at = float("-inf")

    def _now(self) -> float:
        return self._clock.now().timestamp()
