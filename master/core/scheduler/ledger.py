"""The pool state in the order policies think in: jobs as they queue, each with what it holds and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from master.core.expconf.models.schema import DEFAULT_PRIORITY
from master.core.scheduler.fitting import (
    EXPECTED,
    REAL,
    Apart,
    FreeAgent,
    FreeSlots,
    RequestShape,
    by_kind,
)
from master.core.scheduler.queue_order import priority_of, queue_key
from master.core.scheduler.types import (
    Job,
    Launchable,
    PoolState,
    Request,
    Running,
)
from master.core.scheduler.usage import (
    Usage,
    closing_slots,
    free_agents,
    lasting_sizes,
    sizes_unless_fixed,
    usage_of,
)

Wanted: TypeAlias = tuple[Request, RequestShape]


@dataclass(slots=True)
class JobAccount:
    """One job's account. Counts only work with slots."""

    job: Job
    age: int = 0
    """Rank in the order of the queue; 0 is first. Unless the policy has priorities that is by age."""
    priority: int = DEFAULT_PRIORITY
    held: int = 0
    """Slots of work that was not asked to stop, started in this decision or before."""
    leaving: int = 0
    """Slots of work that was asked to stop and still has them."""
    fixed: int = 0
    """Part of `held` that cannot be preempted."""
    promised: int = 0
    """Slots that this decision promised to requests of it."""
    preemptible: dict[int, int] = field(default_factory=dict)
    """The gangs that make up the rest of `held`: how many of each size."""
    waiting: list[Wanted] = field(default_factory=list)
    """By (requested, id). Only requests that could ever be placed and are not above `max_slots` by themselves."""
    gangs: dict[int, bool] = field(default_factory=dict)
    """Sizes of everything that runs, leaves or waits and could be placed with what cannot be preempted in place; each
    with whether it stays, once it runs."""

    def enter_gang(self, request: Request) -> None:
        self.gangs[request.slots] = self.gangs.get(request.slots, False) or not request.preemptible

    def hold(self, request: Request) -> None:
        """Account for a gang that has its slots."""
        self.held += request.slots
        if request.preemptible:
            self.preemptible[request.slots] = self.preemptible.get(request.slots, 0) + 1
        else:
            self.fixed += request.slots

    def take_back(self, request: Request) -> None:
        """Account for a gang that does not get its slots after all."""
        self.held -= request.slots
        if request.preemptible:
            self.preemptible[request.slots] -= 1
        else:
            self.fixed -= request.slots

    def let_go(self, request: Request) -> None:
        """Account for a preemptible gang that is asked to stop."""
        self.take_back(request)
        self.leaving += request.slots

    @property
    def room(self) -> float:
        """Slots that it may still take under `max_slots`; what is leaving still uses its part."""
        limit = self.job.max_slots
        return float("inf") if limit is None else limit - self.held - self.leaving

    @property
    def demand(self) -> int:
        """Slots it could use now. Work that is leaving will usually ask again, so shares do not jump meanwhile."""
        wanted = self.held + self.leaving + sum([shape.slots for _, shape in self.waiting])
        limit = self.job.max_slots
        return wanted if limit is None else min(wanted, limit)


@dataclass(slots=True)
class Ledger:
    """All of a pool's accounts, and its slots as they are and as they will be."""

    accounts: dict[str, JobAccount]
    """By job id, in the order of the queue."""
    usage: Usage
    sizes: dict[str, int]
    """Agents that may get work, with the slots that they will have once those in use that are disabled are gone."""
    aux: list[Request]
    """Waiting zero-slot requests by (requested, id)."""
    above_max_slots: list[Wanted]
    hopeless: list[Wanted]
    """Waiting requests that no agent, present or expected, could hold even if it were empty."""
    free_agents: list[FreeAgent]
    """Agents that may get work, with their free slots now: negative where slots in use were disabled."""
    leaving: dict[str, dict[str, int]]
    """Agent -> request id -> slots that work which was asked to stop will give back there."""
    closing: dict[str, int]
    """Agent -> slots that go out of service when work which was asked to stop has left."""
    kept: dict[str, int]
    """Agent -> slots of those that come back there which are kept for reservations."""
    expected: list[FreeAgent]
    """Agents that are booting or could be launched in time, as empty agents."""
    apart: Apart
    """Which agents no gang has together."""


