"""One pool: who waits, what the scheduler said last, and how its decisions are carried out."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from master.core.deadlines import Deadline
from master.core.fall_back import Prospect
from master.core.machines import NO_REQUIREMENTS, MachineFacts, Requirements
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.end_times import must_leave, successor_least_s, wants_successor
from master.core.scheduler.forecast import expected_start
from master.core.scheduler.queue_order import in_queue_order
from master.core.scheduler.types import (
    Decision,
    Job,
    Launchable,
    PoolState,
    Release,
    Running,
    Start,
    Waiting,
)
from provisioner.sections.pools import ResolvedPool
from provisioner.types import Gang, PoolAvailability, PoolCapacity, PoolDemand
from rm_backends.agents.agents import Agent, Presence
from rm_backends.agents.assignments import Assignments
from rm_backends.agents.entries import PoolEntry
from rm_backends.agents.explanations import named, no_such_agent, not_planned
from rm_backends.agents.nodes import made_to_leave, node_of
from rm_backends.agents.prospects import prospects, with_requests
from rm_backends.agents.shapes import by_agents, fits_open_agents, largest_shape, open_shape
from rm_backends.base import AllocationHint, AllocationRequest, JobOrder, ReleaseAsked
from rm_backends.limits import PoolShape
from rm_backends.outbox import Outbox
from rm_backends.views import Foreseen
from windlass.base.clock import Clock
from windlass.base.collector import paused_collector
from windlass.base.ids import Ids
from windlass.base.loop import Loop

log = logging.getLogger(__name__)

Decide = Callable[[PoolState], Decision]

DEBOUNCE_S = 0.01
"""Events that come together are decided together."""
DECIDE_EVERY_S = 5.0
"""Time alone changes decisions too (preempt_after): look again this often while something waits."""
INLINE_LIMIT = 500
"""With more requests and agents than this together, a decision may take longer than the event loop can spare."""
GRANTS_AT_ONCE = 500
"""Then others get a turn: an empty cluster may start thousands at a time, at some 15 microseconds each."""
UNDECIDED = Reason(kind=ReasonKind.QUEUED, text="waits for the scheduler's next look")


@dataclass(slots=True)
class LastDecision:
    """The result of the last decision."""

    at: float = float("-inf")
    """Monotonic seconds."""
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    open_shape: PoolShape | None = None
    """The agents that were there and in service, whatever ran on them."""


class Pool:
    """Owned by one backend; everything but `decide` runs on its event loop."""

    def __init__(
        self,
        options: ResolvedPool,
        *,
        decide: Decide,
        outbox: Outbox,
        clock: Clock,
        ids: Ids,
        epoch: int,
    ) -> None:
        self.options = options
        self.waiting: dict[str, PoolEntry] = {}
        self.jobs: dict[str, Job] = {}
        self._run_times: dict[str, float] = {}
        """job id -> seconds that one of its allocations runs, as its owner knows or has learned."""
        self.assignments = Assignments(
            outbox=outbox, clock=clock, ids=ids, epoch=epoch, changed=self.touch
        )
        self.loop = Loop(f"pool {options.name}", self._step, interval_s=DECIDE_EVERY_S)
        self.capacity: Callable[[str], PoolCapacity | None] | None = None
        self.demand_changed: Callable[[], None] | None = None
        self.decided: Callable[[], None] | None = None
        """Called after each decision: who waits, why, and what agents hold may be others."""
        self._demand: PoolDemand | None = None
        self._leavers: set[str] = set()
        """What runs and goes on elsewhere soon, because its agent ends: machines are bought for it, too."""
        self._decide = decide
        self._outbox = outbox
        self._clock = clock
        self._standing = LastDecision()
        self._availability: PoolAvailability | None = None
        self._outlook_at = 0.0
        self._dirty = True

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def agents(self) -> dict[str, Agent]:
        return self.assignments.agents

    def knows(self, allocation_id: str) -> bool:
        return allocation_id in self.waiting or allocation_id in self.assignments.entries

    def touch(self) -> None:
        """Something that the scheduler looks at has changed."""
        self._dirty = True
        self.loop.wake()

    def add(self, request: AllocationRequest) -> None:
        """Queue it, unless it is known."""
        self.note_job(request.job)
        if not self.knows(request.allocation_id):
            self.waiting[request.allocation_id] = PoolEntry(request)
        self.touch()

    def withdraw(self, allocation_id: str) -> bool:
        """False if it is granted already."""
        if allocation_id in self.assignments.entries:
            return False
        if self.waiting.pop(allocation_id, None) is not None:
            self.touch()
        return True

    def note_job(self, order: JobOrder) -> None:
        self.jobs[order.job_id] = order.as_job(self.name)
        if order.run_time_s is not None:
            self._run_times[order.job_id] = order.run_time_s

    def update_job(self, order: JobOrder) -> None:
        """A job that has nothing here is left out: its next request brings its order with it."""
        if order.job_id in self.jobs:
            self.note_job(order)
            self.touch()

    def hint(self, note: AllocationHint) -> None:
        """Changes no decision that waits to be made, so it wakes nobody."""
        if (entry := self.assignments.entries.get(note.allocation_id)) is not None:
            entry.note(note)

    def releasing(self, allocation_id: str) -> None:
        """Its slots are coming back by themselves."""
        entry = self.assignments.entries.get(allocation_id)
        if entry is not None and not entry.releasing:
            entry.releasing = True
            entry.touched()
            self.touch()

    def ask_before_ends(self) -> None:
        """Ask work to leave whose agent will end soon, in time for a checkpoint; before that, want another agent."""
        now = self._clock.now().timestamp()
        leavers = set()
        for agent in self.agents.values():
            end, early = agent.end, agent.is_cut_short
            if end is None or not agent.holds:
                continue
            reason = f"agent {agent.id} ends {end.when}"
            for hold in list(agent.holds.values()):
                entry = self.assignments.entries[hold.allocation_id]
                running = entry.as_running(self._run_times.get(entry.as_request.job_id))
                if running is None:
                    continue
                if must_leave(running, end.at, now, early=early):
                    self.assignments.ask(entry, reason, end)
                if wants_successor(running, end.at, now, early=early):
                    leavers.add(entry.id)
        if self.options.is_dynamic and leavers != self._leavers:
            self._leavers = leavers
            self.touch()

    def explain(self, allocation_id: str) -> Reason | None:
        entry = self.waiting.get(allocation_id)
        if entry is None:
            return None
        waiting = self._standing.waiting.get(allocation_id)
        if waiting is None:
            return UNDECIDED
        if not waiting.needs_capacity:
            return named(waiting, self.assignments.entries)
        if self.options.is_dynamic:
            planned = self._availability.reasons.get(allocation_id) if self._availability else None
            return planned or not_planned(waiting.reason)
        return self._static_reason(entry, waiting)

    def waiting_by_kind(self) -> Mapping[ReasonKind, int]:
        """How many wait for what: the kinds of `explain`, without its words."""
        fits: dict[Hashable, bool] = {}
        planned = self._availability.reasons if self._availability else {}
        counts: Counter[ReasonKind] = Counter()
        for id_, entry in self.waiting.items():
            waiting = self._standing.waiting.get(id_)
            kind = UNDECIDED.kind if waiting is None else waiting.reason.kind
            if waiting is not None and waiting.needs_capacity:
                if not self.options.is_dynamic:
                    shape = entry.request.shape
                    if shape not in fits:
                        fits[shape] = self._fits_open_agents(entry.request)
                    kind = kind if fits[shape] else ReasonKind.NO_SUCH_AGENT
                else:
                    kind = (planned.get(id_) or not_planned(waiting.reason)).kind
            counts[kind] += 1
        return counts

    async def expected_start(self, allocation_id: str) -> datetime | None:
        """When a request that waits here will probably start; None if nobody can know."""
        if allocation_id not in self.waiting:
            return None
        at = await asyncio.to_thread(_play_ahead, self.snapshot(), allocation_id)
        return None if at is None else datetime.fromtimestamp(at, tz=UTC)

    async def prospects(self, requests: Sequence[AllocationRequest]) -> Mapping[str, Prospect]:
        """What the scheduler would do if these came now. Changes nothing."""
        state = with_requests(self.snapshot(), requests, self.name)
        return prospects(state, await self._decided(state), requests)

    async def foresee(self, requests: Sequence[AllocationRequest]) -> Mapping[str, Foreseen]:
        """What would become of these if they came now, by allocation id. Changes nothing."""
        state = with_requests(self.snapshot(), requests, self.name)
        decision = await self._decided(state)
        starts = {start.request_id for start in decision.start}
        return {
            request.allocation_id: self._foreseen(
                request,
                decision.waiting.get(request.allocation_id),
                starts=request.allocation_id in starts,
            )
            for request in requests
        }

    def _foreseen(
        self, request: AllocationRequest, waiting: Waiting | None, *, starts: bool
    ) -> Foreseen:
        if starts or waiting is None:
            return Foreseen(starts=starts, reason=None if starts else UNDECIDED)
        if not waiting.needs_capacity:
            return Foreseen(reason=named(waiting, self.assignments.entries))
        entry = PoolEntry(request)
        if self.options.is_dynamic and request.launches_machines:
            return Foreseen(reason=not_planned(waiting.reason), gang=self._gang(entry))
        return Foreseen(reason=self._static_reason(entry, waiting))

    def _static_reason(self, entry: PoolEntry, waiting: Waiting) -> Reason:
        """Where no launch brings up what is missing."""
        if self._fits_open_agents(entry.request):
            return waiting.reason
        return no_such_agent(entry.request, self.shape(), self.agents.values())

    def set_availability(self, availability: PoolAvailability) -> None:
        self._availability = availability
        for agent_id in availability.ends_at:
            if (agent := self.agents.get(agent_id)) is not None:
                self.note_end(agent)
        for agent_id, facts in availability.facts.items():
            if (agent := self.agents.get(agent_id)) is not None:
                agent.was_bought_as(facts)
        self._outlook_at = self._clock.monotonic()
        if self.waiting:
            self.touch()

    def note_end(self, agent: Agent) -> None:
        """As whoever supplies machines says."""
        known = self._availability
        if known is not None and (told := known.ends_at.get(agent.id)) is not None:
            agent.note_end(Deadline(at=told, cause=known.end_cause))

    def snapshot(self) -> PoolState:
        """What the scheduler may look at. Frozen: it may be read in another thread."""
        used = {e.request.job.job_id for e in self.waiting.values()}
        used.update(e.request.job.job_id for e in self.assignments.entries.values())
        self.jobs = {job_id: job for job_id, job in self.jobs.items() if job_id in used}
        self._run_times = {job: time for job, time in self._run_times.items() if job in used}
        run_times, agents = self._run_times, self.agents.values()
        return PoolState(
            now=self._clock.now().timestamp(),
            settings=self.options.scheduler,
            agents=tuple(a.as_state() for a in agents if a.presence is not Presence.AWAY),
            jobs=dict(self.jobs),
            waiting=tuple(
                by_agents(
                    entry.with_run_time(run_times.get(entry.as_request.job_id)),
                    self.agents.values(),
                )
                for entry in self.waiting.values()
            ),
            running=self.running(),
            launchable=self._launchable(),
            leases=self._availability.leases if self._availability else {},
        )

    async def apply(self, state: PoolState, decision: Decision) -> None:
        """Carry out a decision on `state`. Entries that no longer hold are dropped: their cause woke the loop."""
        for number, start in enumerate(decision.start, 1):
            if not self._grant(start, state):
                log.info("stale start dropped: %s in pool %s", start.request_id, self.name)
            if number % GRANTS_AT_ONCE == 0:
                await asyncio.sleep(0)
        for release in decision.release:
            self._ask_release(release)
        seen = {agent.id for agent in state.agents}
        self._standing = LastDecision(
            at=self._clock.monotonic(),
            waiting=decision.waiting,
            open_shape=open_shape(self.options, self.agents.values()),
        )
        if self.options.is_dynamic:
            before, self._demand = self._demand, self._demand_now(seen)
            if self._demand != before and self.demand_changed is not None:
                self.demand_changed()
        if self.decided is not None:
            self.decided()

    def wanting(self) -> list[AllocationRequest]:
        """Who waits for a batch job, as of the last decision, in the order of the queue."""
        state = self.snapshot()
        return [
            entry.request
            for request in in_queue_order(state, state.waiting)
            if (entry := self.waiting.get(request.id)) is not None
            and (told := self._standing.waiting.get(request.id)) is not None
            and told.needs_capacity
        ]

    @property
    def demand(self) -> PoolDemand:
        """Gangs and nodes as of the last decision: with newer nodes, gangs would be bought what just connected."""
        return self._demand or self._demand_now(set(self.agents))

    def running(self) -> tuple[Running, ...]:
        """What holds slots or places on its agents now."""
        times = self._run_times
        entries = self.assignments.entries.values()
        running = [entry.as_running(times.get(entry.as_request.job_id)) for entry in entries]
        return tuple(entry for entry in running if entry is not None)

    def kinds(self, blocked: frozenset[str] = frozenset()) -> set[tuple[int, MachineFacts]]:
        """Slots and facts of every agent that this pool has or could have."""
        mine = [a for a in list(self.agents.values()) if not a.is_one_of(blocked)]
        capacity = self._capacity_now()
        bought = capacity.kinds if capacity is not None else frozenset()
        return {(a.slot_count, a.facts) for a in mine} | bought

    def shape(
        self,
        blocked: frozenset[str] = frozenset(),
        requires: Requirements = NO_REQUIREMENTS,
        slots: int = 0,
    ) -> PoolShape:
        """The most this pool could ever be, for requests that `requires` certain machines if given."""
        # A copy in one go: configs are checked in threads, while agents come and go here.
        mine = [a for a in list(self.agents.values()) if not a.is_one_of(blocked)]
        return largest_shape(self.options, mine, self._capacity_now(), requires, slots)

    def largest_now(self, request: AllocationRequest) -> int:
        """Slots of the largest machine for it that is there, comes or could be launched. 0: nobody says."""
        known = self._availability
        if known is None or not known.launchable:
            return 0
        mine = [a for a in list(self.agents.values()) if not a.is_one_of(request.blocked_agents)]
        sizes = [(agent.slot_count, agent.facts) for agent in mine]
        sizes += [(node.slots, node.facts) for node in known.booting]
        sizes += [(node.slots, node.facts) for node in known.launchable]
        return max((n for n, facts in sizes if request.requires.are_met_by(facts)), default=0)

    def _capacity_now(self) -> PoolCapacity | None:
        return self.capacity(self.name) if self.options.is_dynamic and self.capacity else None

    async def _step(self) -> None:
        old = self._clock.monotonic() - self._standing.at >= DECIDE_EVERY_S
        if not self._dirty and not (self.waiting and old):
            return
        await asyncio.sleep(DEBOUNCE_S)
        self._dirty = False
        try:
            state = self.snapshot()
            await self.apply(state, await self._decided(state))
        except BaseException:
            self._dirty = True
            raise

    async def _decided(self, state: PoolState) -> Decision:
        size = len(state.waiting) + len(state.running) + len(state.agents)
        if size > INLINE_LIMIT:
            return await asyncio.to_thread(self._decide_on, state)
        return self._decide_on(state)

    def _decide_on(self, state: PoolState) -> Decision:
        with paused_collector():
            return self._decide(state)

    def _grant(self, start: Start, state: PoolState) -> bool:
        entry = self.waiting.get(start.request_id)
        if entry is None or not self.assignments.can_place(entry.request, start.placement):
            return False
        job = self.jobs[entry.as_request.job_id]
        if job.max_slots != state.jobs[job.id].max_slots:
            return False  # another pool may have given the job what it lacks here
        del self.waiting[start.request_id]
        self.assignments.reserve(entry, start.placement, backfilled=start.backfilled)
        return True

    def _ask_release(self, release: Release) -> None:
        entry = self.assignments.entries.get(release.request_id)
        if entry is None or entry.releasing or entry.killed or entry.lost:
            return
        entry.releasing = True
        entry.touched()
        self._outbox.post(ReleaseAsked(allocation_id=entry.id, reason=release.why))

    def _launchable(self) -> tuple[Launchable, ...]:
        if self._availability is None:
            return ()
        age_s = self._clock.monotonic() - self._outlook_at
        return self._availability.for_scheduler(age_s=age_s, joined=self.agents)

    def _demand_now(self, seen: set[str]) -> PoolDemand:
        entries = self.assignments.entries
        gangs = tuple(
            self._gang(entry)
            for entry in self.waiting.values()
            if entry.request.launches_machines
            and (waiting := self._standing.waiting.get(entry.id))
            and waiting.needs_capacity
        )
        soon = {
            id_: replace(self._gang(entry), least_s=successor_least_s(entry.as_request))
            for id_ in self._leavers
            if (entry := entries.get(id_)) is not None
        }
        soon |= {x.id: self._gang(x) for x in made_to_leave(self.agents.values(), entries)}
        nodes = tuple(
            node_of(self.name, agent, entries)
            for agent in self.agents.values()
            if agent.id in seen or agent.presence is Presence.AWAY
        )
        return PoolDemand(
            pool=self.name,
            gangs=(*gangs, *soon.values()),
            nodes=nodes,
            has_waiting=self._has_waiting(),
        )

    def _has_waiting(self) -> bool:
        """Those that have their share wait for their own job only."""
        known = self._standing.waiting
        return any(
            (waiting := known.get(id_)) is None or waiting.reason.kind is not ReasonKind.SHARE_USED
            for id_ in self.waiting
        )

    def _gang(self, entry: PoolEntry) -> Gang:
        return Gang(
            request_id=entry.id,
            job_id=entry.as_request.job_id,
            pool=self.name,
            slots=entry.as_request.slots,
            single_agent=entry.as_request.single_agent,
            since=entry.as_request.requested,
            blocked_agents=by_agents(entry.as_request, self.agents.values()).blocked_agents,
            least_s=entry.least_s,
            user=entry.request.user,
            requires=entry.as_request.requires,
            run_time_s=entry.as_request.expected_run_s,
        )

    def _fits_open_agents(self, request: AllocationRequest) -> bool:
        known = self._standing.open_shape
        return fits_open_agents(self.options, self.agents.values(), known, request)


def _play_ahead(state: PoolState, request_id: str) -> float | None:
    with paused_collector():
        return expected_start(state, request_id)
