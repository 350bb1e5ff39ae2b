"""The job queue: see it, understand it, change it.

Jobs belong to their roots (experiments, interactive tasks), queues to the resource managers. Here is only what joins
them; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import structlog

from master.allocations.machine import AllocationPhase, fell_back
from master.auth.actions import Action, Target
from master.core.actor import Actor
from master.core.jobs import JobChange, JobType
from master.core.reasons import Reason, ReasonKind
from master.core.visibility import EVERYTHING, Visibility
from master.jobs.changes import JobUpdate, QueueMove, UpdatesFailed
from master.jobs.explain import Explanation, HoldingRun, Situation, WaitingRun, advise
from master.jobs.ports import Allocations, JobFacts, JobRoot, JobSource, PoolQueues
from master.jobs.positions import place_beside
from master.jobs.queue import QueuedJob, has_places, job_in_queue, jobs_in_queue
from master.jobs.statistics import QueueStatistics, WaitQueries
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.workspace_rules import WorkspaceRules
from rm_backends.views import (
    MOST_ADVANCED_FIRST,
    JobInPool,
    PoolView,
    QueueEntry,
    QueueState,
)
from windlass.base.clock import Clock
from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    LeaseLost,
    NotFound,
    WindlassError,
)

log = structlog.get_logger(__name__)

MAX_EXPLAINED = 10
"""Waiting allocations of one job that are explained: each forecast may take a while in a large pool."""
_ON_ITS_WAY = Reason(kind=ReasonKind.STARTING, text="its request is on the way to the pool")


class JobService:
    """Changes are made one at a time: where a job is moved to depends on where the others are."""

    def __init__(
        self,
        *,
        sources: Sequence[JobSource],
        queues: PoolQueues,
        allocations: Allocations,
        store: Store,
        clock: Clock,
        rules: WorkspaceRules,
        strict: bool = False,
    ) -> None:
        """`strict`: not whoever may change a job changes places in the queue."""
        self._sources = tuple(sources)
        self._queues = queues
        self._allocations = allocations
        self._waits = WaitQueries(store)
        self._clock = clock
        self._rules = rules
        self.strict = strict
        self._mailbox = SerialQueue("job queue")

    # What there is

    def queue(self, pool: str, visible: Visibility) -> list[QueuedJob]:
        """Jobs that wait or hold slots in a pool, in queue order. Raises NotFound for an unknown one."""
        jobs = self._queues.jobs_in(pool)
        roots = {one.job.id: self._look_up(one.job.id) for one in jobs}
        facts = {job_id: root.job_facts() for job_id, root in roots.items() if root is not None}
        listed = jobs_in_queue(pool, jobs, facts, self._queues.scheduler(pool))
        return [job for job in listed if _is_visible(job.facts, visible)]

    def all_facts(self) -> list[JobFacts]:
        """Of every job that is not over."""
        return [root.job_facts() for source in self._sources for root in source.job_roots()]

    def is_visible(self, job_id: str, visible: Visibility) -> bool:
        """What is over is visible only to one who sees everything."""
        if visible.is_everything and visible.of_interactive.is_everything:
            return True
        root = self._look_up(job_id)
        return root is not None and _is_visible(root.job_facts(), visible)

    def in_queue(self, job_id: str) -> QueuedJob | None:
        """Where it holds slots, if it waits or runs in several pools. None if it asks for nothing now, or is over."""
        root = self._look_up(job_id)
        if root is None:
            return None
        facts = root.job_facts()
        pools = [facts.pool] if facts.pool in self._queues.pools() else []
        found = [self._in_queue_of(pool, facts) for pool in (*pools, *self._queues.away(job_id))]
        queued = [job for job in found if job is not None]
        return min(queued, key=lambda job: MOST_ADVANCED_FIRST.index(job.state), default=None)

    def _in_queue_of(self, pool: str, facts: JobFacts) -> QueuedJob | None:
        everybody = self._jobs(pool)
        own = next((one for one in everybody if one.job.id == facts.job_id), None)
        if own is None:
            return None
        return job_in_queue(pool, own, facts, everybody, self._queues.scheduler(pool))

    def waiting_reason(self, job: QueuedJob | None) -> Reason | None:
        """Of the oldest of its allocations that wait; None if none does."""
        if job is None or job.first_waiting is None:
            return None
        return self._allocations.rm.explain(job.first_waiting)

    def find(self, word: str, visible: Visibility) -> JobFacts:
        """A job that is not over, by its id or by how that begins. Raises NotFound, Conflict if several begin so."""
        root = self._look_up(word)
        several = self.all_facts() if root is None else [root.job_facts()]
        found = [
            facts
            for facts in several
            if word and facts.job_id.startswith(word) and _is_visible(facts, visible)
        ]
        if len(found) > 1:
            ids = ", ".join(sorted(facts.job_id for facts in found)[:3])
            raise Conflict(
                f"{len(found)} jobs have ids that begin with '{word}': write more of {ids}"
            )
        if not found:
            raise self._missing(word, visible)
        return found[0]

    async def statistics(self, pools: Collection[str] = ()) -> list[QueueStatistics]:
        """Of all pools, or of these. Raises NotFound for an unknown one."""
        waits = await self._waits.daily_waits(self._clock.now())
        known = self._queues.pools()
        if unknown := sorted(set(pools) - set(known)):
            raise NotFound("resource pool", unknown[0])
        found = []
        for pool in known:
            if pool in pools or not pools:
                jobs = self._jobs(pool)
                scheduled = sum(job.holds for job in jobs)
                found.append(
                    QueueStatistics(
                        pool=pool,
                        queued=len(jobs) - scheduled,
                        scheduled=scheduled,
                        daily_waits=tuple(waits.get(pool, ())),
                    )
                )
        return found

    async def explain(self, job_id: str) -> Explanation:
        """Raises NotFound."""
        root = self._root(job_id)
        facts, queued, ids = root.job_facts(), self.in_queue(job_id), root.waiting_allocations()
        entries = self._entries(job_id)
        waiting = [
            await self._explain_waiting(id_, facts, queued, entries.get(id_))
            for id_ in ids[:MAX_EXPLAINED]
        ]
        # What was granted just now counts as waiting until its owner has committed that.
        holding = [
            entry
            for id_, entry in entries.items()
            if entry.state is not QueueState.QUEUED and id_ not in ids
        ]
        return Explanation(
            facts=facts,
            queued=queued,
            waiting=tuple(waiting),
            waiting_total=len(ids),
            holding=tuple(self._holding(entry) for entry in holding),
        )

    # What can be changed

    async def update(self, job_id: str, change: JobChange, *, by: Actor) -> None:
        """Raises NotFound, InvalidArgument for what an administrator forbids, and what `JobRoot.change_job` raises."""

        async def turn() -> None:
            root = self._root(job_id)
            await self._require_allowed(root, change)
            await root.change_job(change, by=by)

        await self._mailbox.run(turn)
        log.info("job changed", job=job_id, change=str(change), by=str(by))

    async def move(
        self, job_id: str, *, ahead_of: str | None = None, behind_of: str | None = None, by: Actor
    ) -> None:
        """Next to another job of the same pool, with its priority; nothing happens if it is there.

        Raises NotFound, InvalidArgument where the scheduler knows no places, Conflict where there is no room.
        """
        await self._do(JobUpdate(job_id=job_id, ahead_of=ahead_of, behind_of=behind_of), by)

    async def update_all(
        self, updates: Sequence[JobUpdate], *, by: Actor, require: Callable[[Action, Target], None]
    ) -> None:
        """Each that `by` may do is tried, in order; those that can be done are done.

        `require` raises PermissionDenied, or NotFound, for what `by` may not do.

        Raises UpdatesFailed for the others.

        A single one raises its own error.
        """
        failures: list[tuple[str, WindlassError]] = []
        for update in updates:
            try:
                await self._update(update, by, require)
            except LeaseLost:
                raise
            except WindlassError as error:
                if len(updates) == 1:
                    raise
                failures.append((update.job_id, error))
        if failures:
            raise UpdatesFailed(len(updates), failures)

    async def _update(
        self, update: JobUpdate, by: Actor, require: Callable[[Action, Target], None]
    ) -> None:
        update.action()  # what is said badly is told first
        facts = self._root(update.job_id).job_facts()
        require(Action.CONTROL_JOB_QUEUE if self.strict else Action.UPDATE_JOB, _target(facts))
        await self._do(update, by)

    async def _do(self, update: JobUpdate, by: Actor) -> None:
        action = update.action()
        if isinstance(action, QueueMove):
            await self._mailbox.run(lambda: self._move(update.job_id, action, by))
        else:
            await self.update(update.job_id, action, by=by)

    async def _move(self, job_id: str, move: QueueMove, by: Actor) -> None:
        root = self._root(job_id)
        pool, anchor_pool = root.job_facts().pool, self._root(move.anchor_id).job_facts().pool
        if pool != anchor_pool:
            raise InvalidArgument(
                f"job {job_id} is in pool {pool} and job {move.anchor_id} in {anchor_pool}: "
                "only jobs of one pool can be moved past each other"
            )
        settings = self._queues.scheduler(pool)
        if settings is None or not has_places(settings):
            order = (
                "has its queue elsewhere"
                if settings is None
                else f"has the scheduler {settings.type}"
            )
            raise InvalidArgument(
                f"pool {pool} {order}, which keeps no order of jobs: "
                "jobs can be moved where the scheduler is priority"
            )
        jobs = [facts.order.as_job() for facts in self.all_facts() if facts.pool == pool]
        place = place_beside(jobs, settings, job_id, move.anchor_id, move.side)
        if place is not None:
            await self._require_allowed(root, place)
            await root.change_job(place, by=by)
            log.info(
                "job moved", job=job_id, side=move.side.value, anchor=move.anchor_id, by=str(by)
            )

    async def _require_allowed(self, root: JobRoot, change: JobChange) -> None:
        facts = root.job_facts()
        await self._rules.require_change(change, facts.workspace_id, facts.type)

    async def _explain_waiting(
        self, id_: str, facts: JobFacts, queued: QueuedJob | None, entry: QueueEntry | None
    ) -> WaitingRun:
        expected = await self._allocations.rm.expected_start(id_)
        reason = (
            self._allocations.rm.explain(id_) or (entry.reason if entry else None) or _ON_ITS_WAY
        )
        slots = entry.slots if entry is not None else None
        where = entry.pool if entry is not None else facts.pool
        if queued is not None and queued.pool != where:
            queued = self._in_queue_of(where, facts)
        situation = Situation(
            facts=facts, queued=queued, where=where, pool=self._view(where), slots=slots
        )
        return WaitingRun(
            allocation_id=id_,
            name=entry.name if entry is not None else id_,
            slots=slots,
            since=entry.requested if entry is not None else None,
            reason=reason,
            advice=advise(reason, situation),
            expected_start=expected,
        )

    def _holding(self, entry: QueueEntry) -> HoldingRun:
        try:
            state = self._allocations.state(entry.allocation_id)
            since, away, phase = state.started_at, fell_back(state), state.phase
        except NotFound:  # its end is known here, and not there yet
            since, away, phase = None, None, AllocationPhase.TERMINATED
        return HoldingRun(
            allocation_id=entry.allocation_id,
            name=entry.name,
            slots=sum(entry.placement.values()),
            since=since,
            placement=dict(entry.placement),
            is_releasing=entry.releasing,
            pool=entry.pool,
            fell_back=away,
            phase=phase,
        )

    def _entries(self, job_id: str) -> dict[str, QueueEntry]:
        """By allocation, oldest first; in all pools, for a job that moves holds slots where it was."""
        return {
            entry.allocation_id: entry
            for pool in self._queues.pools()
            for entry in self._queues.queue(pool, job_id)
        }

    def _jobs(self, pool: str) -> list[JobInPool]:
        """Users' jobs that wait or hold slots in a pool."""
        return [one for one in self._queues.jobs_in(pool) if self._look_up(one.job.id) is not None]

    def _look_up(self, job_id: str) -> JobRoot | None:
        roots = (source.job_root(job_id) for source in self._sources)
        return next((root for root in roots if root is not None), None)

    def _root(self, job_id: str) -> JobRoot:
        root = self._look_up(job_id)
        if root is None:
            raise self._missing(job_id, EVERYTHING)
        return root

    def _missing(self, job_id: str, visible: Visibility) -> WindlassError:
        found = [source.unqueued(job_id) for source in self._sources]
        whys = [one.why for one in found if one is not None and one.workspace_id in visible]
        return whys[0] if whys else NotFound("job", job_id)

    def _view(self, pool: str) -> PoolView | None:
        return next((view for view in self._queues.pools_view() if view.name == pool), None)


def _is_visible(facts: JobFacts, visible: Visibility) -> bool:
    of_experiment = facts.type is JobType.EXPERIMENT
    return facts.workspace_id in (visible if of_experiment else visible.of_interactive)


def _target(facts: JobFacts) -> Target:
    return Target(
        kind="job",
        id=facts.job_id,
        owner_id=facts.owner_id,
        workspace_id=facts.workspace_id,
        experiment_id=int(facts.entity_id) if facts.type is JobType.EXPERIMENT else None,
    )