def open_ledger(pool: PoolState) -> Ledger:
    expected = _expected_agents(pool)
    usage = usage_of(pool)
    ledger = Ledger(
        accounts={},
        usage=usage,
        sizes=lasting_sizes(pool, usage),
        aux=[],
        above_max_slots=[],
        hopeless=[],
        free_agents=free_agents(pool, usage.used),
        leaving=_leaving(usage.leavers),
        closing=closing_slots(usage.leavers),
        kept={agent: kept.returning for agent, kept in pool.kept.items()},
        expected=expected,
        apart=by_kind(pool.agents),
    )
    accounts = _accounts(pool)
    _enter_running(accounts, pool.running)
    _enter_waiting(ledger, accounts, pool)
    _enter_gangs(ledger, accounts, pool)
    ordered = sorted(accounts.values(), key=lambda account: queue_key(account.job, pool.settings))
    for age, account in enumerate(ordered):
        account.age = age
        account.priority = priority_of(account.job, pool.settings)
        ledger.accounts[account.job.id] = account
    return ledger


def _accounts(pool: PoolState) -> dict[str, JobAccount]:
    """One account per job that has or wants slots. A job nobody introduced is as old as its oldest request."""
    accounts: dict[str, JobAccount] = {}
    unknown: dict[str, float] = {}
    for request in (*(r.request for r in pool.running), *pool.waiting):
        job_id = request.job_id
        if request.slots <= 0 or job_id in accounts:
            continue
        job = pool.jobs.get(job_id)
        if job is not None:
            accounts[job_id] = JobAccount(job)
        else:
            unknown[job_id] = min(request.requested, unknown.get(job_id, request.requested))
    for job_id, since in unknown.items():
        accounts[job_id] = JobAccount(Job(id=job_id, submitted=since))
    return accounts


def _leaving(leavers: Iterable[Running]) -> dict[str, dict[str, int]]:
    leaving: dict[str, dict[str, int]] = {}
    for one in leavers:
        if one.request.slots > 0:
            for agent, slots in one.returning.items():
                leaving.setdefault(agent, {})[one.request.id] = slots
    return leaving


def _expected_agents(pool: PoolState) -> list[FreeAgent]:
    """Capacity that is ready soon enough to wait for it, as empty agents; never more than could be wanted."""
    wanted = sum(request.slots for request in pool.waiting)
    return [
        (expected_id(kind, n), one.slots_per_agent, one.slots_per_agent, EXPECTED)
        for kind, one in enumerate(agents_in_time(pool))
        if one.slots_per_agent > 0
        for n in range(min(one.count, wanted))
    ]


def agents_in_time(pool: PoolState) -> list[Launchable]:
    """Those that are ready soon enough to wait for them."""
    most_s = pool.settings.preempt_after.total_seconds()
    return [one for one in pool.launchable if one.ready_in_s <= most_s]


def expected_id(kind: int, number: int) -> str:
    """What an agent is called that is only expected; `kind` counts `agents_in_time`."""
    return f"expected-{kind:03d}-{number:06d}"


def _enter_running(accounts: dict[str, JobAccount], running: Iterable[Running]) -> None:
    for one in running:
        slots = one.request.slots
        if slots <= 0:
            continue
        account = accounts[one.request.job_id]
        account.enter_gang(one.request)
        if one.releasing:
            account.leaving += slots
        else:
            account.hold(one.request)


def _enter_waiting(ledger: Ledger, accounts: dict[str, JobAccount], pool: PoolState) -> None:
    whole = [(agent, size, size, REAL) for agent, size in ledger.sizes.items()]
    empty = FreeSlots(pool.settings, [*whole, *ledger.expected], ledger.apart)
    known: dict[tuple[int, bool, frozenset[str]], tuple[RequestShape, bool]] = {}
    """One object for all requests of a shape, and whether it fits."""
    for request in sorted(pool.waiting, key=attrgetter("requested", "id")):
        slots = request.slots
        if slots <= 0:
            ledger.aux.append(request)
            continue
        asked = (slots, request.single_agent, request.blocked_agents)
        if asked not in known:
            shape = RequestShape(*asked)
            known[asked] = shape, empty.find(shape, EXPECTED) is not None
        shape, fits = known[asked]
        account = accounts[request.job_id]
        limit = account.job.max_slots
        if limit is not None and slots > limit:
            ledger.above_max_slots.append((request, shape))
        elif not fits:
            ledger.hopeless.append((request, shape))
        else:
            account.waiting.append((request, shape))


def _enter_gangs(ledger: Ledger, accounts: dict[str, JobAccount], pool: PoolState) -> None:
    """A gang that could only run where work that nobody may preempt sits gets no turn: it would block the others."""
    fixed = ledger.usage.fixed
    sizes = sizes_unless_fixed(pool, ledger.usage)
    rows = [(agent, size, size - fixed.get(agent, 0), REAL) for agent, size in sizes.items()]
    rest = FreeSlots(pool.settings, [*rows, *ledger.expected], ledger.apart)
    reachable: dict[RequestShape, bool] = {}
    for account in accounts.values():
        for request, shape in account.waiting:
            if shape.slots in account.gangs:
                continue
            fits = reachable.get(shape)
            if fits is None:
                fits = reachable[shape] = rest.find(shape, EXPECTED) is not None
            if fits:
                account.enter_gang(request)
