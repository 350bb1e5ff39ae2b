"""Plays a trace: arrivals, ends and boots as they fall due, with the real scheduler and provisioner in between."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any, Protocol

from master.core.fall_back import NOWHERE, FallBackRule
from master.core.scheduler.types import SchedulerSettings
from provisioner.day_hours import next_change
from provisioner.fleet.reconciler import Provisioner
from provisioner.planning.gang_classes import nodes_needed
from provisioner.planning.unschedulable import nearest_fit
from provisioner.ports import FleetDocuments
from provisioner.simulator.falling_back import FallingBack
from provisioner.simulator.machines import SimulatedMachine, SimulatedMachines, Supply
from provisioner.simulator.pools import SimulatedCluster, SimulatedPool
from provisioner.simulator.trace import TraceJob
from provisioner.simulator.work import JobProgress, WorkModel
from provisioner.types import BlockedOffer, Offer, PoolSettings
from windlass.base.clock import Clock, ManualClock
from windlass.base.errors import InvalidConfig
from windlass.base.ids import Ids

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When every trace begins."""
LOOK_AGAIN_S = 60.0
"""While anything waits the provisioner looks again after so long, some of its rules being about time alone; twice as
long after each look that changed nothing."""
LONGEST_GAP_S = 1800.0
QUIET_LOOKS = 500
"""After so many looks that changed nothing, with nothing to come, work that waits will wait for ever."""
FIRST_PASSES = 3
"""Until providers are open, and their empty lists taken in: nothing is launched before."""
CALL_TURNS = 4
"""Turns of the event loop until every call to the simulated machines has been answered."""
SAMPLES = 1000
"""Points of a curve, and as many more."""
MOVES_LOOK_S = 900.0
"""Where work may be moved, the provisioner looks that often."""
MAX_ROUNDS = 1000
"""More decisions without time passing mean that they undo each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """One pool as it is to be simulated."""

    settings: PoolSettings
    scheduler: SchedulerSettings
    offers: Sequence[Offer] = ()
    """What its agents are launched as; empty: nobody launches any."""
    agents: Sequence[int] = ()
    """Agents that are always there, by their slots."""
    falls_back: FallBackRule = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What a configuration says, and what the world is like."""

    pools: Sequence[PoolPlan]
    default_pool: str
    supply: Supply = field(default_factory=lambda: Supply(stock={}))
    model: WorkModel = field(default_factory=WorkModel)
    seed: int = 0
    left_out: Sequence[str] = ()
    """What the configuration says and the simulation does not follow, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The cluster at one instant, for curves."""

    at_s: float
    waiting_slots: int
    busy_slots: int
    up_slots: int
    booting: int
    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What happened, whole. Times are seconds since the beginning of the trace."""

    plan: ClusterPlan
    jobs: Sequence[JobProgress]
    """Those that ended, in that order."""
    refused: Sequence[tuple[TraceJob, str]]
    """Those that could never run, and why."""
    machines: Sequence[SimulatedMachine]
    samples: Sequence[Sample]
    launches: int
    starts: int
    """Of stopped machines."""
    refused_calls: int
    ended_s: float


class Buyer(Protocol):
    """Who launches and ends machines. The provisioner is one."""

    async def load(self) -> None: ...

    def owning_calls(self) -> AbstractAsyncContextManager[None]: ...

    async def reconcile_pass(self) -> None: ...

    def look(self) -> None:
        """Have providers listed that have news, for the next pass."""

    def note_agent(self, instance_id: str, connected: bool) -> None: ...

    def blocked_offers(self) -> Sequence[BlockedOffer]: ...

    def idle_ends(self) -> Sequence[float]:
        """When machines without work are to be ended."""
        ...


MakeBuyer = Callable[[ClusterPlan, Mapping[str, SimulatedMachines], SimulatedCluster, Clock], Buyer]


def provisioner_of(
    plan: ClusterPlan,
    providers: Mapping[str, SimulatedMachines],
    cluster: SimulatedCluster,
    clock: Clock,
) -> Buyer:
    """The one that masters have."""
    return Provisioner(
        pools=[pool.settings for pool in plan.pools if pool.offers],
        providers=providers.values(),
        host=cluster,
        store=_NoStore(),
        clock=clock,
        ids=Ids.seeded(plan.seed),
        cluster_id="simulation",
        generation=1,
        interval_s=0.0,
    )


async def play(
    plan: ClusterPlan,
    jobs: Sequence[TraceJob],
    *,
    progress: Callable[[int], None] | None = None,
    buyer: MakeBuyer = provisioner_of,
) -> Played:
    """Until every job has ended and every machine that may go is gone. `progress` is told how many jobs have ended;
    `buyer` is another than the provisioner, to compare with.

    Raises InvalidConfig for a job in a pool that is not there, and for work that waits for ever.
    """
    return await _Replay(plan, jobs, progress, buyer).run()


class _Replay:
    def __init__(
        self,
        plan: ClusterPlan,
        jobs: Sequence[TraceJob],
        progress: Callable[[int], None] | None,
        buyer: MakeBuyer,
    ) -> None:
        self._plan = plan
        self._clock = ManualClock(START)
        self._start = START.timestamp()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._chances: set[int] = set()
        """Of what is due, by number: what is not played any more when all work is done."""
        self._expected = 0
        """Jobs that will end."""
        self._count = 0
        self._done: list[JobProgress] = []
        self._refused: list[tuple[TraceJob, str]] = []
        self._gone: list[SimulatedMachine] = []
        self._samples: list[Sample] = []
        self._sample_every_s = max((job.arrival_s for job in jobs), default=0.0) / SAMPLES
        self._look_at_s = 0.0
        self._look_gap_s = LOOK_AGAIN_S
        self._quiet_looks = 0
        self._has_notices = False
        self._progress = progress
        self._pools = {pool.settings.pool: pool for pool in plan.pools}
        self._cluster = SimulatedCluster(
            [
                SimulatedPool(name, pool.scheduler, launches=bool(pool.offers))
                for name, pool in self._pools.items()
            ],
            model=plan.model,
            start=self._start,
            now_s=self._clock.monotonic,
            schedule=self._schedule,
            finished=self._finished,
            never=lambda job, name: _never(job, self._pools[name]),
        )
        for name, pool in self._pools.items():
            self._cluster.install(name, pool.agents)
        self._falling_back = FallingBack(
            {name: pool.falls_back for name, pool in self._pools.items()}, self._cluster
        )
        self._providers = {
            name: SimulatedMachines(
                name=name,
                offers={
                    pool.settings.pool: [o for o in pool.offers if o.key.provider == name]
                    for pool in plan.pools
                },
                supply=plan.supply,
                clock=self._clock,
                start=self._start,
                schedule=self._schedule,
                by_chance=self._schedule_by_chance,
                rng=random.Random(f"{plan.seed} {name}"),
                booted=self._booted,
                told=self._told,
                ended=self._ended,
                stopped=self._stopped,
            )
            for name in sorted({o.key.provider for pool in plan.pools for o in pool.offers})
        }
        self._provisioner = buyer(plan, self._providers, self._cluster, self._clock)
        for job in jobs:
            self._expect(job)

    async def run(self) -> Played:
        await self._provisioner.load()
        async with self._provisioner.owning_calls():
            await self._reconcile(passes=FIRST_PASSES)
            stuck = ""
            while self._due or self._is_working:
                stuck = self._stuck()
                if stuck:
                    break
                at_s = min(
                    self._due[0][0] if self._due else inf, self._look_at_s, self._falling_back.due_s
                )
                if at_s == inf:
                    break
                self._sample(at_s)
                self._clock.advance(max(0.0, at_s - self._clock.monotonic()))
                while self._due and self._due[0][0] <= at_s:
                    heapq.heappop(self._due)[2]()
                await self._settle()
        if stuck:
            raise InvalidConfig([stuck], what="simulation")
        self._sample(inf)
        return Played(
            plan=self._plan,
            jobs=self._done,
            refused=self._refused,
            machines=[
                *self._gone,
                *(m for provider in self._providers.values() for m in provider.living.values()),
            ],
            samples=self._samples,
            launches=sum(provider.launches for provider in self._providers.values()),
            starts=sum(provider.starts for provider in self._providers.values()),
            refused_calls=sum(provider.refused for provider in self._providers.values()),
            ended_s=self._clock.monotonic(),
        )

    @property
    def _is_working(self) -> bool:
        pools = self._cluster.pools.values()
        return any(pool.waiting or pool.runs for pool in pools) or any(
            len(pool.nodes) - len(self._pools[name].agents)
            > self._pools[name].settings.min_instances
            for name, pool in self._cluster.pools.items()
        )

    def _schedule(self, at_s: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (at_s, self._count, what))

    def _schedule_by_chance(self, at_s: float, what: Callable[[], None]) -> None:
        """Machines that are kept without work would be taken back and launched again for ever."""
        if len(self._done) < self._expected:
            self._schedule(at_s, what)
            self._chances.add(self._count)

    def _expect(self, job: TraceJob) -> None:
        name = job.pool or self._plan.default_pool
        pool = self._pools.get(name)
        if pool is None:
            raise InvalidConfig(
                [
                    f"job {job.job_id}: there is no pool {name!r} to simulate "
                    f"({', '.join(self._pools)})"
                ],
                what="trace",
            )
        why = _never(job, pool)
        others = [self._pools[other] for other in pool.falls_back.pools]
        if why and all(_never(job, other) for other in others):
            self._refused.append((job, why))
            return
        self._expected += 1
        waiting = JobProgress(job=job, pool=name, queued_s=job.arrival_s)
        self._schedule(job.arrival_s, lambda: self._cluster.submit(waiting))

    def _finished(self, job: JobProgress) -> None:
        self._done.append(job)
        if self._progress is not None:
            self._progress(len(self._done))
        if len(self._done) == self._expected:
            self._due = [due for due in self._due if due[1] not in self._chances]
            heapq.heapify(self._due)

    def _booted(self, machine: SimulatedMachine) -> None:
        self._cluster.booted(machine)
        self._provisioner.note_agent(machine.id, True)

    def _told(self) -> None:
        self._has_notices = self._cluster.fleet_changed = True

    def _ended(self, machine: SimulatedMachine) -> None:
        self._gone.append(machine)
        self._provisioner.note_agent(machine.id, False)
        self._cluster.ended(machine)

    def _stopped(self, machine: SimulatedMachine) -> None:
        """As if it were gone, for whoever only sees its agent."""
        self._provisioner.note_agent(machine.id, False)
        self._cluster.ended(machine)

    async def _settle(self) -> None:
        """Until neither the scheduler nor the provisioner has anything more to do at this instant."""
        moved = False
        for _ in range(MAX_ROUNDS):
            self._cluster.decide()
            now_s = self._clock.monotonic()
            if not self._cluster.fleet_changed and now_s < self._look_at_s:
                if self._falling_back.step(now_s):
                    moved = True  # which may go on for ever: nothing that gives hope
                    continue
                return
            changed = self._cluster.fleet_changed and not moved
            self._look_gap_s = LOOK_AGAIN_S if changed else min(2 * self._look_gap_s, LONGEST_GAP_S)
            self._quiet_looks = 0 if changed else self._quiet_looks + 1
            # A notice is in a list, which one pass asks for and the next takes in.
            await self._reconcile(passes=2 if self._has_notices else 1)
            self._has_notices = False
            self._look_at_s = self._next_look_s(now_s)
        raise RuntimeError(f"decisions at {self._clock.now()} undo each other")

    async def _reconcile(self, passes: int = 1) -> None:
        """Until the provisioner has nothing more to ask of its providers at this instant, and has seen the answers."""
        while passes:
            passes -= 1
            self._cluster.fleet_changed = False
            before = self._calls()
            await self._provisioner.reconcile_pass()
            await self._answers()
            asked, ended = (now - then for now, then in zip(self._calls(), before, strict=True))
            if ended:
                self._provisioner.look()  # what shows them gone
                await self._answers()
            passes = max(passes, 1 if asked or ended else 0)

    async def _answers(self) -> None:
        for _ in range(CALL_TURNS):
            await asyncio.sleep(0)

    def _calls(self) -> tuple[int, int]:
        """Launches and terminations so far."""
        providers = self._providers.values()
        return (
            sum(each.launches + each.starts + each.refused for each in providers),
            sum(provider.terminations for provider in providers),
        )

    def _next_look_s(self, now_s: float) -> float:
        """When time alone may make the provisioner do something: idle machines, offers that were blocked."""
        at_s = min(
            (at for end in self._provisioner.idle_ends() if (at := end - self._start) > now_s),
            default=inf,
        )
        if self._due:
            now = self._start + now_s
            hours = [pool.settings.warm_hours for pool in self._pools.values()]
            at_s = min([at_s, *(next_change(each, now) - self._start for each in hours)])
        if any(
            pool.runs and self._pools[name].settings.disruption.is_on
            for name, pool in self._cluster.pools.items()
        ):
            at_s = min(at_s, now_s + MOVES_LOOK_S)
        if any(pool.waiting for pool in self._cluster.pools.values()):
            at_s = min(at_s, now_s + self._look_gap_s)
            untils = [blocked.until for blocked in self._provisioner.blocked_offers()]
            retries = [until - self._start for until in untils if until is not None]
            at_s = min([at_s, *(retry for retry in retries if retry > now_s)])
        return at_s

    def _sample(self, next_s: float) -> None:
        """What stays as it is until then; left out where neither that nor the time since the last one is long."""
        now_s = self._clock.monotonic()
        last_s = self._samples[-1].at_s if self._samples else -inf
        if max(now_s - last_s, next_s - now_s) < self._sample_every_s:
            return
        pools = self._cluster.pools.values()
        nodes = [node for pool in pools for node in pool.nodes.values()]
        every = [m for provider in self._providers.values() for m in provider.living.values()]
        living = [machine for machine in every if machine.stopped_s is None]
        disks = sum(m.offer.disk_usd_per_hour for m in every if m.stopped_s is not None)
        self._samples.append(
            Sample(
                at_s=now_s,
                waiting_slots=sum(r.slots for pool in pools for r in pool.waiting.values()),
                busy_slots=sum(node.agent.slots - node.free for node in nodes),
                up_slots=sum(node.agent.slots for node in nodes),
                booting=len(living) - sum(node.machine is not None for node in nodes),
                usd_per_hour=disks + sum(machine.offer.usd_per_hour for machine in living),
            )
        )

    def _stuck(self) -> str:
        """A job that nothing will ever start, and why; empty while there is hope."""
        if self._due or self._quiet_looks < QUIET_LOOKS:
            return ""
        if any(self._clock.monotonic() < out.until_s < inf for out in self._plan.supply.outages):
            return ""
        for pool in self._cluster.pools.values():
            for request in pool.waiting.values():
                reason = self._cluster.reason(pool.name, request.id)
                return f"job {request.job_id} would wait for ever: {reason.text if reason else '-'}"
        return ""


def fits_agents(pool: PoolPlan, slots: int, single_agent: bool) -> bool:
    """Whether the agents that are always there could hold it: on one of them, or on whole ones of equal size."""
    return any(
        (count := nodes_needed(slots, single_agent, size)) is not None and count <= there
        for size, there in Counter(pool.agents).items()
    )


def _never(job: TraceJob, pool: PoolPlan) -> str:
    """Why the pool can never run it; empty if it can."""
    if fits_agents(pool, job.slots, job.single_agent):
        return ""
    if not pool.offers:
        sizes = sorted(Counter(pool.agents).items(), reverse=True)
        there = ", ".join(f"{count} of {size} slots" for size, count in sizes)
        return f"its agents cannot hold {job.slots} slots ({there})"
    needed = [nodes_needed(job.slots, job.single_agent, offer.slots) for offer in pool.offers]
    fewest = min((count for count in needed if count), default=0)
    most = pool.settings.max_instances
    if not fewest:
        nearest = nearest_fit(job.slots, job.single_agent, [o.slots for o in pool.offers])
        return f"no instance type of the pool fits {job.slots} slots; the nearest that fits is {nearest}"
    if fewest > most:
        return f"needs {fewest} instances; max_instances is {most}"
    return ""


class _NoStore:
    """A `FleetStore` for a master that never restarts."""

    async def load(self) -> FleetDocuments:
        return _NoDocuments()

    async def check_lease(self) -> None:
        return None

    async def save(self, **_: Any) -> None:
        return None


class _NoDocuments:
    intents: Sequence[tuple[str, dict[str, Any]]] = ()
    instances: Sequence[tuple[str, dict[str, Any]]] = ()
    memory: dict[str, Any] | None = None
    lessons: Sequence[dict[str, Any]] = ()
    bakes: Sequence[dict[str, Any]] = ()
    decisions: Sequence[dict[str, Any]] = ()
