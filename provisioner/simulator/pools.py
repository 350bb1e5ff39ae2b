"""The pools of a simulated cluster: what waits, what runs where. The real scheduler decides.

Implements `provisioner.ports.NodeHost` for all pools together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from master.core import fall_back
from master.core.deadlines import Deadline
from master.core.fall_back import Prospect, Wait
from master.core.reasons import Reason
from master.core.scheduler import decide
from master.core.scheduler.types import (
    AgentState,
    Job,
    Launchable,
    PoolState,
    Release,
    Request,
    Running,
    SchedulerSettings,
    Start,
    Waiting,
)
from provisioner.simulator.machines import Schedule, SimulatedMachine
from provisioner.simulator.trace import TraceJob
from provisioner.simulator.work import JobProgress, SimulatedRun, WorkModel
from provisioner.types import Gang, Node, PoolAvailability, PoolDemand


@dataclass(slots=True, kw_only=True)
class SimulatedNode:
    """One agent that is there."""

    pool: str
    agent: AgentState
    free: int
    machine: SimulatedMachine | None = None
    """What it was launched on; None: it is always there, and costs nothing more."""
    idle_since_s: float | None
    """None while anything runs on it."""
    busy_since_s: float = 0.0
    _node: Node | None = None

    def as_node(self) -> Node:
        """As the provisioner sees it; kept until something changes."""
        if self._node is None:
            self._node = Node(
                agent_id=self.agent.id,
                pool=self.pool,
                slots=self.agent.slots,
                free_slots=self.free if self.agent.schedulable else 0,
                instance_id=None if self.machine is None else self.machine.id,
                busy=self.idle_since_s is None,
                schedulable=self.agent.schedulable,
                facts=self.agent.facts,
            )
        return self._node

    @property
    def usd_per_slot_hour(self) -> float:
        return 0.0 if self.machine is None else self.machine.offer.usd_per_hour / self.agent.slots

    def set_schedulable(self, schedulable: bool) -> None:
        self.agent = replace(self.agent, schedulable=schedulable)
        self._node = None

    def take(self, slots: int, now_s: float) -> None:
        self._node = None
        if self.idle_since_s is not None:
            self.idle_since_s, self.busy_since_s = None, now_s
        self.free -= slots

    def give_back(self, slots: int, now_s: float) -> bool:
        """Whether nothing runs on it any more."""
        self._node = None
        self.free += slots
        if self.free < self.agent.slots:
            return False
        self.idle_since_s = now_s
        if self.machine is not None:
            self.machine.busy_s += now_s - self.busy_since_s
        return True


@dataclass(slots=True)
class SimulatedPool:
    """One pool. What is in it changes by its cluster only."""

    name: str
    scheduler: SchedulerSettings
    launches: bool = True
    """A provisioner brings up its agents."""
    waiting: dict[str, Request] = field(default_factory=dict)
    progress: dict[str, JobProgress] = field(default_factory=dict)
    """Of what waits, by request id."""
    runs: dict[str, SimulatedRun] = field(default_factory=dict)
    nodes: dict[str, SimulatedNode] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    reasons: Mapping[str, Waiting] = field(default_factory=dict)
    availability: PoolAvailability | None = None
    availability_at_s: float = 0.0
    gangs: tuple[Gang, ...] = ()
    """What the provisioner is to buy for."""
    is_stale: bool = False
    """Something that the scheduler looks at has changed since its last decision."""


class SimulatedCluster:
    """All pools. `now_s` answers the seconds since the beginning of the trace, which was at `start`."""

    def __init__(
        self,
        pools: Sequence[SimulatedPool],
        *,
        model: WorkModel,
        start: float,
        now_s: Callable[[], float],
        schedule: Schedule,
        finished: Callable[[JobProgress], None],
        never: Callable[[TraceJob, str], str],
    ) -> None:
        """`never`: why a job can never run in a pool; empty if it can."""
        self.pools = {pool.name: pool for pool in pools}
        self.fleet_changed = False
        """Something that the provisioner looks at has changed since whoever looks set it to False."""
        self._model = model
        self._start = start
        self._now_s = now_s
        self._schedule = schedule
        self._finished = finished
        self._never = never

    # --- work and machines come and go

    def submit(self, progress: JobProgress) -> None:
        pool = self.pools[progress.pool]
        request = progress.request(self._start, self._model)
        pool.waiting[request.id] = request
        pool.progress[request.id] = progress
        job = progress.job
        if job.job_id not in pool.jobs:
            pool.jobs[job.job_id] = Job(id=job.job_id, submitted=self._start + job.arrival_s)
        pool.is_stale = True

    def booted(self, machine: SimulatedMachine) -> None:
        pool = self.pools[machine.intent.pool]
        slots = machine.offer.slots
        pool.nodes[machine.id] = SimulatedNode(
            pool=pool.name,
            machine=machine,
            free=slots,
            agent=AgentState(id=machine.id, slots=slots, facts=machine.offer.facts),
            idle_since_s=self._now_s(),
        )
        pool.is_stale = self.fleet_changed = True

    def install(self, pool: str, agents: Sequence[int]) -> None:
        """Agents of so many slots each that are there from the beginning, and stay."""
        for number, slots in enumerate(agents):
            agent = AgentState(id=f"{pool}-{number}", slots=slots)
            self.pools[pool].nodes[agent.id] = SimulatedNode(
                pool=pool, agent=agent, free=slots, idle_since_s=self._now_s()
            )

    def ended(self, machine: SimulatedMachine) -> None:
        """The machine is gone, and what ran on it is lost."""
        pool = self.pools[machine.intent.pool]
        if machine.id not in pool.nodes:
            return
        for request_id in [r for r, run in pool.runs.items() if machine.id in run.placement]:
            self._lose(pool, request_id)
        del pool.nodes[machine.id]
        pool.is_stale = self.fleet_changed = True

    # --- falling back

    def could_hold(self, pool: str, request_id: str) -> bool:
        """Whether the pool could hold it if it were empty."""
        return not self._never(self.pools[pool].progress[request_id].job, pool)

    def prospects(self, name: str, requests: Mapping[str, Wait]) -> Mapping[str, Prospect]:
        """What a pool would do for requests that wait in others, if they came. Changes nothing."""
        pool = self.pools[name]
        came = [
            self.pools[wait.pool].waiting[id_]
            for id_, wait in requests.items()
            if not self._never(self.pools[wait.pool].progress[id_].job, name)
        ]
        jobs = {r.job_id: self.pools[requests[r.id].pool].jobs[r.job_id] for r in came}
        state = self._state(pool)
        state = replace(state, jobs={**jobs, **state.jobs}, waiting=(*state.waiting, *came))
        return fall_back.prospects(state, decide(state), {r.id: r.slots for r in came})

    def move(self, request_id: str, source: str, to: str) -> None:
        """With its age."""
        old, new = self.pools[source], self.pools[to]
        new.waiting[request_id] = request = old.waiting.pop(request_id)
        new.progress[request_id] = old.progress.pop(request_id)
        new.jobs[request.job_id] = old.jobs.pop(request.job_id)
        old.is_stale = new.is_stale = True

    def decide(self) -> None:
        """Let the scheduler of each pool whose state has changed decide, and carry it out."""
        for pool in self.pools.values():
            if not pool.is_stale:
                continue
            pool.is_stale = False
            if pool.waiting:
                decision = decide(self._state(pool))
                for start in decision.start:
                    self._run(pool, start)
                for release in decision.release:
                    self._ask(pool, release)
                pool.reasons = decision.waiting
            gangs = self._gangs(pool) if pool.launches else ()
            if gangs != pool.gangs:
                pool.gangs = gangs
                self.fleet_changed = True

    # --- NodeHost

    def demand(self) -> Sequence[PoolDemand]:
        return [
            PoolDemand(
                pool=pool.name,
                gangs=pool.gangs,
                nodes=tuple(node.as_node() for node in pool.nodes.values()),
                has_waiting=bool(pool.waiting),
            )
            for pool in self.pools.values()
            if pool.launches
        ]

    def cordon(self, agent_id: str) -> bool:
        for pool in self.pools.values():
            node = pool.nodes.get(agent_id)
            if node is not None:
                if node.idle_since_s is None:
                    return False
                node.set_schedulable(False)
        return True

    def drain(self, agent_id: str) -> None:
        for pool in self.pools.values():
            if (node := pool.nodes.get(agent_id)) is not None:
                node.set_schedulable(False)

    def uncordon(self, agent_id: str) -> None:
        for pool in self.pools.values():
            if (node := pool.nodes.get(agent_id)) is not None:
                node.set_schedulable(True)
                pool.is_stale = True

    def running(self, pool: str) -> Sequence[Running]:
        now_s = self._now_s()
        return [
            replace(run.running, last_checkpoint=self._start + run.checkpoint_s(now_s, self._model))
            for run in self.pools[pool].runs.values()
        ]

    def leave(self, agent_id: str, deadline: Deadline) -> None:
        for pool in self.pools.values():
            node = pool.nodes.get(agent_id)
            if node is None:
                continue
            if node.agent.schedulable:
                node.set_schedulable(False)
                pool.is_stale = self.fleet_changed = True
            for request_id, run in pool.runs.items():
                asked = agent_id in run.placement and run.progress.job.preemptible
                if asked and run.asked_s is None:
                    self._release(pool, request_id, run)
                    pool.is_stale = self.fleet_changed = True

    async def instance_gone(self, agent_id: str, reason: str) -> None:
        return None

    def availability(self, availability: PoolAvailability) -> None:
        pool = self.pools[availability.pool]
        before, pool.availability = pool.availability, availability
        pool.availability_at_s = self._now_s()
        if pool.waiting and (before is None or _shape(before) != _shape(availability)):
            pool.is_stale = True

    def reason(self, pool: str, request_id: str) -> Reason | None:
        """Why a request waits, as its user would read it."""
        planned = self.pools[pool].availability
        waiting = self.pools[pool].reasons.get(request_id)
        known = planned.reasons.get(request_id) if planned else None
        return known or (waiting.reason if waiting else None)

    # --- what the scheduler sees, and what follows

    def _state(self, pool: SimulatedPool) -> PoolState:
        return PoolState(
            now=self._start + self._now_s(),
            settings=pool.scheduler,
            agents=tuple(node.agent for node in pool.nodes.values()),
            jobs=pool.jobs,
            waiting=tuple(pool.waiting.values()),
            running=tuple(run.running for run in pool.runs.values()),
            launchable=self._launchable(pool),
        )

    def _launchable(self, pool: SimulatedPool) -> tuple[Launchable, ...]:
        if pool.availability is None:
            return ()
        age_s = self._now_s() - pool.availability_at_s
        return pool.availability.for_scheduler(age_s=age_s, joined=pool.nodes)

    def _gangs(self, pool: SimulatedPool) -> tuple[Gang, ...]:
        return tuple(
            Gang(
                request_id=request.id,
                job_id=request.job_id,
                pool=pool.name,
                slots=request.slots,
                single_agent=request.single_agent,
                since=request.requested,
                user=pool.progress[request.id].job.user,
            )
            for request in pool.waiting.values()
            if (waiting := pool.reasons.get(request.id)) and waiting.needs_capacity
        )

    def _run(self, pool: SimulatedPool, start: Start) -> None:
        request = pool.waiting.pop(start.request_id)
        progress = pool.progress.pop(start.request_id)
        now_s = self._now_s()
        usd_per_hour = 0.0
        for agent_id, slots in start.placement.items():
            node = pool.nodes[agent_id]
            node.take(slots, now_s)
            usd_per_hour += node.usd_per_slot_hour * slots
        progress.waited_s += now_s - progress.queued_s
        if progress.first_start_s is None:
            progress.first_start_s = now_s
        run = SimulatedRun(
            progress=progress,
            running=Running(
                request=request, placement=start.placement, started=self._start + now_s
            ),
            started_s=now_s,
            overhead_s=self._model.restart_s if progress.runs else 0.0,
            usd_per_hour=usd_per_hour,
        )
        progress.runs += 1
        progress.ran_in = pool.name
        progress.away_runs += pool.name != progress.pool
        pool.runs[request.id] = run
        self._schedule(run.ends_s, partial(self._done, pool, request.id))

    def _ask(self, pool: SimulatedPool, release: Release) -> None:
        run = pool.runs.get(release.request_id)
        if run is not None:
            self._release(pool, release.request_id, run)

    def _release(self, pool: SimulatedPool, request_id: str, run: SimulatedRun) -> None:
        if run.asked_s is None:
            run.asked_s = self._now_s()
            run.running = replace(run.running, releasing=True)
            self._schedule(
                run.asked_s + self._model.checkpoint_s, partial(self._left, pool, request_id)
            )

    def _done(self, pool: SimulatedPool, request_id: str) -> None:
        run = pool.runs.get(request_id)
        if run is None or run.asked_s is not None:
            return  # it left before, or is about to
        self._end_run(pool, request_id, kept_s=run.worked_s(self._now_s()))
        run.progress.ended_s = self._now_s()
        pool.jobs.pop(run.progress.job.job_id, None)
        self._finished(run.progress)

    def _left(self, pool: SimulatedPool, request_id: str) -> None:
        """It has written its checkpoint, and waits again."""
        run = pool.runs.get(request_id)
        if run is not None and run.asked_s is not None:
            self._end_run(pool, request_id, kept_s=run.worked_s(run.asked_s))
            self._again(pool, run.progress)

    def _lose(self, pool: SimulatedPool, request_id: str) -> None:
        """A machine of it is gone: what its last checkpoint does not hold is done again."""
        run = pool.runs[request_id]
        kept_s = 0.0
        if run.progress.job.preemptible:
            every = self._model.checkpoint_every_s
            kept_s = run.worked_s(self._now_s()) // every * every
        self._end_run(pool, request_id, kept_s=kept_s)
        self._again(pool, run.progress)

    def _again(self, pool: SimulatedPool, progress: JobProgress) -> None:
        """In its own pool."""
        if pool.name != progress.pool:
            del pool.jobs[progress.job.job_id]
        progress.queued_s = self._now_s()
        self.submit(progress)

    def _end_run(self, pool: SimulatedPool, request_id: str, *, kept_s: float) -> None:
        run = pool.runs.pop(request_id)
        now_s = self._now_s()
        run.book(now_s, kept_s=kept_s)
        for agent_id, slots in run.placement.items():
            if pool.nodes[agent_id].give_back(slots, now_s):
                self.fleet_changed = True
        pool.is_stale = pool.is_stale or bool(pool.waiting)


def _shape(availability: PoolAvailability) -> tuple[object, ...]:
    """What of it can change a decision: not that seconds pass."""
    return (
        tuple(node.instance_id for node in availability.booting),
        tuple((node.slots, node.count) for node in availability.launchable),
    )
