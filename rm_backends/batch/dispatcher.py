"""The loop between the pools that dispatch and their batch system: one job for each request that waits.

A pass: take note of what is wanted, commit it, ask the site, commit what it said, tell the pools. One pass at a time,
and nothing else changes a lease. A site that does not answer is asked again later; nothing is concluded from that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from master.core.reasons import ReasonKind
from provisioner.batch.base import (
    DISPATCHED,
    SITE_EVERY_S,
    BatchSystem,
    ForeignJob,
    JobPhase,
    JobRefused,
    JobReport,
    NoAnswer,
    Queue,
    SiteFacts,
    job_prefix,
)
from provisioner.batch.collector import EndCollector
from provisioner.batch.impersonation import SiteUsers
from provisioner.batch.job_files import JobFiles, OwnRecord
from provisioner.batch.stages import JOIN_S
from provisioner.leases.job_record import bad_ends_count_before, in_doubt, tag_of
from provisioner.leases.job_views import BatchJobView
from provisioner.leases.poller import JobPoller
from provisioner.leases.unclaimed_jobs import UnclaimedJobs
from provisioner.types import PoolAvailability
from rm_backends.base import AllocationRequest
from rm_backends.batch import leases as life
from rm_backends.batch.dispatch_report import DispatchReport
from rm_backends.batch.full_limits import FullLimits
from rm_backends.batch.job_views import job_view
from rm_backends.batch.leases import Lease, LeaseState
from rm_backends.batch.others import OtherJobs
from rm_backends.batch.ports import LeaseHost, LeaseStore
from rm_backends.batch.shapes import DispatchOptions, require_user, shape_of, time_warnings
from windlass.base.clock import Clock
from windlass.base.errors import Unsatisfiable
from windlass.base.ids import Ids
from windlass.base.loop import Loop

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_EVERY_S = 1.0
SUBMITS_AT_ONCE = 10
"""In one pass; the next is a second later."""


class Dispatcher:
    """All pools of one site. `load` first, then `run` until cancelled. Without any it ends what earlier ones left."""

    def __init__(
        self,
        *,
        pools: Sequence[DispatchOptions],
        system: BatchSystem,
        host: LeaseHost,
        store: LeaseStore,
        files: Mapping[str, JobFiles],
        token: Callable[[Lease], str],
        clock: Clock,
        ids: Ids,
        cluster_id: str,
        check_lease: Callable[[], Awaitable[None]],
        site: SiteFacts | None = None,
        on_site: Callable[[SiteFacts], Awaitable[None]] | None = None,
        project_of: Callable[[Lease], Awaitable[str]] | None = None,
        users: SiteUsers | None = None,
    ) -> None:
        """`files` by pool; `token`: what the agents of a job join with. `check_lease`: as `FleetStore` has it.

        `site`: as it was when it was last asked; `on_site` is told what it says of itself. `project_of`: what a job is
        booked on. `users`: the site as other users than the master's, for jobs that are theirs.
        """
        self._pools = {options.pool: options for options in pools}
        self._poller = JobPoller(system, check_lease, users, clock.monotonic, site)
        self._host = host
        self._store = store
        self._files = files
        self._token = token
        self._clock = clock
        self._ids = ids
        self._prefix = job_prefix(DISPATCHED, cluster_id)
        self._on_site = on_site
        self._project_of = project_of
        self._others = OtherJobs(system, clock)
        self._full = FullLimits()
        self._site_at = float("-inf")
        self._leases: dict[str, Lease] = {}
        self._saved: dict[str, Lease] = {}
        self._told: dict[str, PoolAvailability] = {}
        self._starts_at: dict[str, float] = {}
        self._unclaimed = UnclaimedJobs(self._poller, self._prefix)
        self._collector = EndCollector(self.wake, None if users is None else users.before)
        self._loop = Loop("batch jobs", self._step, interval_s=LOOK_EVERY_S)

    def wake(self) -> None:
        self._loop.wake()

    async def load(self) -> None:
        """What was submitted before the last crash is found by its name."""
        self._leases = {lease.tag: in_doubt(lease) for lease in await self._store.load()}
        self._saved = dict(self._leases)
        self._publish()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._collector.run())
            tasks.create_task(self._loop.run())

    def is_live(self, tag: str) -> bool:
        """Whether agents may still join with the token of that job."""
        lease = self._leases.get(tag)
        return lease is not None and lease.is_live

    def is_instance(self, agent_id: str) -> bool:
        """Only with the token of its job."""
        return tag_of(agent_id) in self._leases

    def may_be_away(self, agent_id: str) -> bool:
        """Its job is suspended, is over and still to be told of, or nobody can say now whether it runs."""
        lease = self._leases.get(tag_of(agent_id))
        if lease is None:
            return False
        is_unknown = self._poller.is_unknown(lease)
        return is_unknown or lease.state is LeaseState.OVER or lease.phase is JobPhase.PAUSED

    def check(self, request: AllocationRequest) -> Sequence[str]:
        """Raises Unsatisfiable for what the site could never give."""
        options = self._pools[request.pool]
        queue = self._queue(options)
        if queue is None and self._poller.site is not None:
            known = ", ".join(sorted(self._poller.site.queues))
            name, kind, where = options.dialect.name, options.dialect.queue, options.section.where
            raise Unsatisfiable(
                f"{name} has no {kind} '{where}', which resource pool '{options.pool}' names: it has {known}"
            )
        shape = shape_of(request, options, queue)
        if (
            self._poller.site is not None and not options.section.as_users
        ):  # of others the site knows better
            for problem in options.dialect.account_problems(shape.arguments, self._poller.site):
                raise Unsatisfiable(problem)
        return tuple(time_warnings(request, shape, options, queue))

    def starts_at(self, allocation_id: str) -> float | None:
        """When its job will probably start, as the site says."""
        return self._starts_at.get(allocation_id)

    async def others(self, pool: str) -> Sequence[ForeignJob]:
        """Jobs of others where this pool submits its own; as of the last minute, or of the last answer."""
        options = self._pools.get(pool)
        if options is None:
            return ()
        names = (self._prefix, self._prefix.replace("wl-", "wp-", 1))
        found = await self._others.of(options.section.where)
        return [one for one in found if not one.name.startswith(names)]

    def leases(self) -> Sequence[Lease]:
        """Those that are not settled."""
        return tuple(self._leases.values())

    def batch_jobs(self) -> Sequence[BatchJobView]:
        """Those that are not over."""
        now = self._now()
        views = (job_view(x, self._host.connected(x.agents), now) for x in self._leases.values())
        return tuple(view for view in views if view is not None)

    # One pass

    async def _step(self) -> None:
        await self._settle()
        self._note_wishes()
        await self._save()
        self._publish()
        self._give_up()
        now = self._clock.monotonic()
        is_fresh = not self._pools or now - self._site_at < SITE_EVERY_S
        if (not self._leases and is_fresh) or self._poller.is_held():
            return
        try:
            await self._ask_site()
            self._poller.heard()
        except NoAnswer as error:
            self._poller.hold("", error, self._clock.monotonic())
            self._leases = {tag: in_doubt(lease) for tag, lease in self._leases.items()}
        finally:
            await self._settle()

    def _note_wishes(self) -> None:
        """What is wanted and has no job, and what has a job and is not wanted."""
        now = self._now()
        for lease in list(self._leases.values()):
            pool, id_ = lease.pool, lease.allocation_id
            if pool not in self._pools:
                self._put(life.unwanted(lease, f"pool '{pool}' is not of mode dispatch any more"))
            elif not self._host.waits_or_holds(pool, id_):
                self._put(life.unwanted(lease, "its task is over"))
            elif not lease.granted and self._host.holds(pool, id_):
                self._put(replace(lease, granted=True))
            elif lease.misplaced and lease.is_live:
                self._follow(lease, life.next_lease(lease, self._tag(), "", now))
            elif lease.may_be_short and life.short_nodes(lease, self._host.slots(lease.agents)):
                self._replace_short(lease, now)
            elif lease.state is LeaseState.QUEUED and lease.lacks_agents(life.PREPARE_S, now):
                self._put(life.unwanted(lease, "its agents did not join in time"))
        serving = [lease for lease in self._leases.values() if life.serves(lease)]
        served = {lease.allocation_id for lease in serving}
        # Those of a limit that is full do not count: they would keep all others from the site.
        queued = Counter(
            lease.pool
            for lease in serving
            if not lease.granted and not self._full.keeps_here(lease, now)
        )
        for options in self._pools.values():
            room = options.section.max_queued - queued[options.pool]
            for request in self._host.wanting(options.pool):
                if request.allocation_id not in served and room > 0 and self._create(request, now):
                    room -= 1

    def _follow(self, lease: Lease, follower: Lease) -> None:
        self._put(follower)
        why = life.end_text(lease) if lease.misplaced else follower.message
        self._put(life.unwanted(replace(lease, followed=True), why))

    def _replace_short(self, lease: Lease, now: float) -> None:
        """Its nodes have too few slots: it will never be granted."""
        follower = life.follower_of_short(lease, self._tag(), self._host.slots(lease.agents), now)
        self._follow(lease, follower)
        if life.ends_as_short(follower):
            why = f"{follower.message}; {life.SHORT_WAY_OUT}"
            self._host.refuse(lease.pool, lease.allocation_id, why)

    def _create(self, request: AllocationRequest, now: float) -> bool:
        options = self._pools[request.pool]
        try:
            require_user(request, options)
            shape = shape_of(request, options, self._queue(options))
        except Unsatisfiable:
            return False
        if self._full.holds(request.pool, shape, now):
            return False
        self._put(
            Lease(
                tag=self._tag(),
                pool=request.pool,
                allocation_id=request.allocation_id,
                shape=shape,
                created_at=now,
            )
        )
        return True

    async def _ask_site(self) -> None:
        """Raises NoAnswer; what was learned until then stays."""
        now = self._clock.monotonic()
        if now - self._site_at >= SITE_EVERY_S:
            site = await self._poller.ask_site()
            if self._on_site is not None:
                await self._on_site(site)
            await self._unclaimed.look(self._leases.values())
            self._site_at = self._clock.monotonic()
        await self._submit_due()
        await self._end_unwanted()
        if self._is_poll_due():
            await self._poll()

    async def _submit_due(self) -> None:
        now = self._now()
        due = [
            lease
            for lease in self._leases.values()
            if lease.is_due(now)
            and not self._full.keeps_here(lease, now)
            and not self._poller.is_held(lease.user)
        ][:SUBMITS_AT_ONCE]
        for lease in due:
            self._put(life.called(lease, now))
        await self._save()
        for number, lease in enumerate(due):
            user, since = lease.user, self._clock.monotonic()
            if self._full.holds(lease.pool, lease.shape, self._now()) or self._poller.is_held(
                user
            ):  # since one of these failed
                self._change(lease.tag, life.not_called)
                continue
            try:
                await self._submit(lease)
            except NoAnswer as error:
                if user:  # others are answered all the same
                    self._poller.hold(user, error, since)
                    continue
                for other in due[number + 1 :]:
                    self._change(other.tag, life.not_called)
                raise

    async def _submit(self, lease: Lease) -> None:
        spec = None
        try:
            spec = await asyncio.to_thread(self._files[lease.pool].write, lease, self._token(lease))
            if self._poller.site is not None:
                spec = replace(spec, avoid=self._poller.site.known(spec.avoid))
            if self._project_of is not None:
                spec = replace(spec, project=await self._project_of(lease))
            job_id = await self._poller.of(spec.user).submit(spec)
        except JobRefused as error:
            log.info("job %s refused: %s", lease.tag, error.message)
            self._change(lease.tag, partial(life.refused, why=error, now=self._now()))
            if error.passing and error.kind is ReasonKind.QUOTA:
                self._full.note(lease, error.message, self._now())
            if error.final:  # what was known of the site may be old
                self._site_at = float("-inf")
        except NoAnswer as error:
            if spec is None:  # its disk was not reached: nothing was submitted
                self._change(lease.tag, life.not_called)
            self._change(lease.tag, partial(life.unanswered, why=error))
            raise
        except OSError as error:
            text = (
                f"the directory of its job cannot be written: {error.filename}: {error.strerror}: "
            )
            text += life.way_out_of(error, lease.user)
            why = JobRefused(text, kind=ReasonKind.NO_CAPACITY, passing=True)
            self._change(lease.tag, partial(life.refused, why=why, now=self._now()))
        else:
            log.info("job %s submitted as %s", lease.tag, job_id)
            self._full.forget(lease)
            self._change(lease.tag, partial(life.submitted, job_id=job_id))

    def _give_up(self) -> None:
        """What the site will never run is not waited for."""
        now = self._now()
        for lease in self._leases.values():
            if why := life.why_never(lease, now):
                self._host.refuse(lease.pool, lease.allocation_id, why)

    async def _end_unwanted(self) -> None:
        """Agents that are there are told to end, so that the job ends well; whatever else there is, is cancelled."""
        now = self._now()
        cancel = []
        for lease in list(self._leases.values()):
            if lease.state is not LeaseState.ENDING or lease.job_id is None:
                continue
            if lease.asked_to_end_at is None and self._host.dismiss(lease.agents, lease.end_why):
                self._put(replace(lease, asked_to_end_at=now))
            elif lease.asked_to_end_at is None or now - lease.asked_to_end_at > life.ASK_AGAIN_S:
                cancel.append(lease)
        if cancel:
            await self._poller.cancel((one.user, one.job_id) for one in cancel if one.job_id)
            for lease in cancel:
                self._change(lease.tag, lambda one: replace(one, asked_to_end_at=now))

    def _is_poll_due(self) -> bool:
        if not any(lease.may_exist for lease in self._leases.values()):
            return False
        return self._clock.monotonic() - self._poller.polled_at >= self._poller.every_s

    async def _poll(self) -> None:
        asked = [lease for lease in self._leases.values() if lease.may_exist]
        found = await self._poller.poll(asked)
        for lease in asked:
            if lease.tag not in found:  # its user cannot be asked for
                self._change(lease.tag, in_doubt)
        for tag, job in found.items():
            await self._take(tag, job)

    async def _take(self, tag: str, job: JobReport | None) -> None:
        job, is_known = await self._poller.confirmed(self._leases[tag], job)
        if is_known:
            await (self._miss(tag) if job is None else self._see(tag, job))

    async def _see(self, tag: str, job: JobReport) -> None:
        now = self._now()
        said, lease = "", self._leases[tag]
        if lease.lacks_agents(JOIN_S, now):
            said = await self._read(lease, partial(JobFiles.nodes_say, job=lease), "")
        self._change(tag, lambda lease: life.seen(lease, job, now, said))

    async def _miss(self, tag: str) -> None:
        lease = self._leases[tag]
        if self._host.connected(lease.agents):
            return
        own = await self._read(lease, partial(JobFiles.own_record, job=lease), OwnRecord())
        self._change(tag, partial(life.missed, now=self._now(), own=own))

    async def _settle(self) -> None:
        """What is over is followed by another job, or ends what ran there; it is put away after that was committed."""
        for lease in self._over():
            if self._needs_another(lease):
                said = await self._read(
                    lease, partial(JobFiles.why_it_ended, job=lease, cause=lease.cause), ""
                )
                self._put(replace(lease, followed=True))
                self._put(life.next_lease(lease, self._tag(), said, self._now()))
        await self._save()
        for lease in self._over():
            why = lease.end_why or life.end_text(lease)
            if self._host.occupied(lease.agents) and not self._collector.is_done(
                lease,
                self._files.get(lease.pool),
                bad_ends_count_before(lease.cause, lease.ended_at),
            ):
                continue
            if self._host.lose(lease.agents, why, life.loss_of(lease)):
                await self._clear(lease, why)
                self._collector.forget(lease)
                self._put(replace(lease, state=LeaseState.SETTLED))
        await self._save()
        self._leases = {
            tag: one for tag, one in self._leases.items() if one.state is not LeaseState.SETTLED
        }
        self._saved = {tag: one for tag, one in self._saved.items() if tag in self._leases}
        self._publish()

    def _over(self) -> list[Lease]:
        return [one for one in self._leases.values() if one.state is LeaseState.OVER]

    def _needs_another(self, lease: Lease) -> bool:
        """Its request waits still, and nobody has ended its job for that."""
        if lease.granted or lease.followed or lease.end_why:
            return False
        pool, id_ = lease.pool, lease.allocation_id
        return self._host.waits_or_holds(pool, id_) and not self._host.holds(pool, id_)

    async def _clear(self, lease: Lease, why: str) -> None:
        """Repeating it changes nothing."""
        for agent_id in lease.agents:
            await self._host.job_gone(agent_id, why)
        if (files := self._files.get(lease.pool)) is not None:
            await asyncio.to_thread(files.remove, lease)

    async def _read(self, lease: Lease, read: Callable[[JobFiles], T], unknown: T) -> T:
        """What its directory tells."""
        files = self._files.get(lease.pool)
        return unknown if files is None else await asyncio.to_thread(read, files)

    async def _save(self) -> None:
        changed = [one for tag, one in self._leases.items() if self._saved.get(tag) != one]
        if changed:
            await self._store.save(changed)
            self._saved |= {lease.tag: lease for lease in changed}

    # What the pools are told

    def _publish(self) -> None:
        now = self._now()
        self._starts_at = {
            one.allocation_id: one.starts_at
            for one in self._leases.values()
            if life.serves(one) and one.starts_at is not None and one.phase is JobPhase.QUEUED
        }
        for pool, options in self._pools.items():
            mine = [one for one in self._leases.values() if one.pool == pool and life.serves(one)]
            told = DispatchReport(
                options=options,
                leases=mine,
                queue=self._queue(options),
                trouble=self._poller.trouble,
                full=self._full.of,
                joined=lambda lease: self._host.connected(lease.agents),
                now=now,
            ).availability(self._host.wanting(pool))
            if self._told.get(pool) != told:
                self._told[pool] = told
                self._host.availability(told)

    # Small things

    def _queue(self, options: DispatchOptions) -> Queue | None:
        return None if self._poller.site is None else self._poller.site.queue(options.section.where)

    def _change(self, tag: str, step: Callable[[Lease], Lease]) -> None:
        if (lease := self._leases.get(tag)) is not None:
            self._put(step(lease))

    def _put(self, lease: Lease) -> None:
        if self._leases.get(lease.tag) != lease:
            self._leases[lease.tag] = lease
            self._poller.note_change()

    def _tag(self) -> str:
        return f"{self._prefix}{self._ids.uuid().replace('-', '')[:12]}"

    def _now(self) -> float:
        return self._clock.now().timestamp()
