"""A pool that lives: jobs come and go, agents too, and every decision is applied. What must hold after each step,
whatever the policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar, get_args

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from master.core.reasons import ReasonKind
from master.core.scheduler import decide
from master.core.scheduler.types import (
    AgentState,
    Decision,
    FittingPolicy,
    Job,
    Launchable,
    PoolState,
    Request,
    Running,
    SchedulerSettings,
)

MOST_STEPS_TO_THE_END = 400


def apply(pool: PoolState, decision: Decision) -> PoolState:
    """What the pool does with a decision, checking every entry."""
    waiting = {request.id: request for request in pool.waiting}
    running = list(pool.running)
    for start in decision.start:
        request = waiting.pop(
            start.request_id
        )  # KeyError: nobody asked for it, or it was started twice
        assert sum(start.placement.values()) == request.slots, "a gang must be whole"
        assert not request.blocked_agents & set(start.placement)
        assert request.slots == 0 or all(slots > 0 for slots in start.placement.values())
        if request.single_agent or request.slots == 0:
            assert len(start.placement) == 1
        running.append(Running(request=request, placement=start.placement, started=pool.now))
    asked = {release.request_id for release in decision.release}
    assert len(asked) == len(decision.release)
    for one in pool.running:
        if one.request.id in asked:
            assert one.request.preemptible
            assert not one.releasing
            asked.discard(one.request.id)
            running[running.index(one)] = replace(one, releasing=True)
    assert not asked, "only what runs can be released"
    after = replace(pool, waiting=tuple(waiting.values()), running=tuple(running))
    check_slots(pool, after)
    return after


def used(pool: PoolState) -> Counter[str]:
    slots: Counter[str] = Counter()
    for one in pool.running:
        slots.update(dict(one.placement))
    return slots


def check_slots(before: PoolState, after: PoolState) -> None:
    """No agent gets more than it has; agents that take no work get nothing; `max_slots` holds."""
    had, has = used(before), used(after)
    aux = Counter(
        agent for one in after.running if one.request.slots == 0 for agent in one.placement
    )
    agents = {agent.id: agent for agent in after.agents}
    known = {one.request.id for one in before.running}
    for one in after.running:
        if one.request.id not in known:
            for agent in one.placement:
                assert agents[agent].schedulable
                assert has[agent] <= agents[agent].slots or one.request.slots == 0
                assert one.request.slots > 0 or aux[agent] <= agents[agent].aux_places
            job = after.jobs[one.request.job_id]
            if job.max_slots is not None and one.request.slots:
                assert slots_of(after, job.id) <= job.max_slots
    for agent, slots in has.items():
        assert slots <= max(had[agent], agents[agent].slots if agent in agents else 0)


def slots_of(pool: PoolState, job_id: str) -> int:
    return sum(r.request.slots for r in pool.running if r.request.job_id == job_id)


def let_leave(pool: PoolState) -> PoolState:
    """Everything that was asked to stop has stopped, and asks again."""
    leaving = [one for one in pool.running if one.releasing]
    return take_away(pool, leaving, again=True)


def take_away(pool: PoolState, gone: list[Running], *, again: bool) -> PoolState:
    """These have left, and slots that were to be taken out of service with them; they may ask again."""
    closed: Counter[str] = Counter()
    for one in gone:
        closed.update(dict(one.closing))
    ids = {one.request.id for one in gone}
    return replace(
        pool,
        agents=tuple(replace(a, slots=a.slots - closed[a.id]) for a in pool.agents),
        running=tuple(one for one in pool.running if one.request.id not in ids),
        waiting=(*pool.waiting, *(one.request for one in gone if again)),
    )


def could_start(pool: PoolState, request: Request, without: Container[str] = ()) -> bool:
    """Whether it fits in free slots now, by plain search, and `max_slots` lets it. `without`: not on these agents."""
    job = pool.jobs[request.job_id]
    if job.max_slots is not None and slots_of(pool, job.id) + request.slots > job.max_slots:
        return False
    busy = used(pool)
    open_agents = [
        a
        for a in pool.agents
        if a.schedulable and a.id not in request.blocked_agents and a.id not in without
    ]
    if any(a.slots - busy[a.id] >= request.slots for a in open_agents):
        return True
    if request.single_agent:
        return False
    idle = Counter(a.slots for a in open_agents if a.slots and not busy[a.id])
    if pool.settings.allow_heterogeneous_fits:
        sums = {0}
        for size in idle.elements():
            sums |= {total + size for total in sums}
        return request.slots in sums
    return any(request.slots % size == 0 and request.slots // size <= n for size, n in idle.items())


class LivingPool(RuleBasedStateMachine):
    """Rules change the world; the invariant decides, checks and applies."""

    settings: ClassVar[SchedulerSettings]

    def __init__(self) -> None:
        super().__init__()
        self.numbers = iter(range(1_000_000))
        self.pool = PoolState(now=0.0, settings=self.settings)

    @initialize(
        policy=st.sampled_from(get_args(FittingPolicy)),
        mixed=st.booleans(),
        sizes=st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=4),
    )
    def begin(self, policy: FittingPolicy, mixed: bool, sizes: list[int]) -> None:
        self.pool = replace(
            self.pool,
            settings=self.settings.model_copy(
                update={"fitting_policy": policy, "allow_heterogeneous_fits": mixed}
            ),
        )
        for size in sizes:
            self.agent_comes(size, 2)

    @rule(size=st.sampled_from([1, 2, 4, 6, 8]), aux=st.integers(0, 2))
    def agent_comes(self, size: int, aux: int) -> None:
        if len(self.pool.agents) < 5:
            agent = AgentState(id=f"agent-{next(self.numbers)}", slots=size, aux_places=aux)
            self.pool = replace(self.pool, agents=(*self.pool.agents, agent))

    @precondition(lambda self: self.pool.agents)
    @rule(data=st.data())
    def agent_drains_or_returns(self, data: st.DataObject) -> None:
        agent = data.draw(st.sampled_from(self.pool.agents))
        self._swap(agent, replace(agent, schedulable=not agent.schedulable))

    @precondition(lambda self: self.pool.agents)
    @rule(data=st.data())
    def slot_is_disabled(self, data: st.DataObject) -> None:
        """At once if it is free, else when who uses it has left."""
        agent = data.draw(st.sampled_from(self.pool.agents))
        if used(self.pool)[agent.id] < agent.slots:
            self._swap(agent, replace(agent, slots=agent.slots - 1))
            return
        for one in self.pool.running:
            if one.placement.get(agent.id, 0) > one.closing.get(agent.id, 0):
                closing = {**one.closing, agent.id: one.closing.get(agent.id, 0) + 1}
                closed = replace(one, closing=closing)
                everything = tuple(closed if r is one else r for r in self.pool.running)
                self.pool = replace(self.pool, running=everything)
                return

    @precondition(lambda self: self.pool.agents)
    @rule(data=st.data())
    def agent_goes(self, data: st.DataObject) -> None:
        """Its work is lost and asks again."""
        gone = data.draw(st.sampled_from(self.pool.agents))
        lost = [one for one in self.pool.running if gone.id in one.placement]
        self.pool = take_away(
            replace(self.pool, agents=tuple(a for a in self.pool.agents if a is not gone)),
            lost,
            again=True,
        )

    @rule(
        count=st.integers(1, 12),
        slots=st.sampled_from([0, 1, 1, 1, 2, 4, 8, 12, 16]),
        weight=st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0]),
        max_slots=st.sampled_from([None, None, None, 1, 4, 9]),
        priority=st.sampled_from([None, None, 1, 41, 42, 43, 99]),
        single=st.booleans(),
        preemptible=st.sampled_from([True, True, True, False]),
        blocked=st.integers(0, 1),
    )
    def job_comes(
        self,
        count: int,
        slots: int,
        weight: float,
        max_slots: int | None,
        priority: int | None,
        single: bool,
        preemptible: bool,
        blocked: int,
    ) -> None:
        number = next(self.numbers)
        job = Job(
            id=f"job-{number}",
            submitted=number,
            weight=weight,
            max_slots=max_slots,
            priority=priority,
        )
        avoid = frozenset(a.id for a in self.pool.agents[:blocked])
        requests = tuple(
            Request(
                id=f"{job.id}.{i}",
                job_id=job.id,
                slots=slots,
                requested=self.pool.now,
                single_agent=single and slots <= 8,
                preemptible=preemptible,
                blocked_agents=avoid,
            )
            for i in range(count)
        )
        self.pool = replace(
            self.pool,
            jobs={**self.pool.jobs, job.id: job},
            waiting=(*self.pool.waiting, *requests),
        )

    @rule(priority=st.sampled_from([None, 1, 50]), slots=st.sampled_from([1, 2, 4, 8, 8]))
    def plain_job_comes(self, priority: int | None, slots: int) -> None:
        """The usual one: nothing but slots, and more than there are."""
        self.job_comes(8 // slots + 1, slots, 1.0, None, priority, False, True, 0)

    @precondition(lambda self: self.pool.jobs)
    @rule(data=st.data(), priority=st.sampled_from([None, 1, 42, 50]), place=st.integers(0, 50))
    def job_is_moved(self, data: st.DataObject, priority: int | None, place: int) -> None:
        job = data.draw(st.sampled_from(list(self.pool.jobs.values())))
        moved = replace(job, priority=priority, position=Decimal(place))
        self.pool = replace(self.pool, jobs={**self.pool.jobs, job.id: moved})

    @precondition(lambda self: self.pool.running)
    @rule(data=st.data())
    def task_ends(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.pool.running))
        self.pool = take_away(self.pool, [one], again=False)

    @precondition(lambda self: any(one.releasing for one in self.pool.running))
    @rule()
    def asked_work_leaves(self) -> None:
        self.pool = let_leave(self.pool)

    @precondition(lambda self: any(one.releasing for one in self.pool.running))
    @rule(data=st.data())
    def one_leaves(self, data: st.DataObject) -> None:
        leaving = [one for one in self.pool.running if one.releasing]
        self.pool = take_away(self.pool, [data.draw(st.sampled_from(leaving))], again=True)

    @precondition(lambda self: self.pool.running)
    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.pool.running))
        saved = replace(one, last_checkpoint=self.pool.now)
        self.pool = replace(
            self.pool,
            running=tuple(saved if r is one else r for r in self.pool.running),
        )

    @rule(
        size=st.sampled_from([2, 8]),
        count=st.sampled_from([0, 0, 0, 1, 2]),
        ready=st.sampled_from([60, 900]),
    )
    def launchable_changes(self, size: int, count: int, ready: int) -> None:
        offer = Launchable(slots_per_agent=size, count=count, ready_in_s=float(ready))
        self.pool = replace(self.pool, launchable=(offer,) if count else ())

    @rule(seconds=st.sampled_from([1.0, 100.0, 5000.0]))
    def time_passes(self, seconds: float) -> None:
        self.pool = replace(self.pool, now=self.pool.now + seconds)

    @invariant()
    def decide_and_apply(self) -> None:
        decision = decide(self.pool)
        assert decision == decide(self.pool), "the same state, the same decision"
        self._check_every_request_is_answered(decision)
        after = apply(self.pool, decision)
        self._check_work_conserving(after, decision)
        self._check_idempotent(after, decision)
        self.check_policy(after, decision)
        self.pool = after

    def may_wait(self, request: Request, after: PoolState, decision: Decision) -> bool:
        """Whether the policy lets a request wait that fits in what is free."""
        return False

    def is_final(self, after: PoolState) -> bool:
        """Whether nothing more may be decided before anything happens."""
        return True

    def check_policy(self, after: PoolState, decision: Decision) -> None:
        """What only this policy promises."""

    def _swap(self, old: AgentState, new: AgentState) -> None:
        agents = tuple(new if a is old else a for a in self.pool.agents)
        self.pool = replace(self.pool, agents=agents)

    def _check_every_request_is_answered(self, decision: Decision) -> None:
        started = {start.request_id for start in decision.start}
        assert len(started) == len(decision.start)
        assert not started & set(decision.waiting)
        assert started | set(decision.waiting) == {r.id for r in self.pool.waiting}
        for answer in decision.waiting.values():
            assert answer.reason.text
            assert not (answer.needs_capacity and answer.victims)

    def _check_work_conserving(self, after: PoolState, decision: Decision) -> None:
        """Free slots stay free only for a request that waits for more of them."""
        pending = any(one.releasing for one in after.running)
        if pending or after.launchable:
            return
        for request in after.waiting:
            if request.slots:
                assert not could_start(after, request) or self.may_wait(request, after, decision)
                answer = decision.waiting[request.id]
                job = after.jobs[request.job_id]
                if job.max_slots is None:
                    assert answer.needs_capacity, answer

    def _check_idempotent(self, after: PoolState, decision: Decision) -> None:
        again = decide(after)
        started = {start.request_id for start in decision.start}
        assert not started & {release.request_id for release in again.release}
        if not self.is_final(after):
            return
        assert not again.start
        # What is coming back may take the place of an instance that then serves what only an instance can.
        assert not again.release or after.launchable

    def teardown(self) -> None:
        self._drive_to_the_end()

    def _drive_to_the_end(self) -> None:
        """Agents for every shape come, tasks end one after the other: everything runs and ends."""
        pool = replace(self.pool, launchable=())
        for size in (8, 8):
            agent = AgentState(id=f"agent-{next(self.numbers)}", slots=size)
            pool = replace(pool, agents=(*pool.agents, agent))
        pool = let_leave(pool)
        largest = {job.id: job.max_slots for job in pool.jobs.values()}
        for _ in range(MOST_STEPS_TO_THE_END):
            pool = apply(pool, decide(pool))
            leaving = any(one.releasing for one in pool.running)
            pool = let_leave(pool)
            if not leaving:
                pool = take_away(pool, list(pool.running[:1]), again=False)
            if not pool.running and not leaving and not decide(pool).start:
                break
        for request in pool.waiting:
            limit = largest[request.job_id]
            assert (limit is not None and request.slots > limit) or request.slots == 12, request


def is_allowed(request: Request, decision: Decision) -> bool:
    """Whether only room keeps it waiting."""
    kind = decision.waiting[request.id].reason.kind
    return kind not in (ReasonKind.NO_SUCH_AGENT, ReasonKind.SHARE_USED)
