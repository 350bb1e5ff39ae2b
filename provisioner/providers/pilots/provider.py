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
    SiteFacts,
    bad_ends_count_before,
    end_words,
    job_prefix,
    look_every_s,
    to_confirm,
)
from provisioner.batch.collector import EndCollector
from provisioner.batch.disks import Disk
from provisioner.capacity.refusals import BlockKind
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
    accepted,
    machines,
    refusal,
    refusal_of_queued,
    time_is_over,
    unwanted,
    verdict,
    waiting_group,
)
from provisioner.providers.pilots.book import SHAPES, Pilot, PilotBook
from provisioner.providers.pilots.nodes import AVOIDED_S, avoided, noted_nodes
from provisioner.providers.pilots.offers import PilotOptions, offers_of, queue_of, shape_of, sold_as
from provisioner.providers.pilots.stages import PilotStages
from provisioner.providers.pilots.submissions import GATHER_S, SUBMISSIONS, Submissions
from provisioner.types import Offer
from windlass.base.clock import Clock
from windlass.base.errors import BatchSystemError
from windlass.base.json_types import JsonMapping

log = logging.getLogger(__name__)

FRESH_S = 5.0
"""Who asks for one launch hears what the last list said."""
KEEP_S = 600.0
"""How long the end of a job is told, and its directory kept."""
TERMINATIONS = Rate(burst=10, per_s=2)
_DELIVERED = (JobPhase.RUNNING, JobPhase.PAUSED, JobPhase.ENDING)


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
        self.pools = tuple(pools)
        self._book = book
        self._disk = disk
        self._check_lease = check_lease
        self._clock = clock
        self._cluster_id = cluster_id
        self._prefix = job_prefix(PILOTS, cluster_id)
        self._submissions = Submissions(
            system, book, disk, token, clock, prefix=self._prefix, gather_s=gather_s
        )
        self._arrival_s = arrival_s
        self._proof_s, self._fresh_s, self._every_s = proof_s, fresh_s, list_every_s
        self._site: SiteFacts | None = None
        self._seen: dict[str, JobReport] = {}
        """What the site last said of the jobs in the book."""
        self._absent: dict[str, float] = {}
        """Since when it does not know one of them."""
        self._submitted: dict[str, float] = {}
        self._not_running: set[str] = set()
        """Those whose submission was not answered, and certainly runs no more."""
        self._strange: frozenset[str] = frozenset()
        self._looked_at = float("-inf")
        self._changed_at = 0.0
        self._looking = asyncio.Lock()
        self._launching: dict[str, asyncio.Lock] = {}
        self._heard_since: float | None = None
        """Since when the site has answered, each time. None: not since the start, or not the last time."""
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
        return look_every_s(self._clock.monotonic() - self._changed_at)

    def is_live(self, tag: str) -> bool:
        """Whether agents may still join with the token of that job."""
        pilot = self._book.get(tag)
        return pilot is not None and pilot.ended_at is None and not pilot.cancelled

    def may_be_away(self, agent_id: str) -> bool:
        """Its job is over and still to be told of, is suspended, or nobody can say now whether it runs."""
        pilot = self._book.get(agent_id.rpartition("-")[0])
        if pilot is None or pilot.ended_at is not None:
            return False
        job = self._seen.get(pilot.tag)
        paused = job is not None and job.phase is JobPhase.PAUSED
        return paused or pilot.over_at is not None or self._heard_since is None

    def offers(self, pool: str) -> Sequence[Offer] | None:
        sold = self._offers(pool)
        buys = any(options.pool == pool for options in self.pools)
        return None if buys and self._site is None else sold

    def could_offer(self, pool: str) -> Sequence[Offer]:
        return self._offers(pool)

    async def open(self) -> None:
        self._site = await self._system.site()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._collector.run())
            tasks.create_task(self._follow_site())

    async def _follow_site(self) -> None:
        while True:
            await asyncio.sleep(SITE_EVERY_S)
            with suppress(NoAnswer):  # lists say so
                self._site = await self._system.site()

    async def close(self) -> None:
        """Jobs stay."""

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        options, walltime_s = sold_as(self._name, self.pools, self._site, intent)
        queue = queue_of(options, self._site)
        shape = shape_of(options, intent.offer, walltime_s, intent.count, queue)
        files = options.files
        return {
            "shape": SHAPES.dump_python(shape, mode="json"),
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
        if pilot.over_at is None and (job is None or job.phase not in _DELIVERED):
            return accepted(pilot, job, self._system.name)
        return LaunchResult(
            instance_ids=pilot.agents, started_at=None if job is None else job.starts_at
        )

    async def cancel(self, handle: str) -> None:
        pilot = self._book.get(handle)
        if pilot is None or pilot.over_at is not None:
            return
        job_id = pilot.job_id
        if job_id is None and (job := await self._found(pilot)) is not None:
            job_id = job.job_id
        await self._put(pilot, cancelled=True, job_id=job_id)
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
                and job.phase not in _DELIVERED
            ),
        )

    def _machines(self, pilot: Pilot) -> Sequence[FoundInstance]:
        job = self._seen.get(pilot.tag)
        return machines(pilot, job, self._stages.words(pilot, job))

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """Whole jobs."""
        tags = {id_.rpartition("-")[0] for id_ in instance_ids}
        found = [pilot for tag in tags if (pilot := self._book.get(tag)) is not None]
        job_ids = [pilot.job_id for pilot in found if pilot.job_id and pilot.over_at is None]
        if job_ids:
            await self._system.cancel(job_ids)
            self._note_change()

    async def console(self, instance_id: str) -> str:
        """What keeps its agents from the master; else the last line of the log of its job."""
        pilot = self._book.get(instance_id.rpartition("-")[0])
        if pilot is None:
            return ""
        return await asyncio.to_thread(pilot.files_on(self._disk).said, pilot)

    # Submissions

    async def _submit(self, pilot: Pilot) -> Accepted:
        self._not_running.discard(pilot.tag)
        nodes = avoided(self._book, pilot.pool, self._host, self._site)
        try:
            job_id = await self._submissions.submit(pilot, nodes)
        except JobRefused as error:
            await self._forget(pilot)
            raise refusal(pilot, error, nodes) from None
        except NoAnswer as error:
            if not error.may_run:
                self._not_running.add(pilot.tag)
            raise TimeoutError(error.message) from None
        except OSError as error:
            await self._forget(pilot)
            text = f"the directory of its job cannot be written: {error.filename}: {error.strerror}"
            raise Refusal(BlockKind.UNKNOWN, text) from None
        job = JobReport(job_id=job_id, name=pilot.tag, phase=JobPhase.QUEUED, state="submitted")
        self._submitted[pilot.tag] = self._clock.monotonic()
        self._seen[pilot.tag] = job
        await self._put(pilot, job_id=job_id)
        log.info("job %s submitted as %s", pilot.tag, job_id)
        return accepted(pilot, job, self._system.name)

    async def _submit_if_absent(self, pilot: Pilot) -> LaunchAnswer:
        """Nobody knows whether the site took it."""
        try:
            job = await self._found(pilot)
        except NoAnswer as error:
            raise TimeoutError(error.message) from None
        if job is not None:
            await self._put(pilot, job_id=job.job_id)
            self._looked_at = float("-inf")
            return await self.answer(pilot.tag)
        now = self._now()
        since = self._absent.setdefault(pilot.tag, now)
        proof_s = self._proof_s if pilot.tag in self._not_running else self._arrival_s
        if now - since < proof_s:
            raise TimeoutError(f"job {pilot.tag} was not answered for, and is being looked for")
        del self._absent[pilot.tag]
        return await self._submit(pilot)

    async def _found(self, pilot: Pilot) -> JobReport | None:
        """By its name. Raises NoAnswer."""
        return (await self._system.poll([pilot.job_name])).get(pilot.job_name)

    # What the site says

    async def _look(self, fresh_s: float) -> None:
        """One call for all jobs. Raises NoAnswer."""
        asked_at = self._clock.monotonic()
        async with self._looking:
            begun = self._clock.monotonic()
            if self._looked_at > asked_at or begun - self._looked_at < fresh_s:
                return
            try:
                found = {job.name: job for job in await self._system.named_like(self._prefix)}
            except NoAnswer:
                self._heard_since = None
                raise
            self._heard_since = self._heard_since or self._now()
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
        if (job_id := to_confirm(job, pilot.job_id)) is not None:
            job = await self._system.look_up(job_id) or job
        await (self._miss(pilot) if job is None else self._see(pilot, job))

    async def _see(self, pilot: Pilot, job: JobReport) -> None:
        tag = pilot.tag
        self._absent.pop(tag, None)
        if job.phase is JobPhase.ENDED:
            await self._end(pilot, job)
            return
        await self._stages.look(pilot, job)
        delivered = job.phase in _DELIVERED
        known = pilot.ends_at if pilot.ends_at is not None or not delivered else job.ends_at
        if self._seen.get(tag) != job:
            self._note_change()
        self._seen[tag] = job
        await self._put(
            pilot,
            job_id=job.job_id,
            ran=pilot.ran or delivered,
            ends_at=known,
            **verdict(pilot, job, self._now(), self._heard_since or 0.0, self._system.name),
            **noted_nodes(pilot, job, self._book, self._host, delivered=delivered),
        )

    async def _miss(self, pilot: Pilot) -> None:
        """The site answered, and does not know it."""
        if pilot.job_id is None:
            launching = self._launching.get(pilot.tag)
            if launching is not None and launching.locked():
                return  # it is being submitted
            if self._now() - pilot.written_at > KEEP_S:
                await self._forget(pilot)  # its launch was given up
            return
        if self._now() - self._absent.setdefault(pilot.tag, self._now()) >= self._proof_s:
            await self._end(pilot, None)
        elif pilot.tag not in self._seen:
            phase = JobPhase.RUNNING if pilot.ran else JobPhase.QUEUED
            self._seen[pilot.tag] = JobReport(
                job_id=pilot.job_id, name=pilot.tag, phase=phase, state="not known to the site"
            )

    async def _end(self, pilot: Pilot, job: JobReport | None) -> None:
        cause = None if job is None else job.cause
        seen = self._seen.get(pilot.tag)
        if cause is EndCause.CANCELLED and seen and time_is_over(pilot, seen, self._now()):
            cause = EndCause.TIMEOUT
        nodes = () if job is None else job.nodes
        code = None if job is None else job.exit_code
        how = end_words(f"job {pilot.job_id or pilot.tag}", cause, nodes, code)
        files = pilot.files_on(self._disk)
        if cause in (EndCause.FAILED, EndCause.LAUNCH_FAILED):
            said = await asyncio.to_thread(files.why_it_ended, pilot, cause)
            how = f"{how}: {said}" if said else how
        at, now = None if job is None else job.ends_at, self._now()
        await self._put(
            pilot,
            ran=pilot.ran or bool(nodes),
            over_at=now,
            bad_before=bad_ends_count_before(cause, now if at is None else min(at, now)),
            ended_at=None if await asyncio.to_thread(files.has_left, pilot) else now,
            cause=cause,
            how=how,
        )
        self._seen.pop(pilot.tag, None)
        self._absent.pop(pilot.tag, None)
        self._note_change()
        log.info("%s", how)

    async def _collect(self, pilot: Pilot) -> None:
        """Its machines count as there until that is told."""
        if self._collector.is_done(pilot, pilot.files_on(self._disk), pilot.bad_before):
            self._collector.forget(pilot)
            await self._put(pilot, ended_at=self._now())
            self._note_change()

    async def _end_unwanted(self, found: Mapping[str, JobReport]) -> None:
        """Strange ones are looked at twice: one may just have been forgotten."""
        strange, over = unwanted(found, self._book, self._now())
        again = sorted(strange[name] for name in strange.keys() & self._strange)
        self._strange = frozenset(strange)
        if not again and not over:
            return
        await self._check_lease()
        if again:
            log.warning("jobs that nobody asked for are cancelled: %s", ", ".join(again))
        try:
            await self._system.cancel([*again, *over])
        except NoAnswer:
            raise
        except BatchSystemError as error:
            log.warning("jobs %s are not cancelled: %s", ", ".join([*again, *over]), error.message)

    async def _forget(self, pilot: Pilot) -> None:
        """Nothing more is to be told of it."""
        pilot = self._book.get(pilot.tag) or pilot
        await asyncio.to_thread(pilot.files_on(self._disk).remove, pilot)
        await asyncio.to_thread(self._book.drop, pilot.tag)
        for known in (self._seen, self._absent, self._submitted, self._launching):
            known.pop(pilot.tag, None)
        self._not_running.discard(pilot.tag)
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
            for offer, _ in offers_of(self._name, options, self._site, queued)
        )

    async def _put(self, pilot: Pilot, **changes: object) -> None:
        if pilot.model_copy(update=changes) != self._book.get(pilot.tag):
            await asyncio.to_thread(self._book.put, pilot, **changes)

    def _note_change(self) -> None:
        self._changed_at = self._clock.monotonic()
        self._looked_at = float("-inf")

    def _now(self) -> float:
        return self._clock.now().timestamp()
