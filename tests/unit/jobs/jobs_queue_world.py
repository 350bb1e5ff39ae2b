"""Jobs, pools and queues in memory, for tests of the job queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

from master.allocations.machine import AllocationState
from master.core.actor import Actor
from master.core.jobs import (
    JobChange,
    JobType,
    SetMaxSlots,
    SetPlace,
    SetPool,
    SetPriority,
    SetWeight,
)
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.types import SchedulerSettings
from master.jobs.ports import JobFacts
from master.jobs.service import JobService
from master.store.store import Store
from master.workspace_rules import WorkspaceRules
from rm_backends.base import JobOrder
from rm_backends.views import JobInPool, PoolView, QueueEntry, QueueState, jobs_of
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument, NotFound, WindlassError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRIORITY = SchedulerSettings(type="priority", preemption=True)
FAIR_SHARE = SchedulerSettings()
ROUND_ROBIN = SchedulerSettings(type="round_robin")
BEHIND = Reason(kind=ReasonKind.QUEUED, text="queued behind others")


def facts(job_id: str, age_s: float = 0.0, **changes: Any) -> JobFacts:
    """A job that came `age_s` after the first."""
    order = JobOrder(
        job_id=job_id,
        submitted=NOW + timedelta(seconds=age_s),
        **{k: changes.pop(k) for k in ("priority", "weight", "max_slots") if k in changes},
    )
    values: dict[str, Any] = {
        "type": JobType.EXPERIMENT,
        "entity_id": "1",
        "name": f"name of {job_id}",
        "owner_id": 2,
        "owner_name": "ann",
        "workspace_id": 1,
        "pool": "gpu",
        **changes,
    }
    return JobFacts(job_id=job_id, order=order, **values)


def entry(
    of: JobFacts, run: int = 1, *, slots: int = 1, state: str = "queued", **changes: Any
) -> QueueEntry:
    """One allocation; what is not queued holds its slots on `node`."""
    held = state != "queued"
    values: dict[str, Any] = {
        "requested": of.order.submitted + timedelta(seconds=run),
        "placement": {"node": slots} if held else {},
        "reason": None if held else BEHIND,
        "pool": of.pool,
        **changes,
    }
    return QueueEntry(
        allocation_id=f"{of.job_id}.{run}",
        task_id=of.job_id,
        name=f"Trial {run}",
        job=of.order.as_job(),
        slots=slots,
        preemptible=True,
        state=QueueState(state),
        **values,
    )


def pool_view(
    name: str,
    settings: SchedulerSettings,
    *,
    dynamic: bool = False,
    used: int = 0,
    type_: str = "static",
) -> PoolView:
    return PoolView(
        name=name,
        description="",
        type=type_,
        dynamic=dynamic,
        agents=1,
        slots=4,
        slots_used=used,
        aux_running=0,
        aux_capacity=100,
        waiting=0,
        running=0,
        settings=settings,
    )


class MemoryJob:
    """A root that takes every change that its kind can take."""

    def __init__(self, of: JobFacts) -> None:
        self.facts = of
        self.waiting: list[str] = []
        self.changes: list[JobChange] = []
        self.broken: WindlassError | None = None

    def job_facts(self) -> JobFacts:
        return self.facts

    def waiting_allocations(self) -> Sequence[str]:
        return self.waiting

    async def change_job(self, change: JobChange, *, by: Actor) -> None:
        if self.broken is not None:
            raise self.broken
        order, pool = self.facts.order, self.facts.pool
        match change:
            case SetPriority(priority):
                order = replace(order, priority=priority, position=None)
            case SetWeight(weight):
                order = replace(order, weight=weight)
            case SetMaxSlots(max_slots):
                order = replace(order, max_slots=max_slots)
            case SetPlace(position, priority):
                order = replace(order, position=position, priority=priority)
            case SetPool() if self.facts.type is not JobType.EXPERIMENT:
                raise InvalidArgument("only experiments can change their pool")
            case SetPool(pool):
                pass
        self.changes.append(change)
        self.facts = replace(self.facts, order=order, pool=pool)


@dataclass
class MemoryCluster:
    """Its own JobSource, PoolQueues, Runs and resource manager."""

    settings: dict[str, SchedulerSettings]
    jobs: dict[str, MemoryJob] = field(default_factory=dict)
    entries: list[QueueEntry] = field(default_factory=list)
    reasons: dict[str, Reason] = field(default_factory=dict)
    starts: dict[str, datetime] = field(default_factory=dict)
    """Of allocations that wait: when they will start."""
    running_since: dict[str, datetime] = field(default_factory=dict)

    def add(self, *jobs: JobFacts) -> None:
        self.jobs.update({one.job_id: MemoryJob(one) for one in jobs})

    def service(self, store: Store) -> JobService:
        return JobService(
            sources=[self],
            queues=self,
            allocations=cast("Any", self),
            store=store,
            clock=ManualClock(NOW),
            rules=WorkspaceRules(store, lambda: self.settings),
        )

    def place(self, job_id: str) -> tuple[Decimal | None, int | None]:
        order = self.jobs[job_id].facts.order
        return order.position, order.priority

    def job_roots(self) -> Sequence[MemoryJob]:
        return list(self.jobs.values())

    def job_root(self, job_id: str) -> MemoryJob | None:
        return self.jobs.get(job_id)

    def pools(self) -> Sequence[str]:
        return list(self.settings)

    def away(self, job_id: str) -> Sequence[str]:
        home = self.jobs[job_id].facts.pool
        return sorted({one.pool for one in self.entries if one.job.id == job_id} - {home})

    def pools_view(self) -> Sequence[PoolView]:
        return [pool_view(name, settings) for name, settings in self.settings.items()]

    def scheduler(self, pool: str) -> SchedulerSettings:
        if pool not in self.settings:
            raise NotFound("resource pool", pool)
        return self.settings[pool]

    def jobs_in(self, pool: str) -> Sequence[JobInPool]:
        return jobs_of(self.queue(pool))

    def queue(self, pool: str, job_id: str | None = None) -> Sequence[QueueEntry]:
        self.scheduler(pool)
        return [one for one in self.entries if one.pool == pool and job_id in (None, one.job.id)]

    @property
    def rm(self) -> MemoryCluster:
        return self

    def explain(self, allocation_id: str) -> Reason | None:
        return self.reasons.get(allocation_id)

    async def expected_start(self, allocation_id: str) -> datetime | None:
        return self.starts.get(allocation_id)

    def state(self, allocation_id: str) -> AllocationState:
        if allocation_id not in self.running_since:
            raise NotFound("allocation", allocation_id)
        return AllocationState(
            id=allocation_id,
            task_id="t",
            run_id=1,
            pool="gpu",
            slots=1,
            requested_at=NOW,
            started_at=self.running_since[allocation_id],
        )
