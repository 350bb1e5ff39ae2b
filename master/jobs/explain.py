"""Why a job waits, in words for its user: the reason, what would help, when it will start, and what it holds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from master.allocations.machine import AllocationPhase
from master.core.jobs import HIGHEST_PRIORITY, JobType
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.explain import count
from master.jobs.ports import JobFacts
from master.jobs.queue import QueuedJob, has_places
from rm_backends.base import FellBack
from rm_backends.views import PoolView


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRun:
    """One allocation that has no slots yet."""

    allocation_id: str
    name: str
    slots: int | None
    """None: its pool does not know it."""
    since: datetime | None
    reason: Reason
    advice: str
    """What would have to happen, or could be done."""
    expected_start: datetime | None
    """None: nobody can know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingRun:
    """One allocation that has slots."""

    allocation_id: str
    name: str
    slots: int
    since: datetime | None
    """When it began to run; None: it is being started."""
    placement: Mapping[str, int]
    """agent id -> slots"""
    is_releasing: bool
    """It was asked to give them back."""
    pool: str
    fell_back: FellBack | None = None
    """Why it is not in its own pool; None: it is."""
    phase: AllocationPhase = AllocationPhase.TERMINATED
    """How far it is; that of one which is over, where only its pool still knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    facts: JobFacts
    queued: QueuedJob | None
    """None: it asks for nothing now."""
    waiting: tuple[WaitingRun, ...]
    """The oldest ones."""
    waiting_total: int
    holding: tuple[HoldingRun, ...]

    @property
    def text(self) -> str:
        """The job in one line."""
        job = self.queued
        if not self.holding and not self.waiting_total:
            return "requests no slots now: it is paused, or between two allocations"
        parts = []
        if self.holding:
            parts.append(
                f"holds {count(sum(allocation.slots for allocation in self.holding), 'slot')}"
            )
        if self.waiting_total:
            parts.append(f"{count(self.waiting_total, 'request')} waiting for slots")
        if job is not None and self.waiting_total and job.jobs_ahead >= 0:
            parts.append(f"{count(job.jobs_ahead, 'job')} ahead")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What advice depends on besides the reason."""

    facts: JobFacts
    queued: QueuedJob | None
    where: str
    """The pool that it waits in."""
    pool: PoolView | None
    """None: it is gone from the configuration."""
    slots: int | None


def advise(reason: Reason, situation: Situation) -> str:
    """What would have to happen for it to start, or what could be done."""
    pool = situation.pool
    is_batch = pool is not None and pool.type in BATCH_SYSTEMS
    own = _OF_BATCH_JOBS.get(reason.kind) if is_batch else None
    return (own or _ADVICE[reason.kind])(situation)


def _queued(it: Situation) -> str:
    if it.pool is None:
        return "wait, or move it to another pool"
    if has_places(it.pool.settings):
        if it.queued is None or it.queued.jobs_ahead == 0:
            return "wait until slots are free: it is the first in the queue"
        return (
            f"wait for the {count(it.queued.jobs_ahead, 'job')} ahead of it, move it ahead of one, or give it a "
            f"more important priority than {it.queued.priority} ({HIGHEST_PRIORITY} is the most important)"
        )
    if it.pool.settings is None:
        return f"wait: the queue of {it.pool.type} decides when it starts"
    if it.pool.settings.type == "round_robin":
        return "wait: jobs take turns in this pool"
    return _share_is_full(it)


def _share_used(it: Situation) -> str:
    """Its max_slots or, under fair_share, also its share: what of both is known here cannot always tell them apart."""
    limit, weight = it.facts.order.max_slots, f"{it.facts.order.weight:g}"
    held = it.queued.allocated_slots if it.queued is not None else 0
    wanted = it.queued.requested_slots if it.queued is not None else 0
    settings = it.pool.settings if it.pool is not None else None
    shares = settings is None or settings.type == "fair_share"
    if limit is not None and (not shares or held + (it.slots or 0) > limit):
        others = wanted > (it.slots or 0)
        return f"raise its max_slots of {limit}" + (
            ", or wait until its other allocations end" * others
        )
    if limit is not None and wanted > limit:
        return f"wait until other allocations end, or raise its max_slots of {limit} and its weight of {weight}"
    return _share_is_full(it)


def _share_is_full(it: Situation) -> str:
    held = it.queued.allocated_slots if it.queued is not None else 0
    if it.pool is not None and 0 < it.pool.slots_used <= held:
        return (
            f"wait until its other allocations end, or add agents to pool {it.pool.name}: "
            "no other job holds slots there"
        )
    return f"wait until other jobs release slots, or raise its weight of {it.facts.order.weight:g}"


def _needs_capacity(it: Situation) -> str:
    if it.pool is not None and it.pool.dynamic:
        return "wait: the pool launches machines as its limits allow"
    return f"wait until slots are free, or add agents to pool {it.where}"


def _no_such_agent(it: Situation) -> str:
    fitting = "agents" if it.slots is None else f"agents that can hold {count(it.slots, 'slot')}"
    if it.pool is None:
        return f"add pool {it.where} to the master's configuration again{_or_another_pool(it)}"
    fewer = ", request fewer slots" if it.slots is None or it.slots > 1 else ""
    return (
        f"add {fitting} to pool {it.where}, or reconnect or enable those that are away or disabled"
        f"{fewer}{_or_another_pool(it)}"
    )


def _no_capacity(it: Situation) -> str:
    more = f"allow more instance types or zones in pool {it.where}"
    return f"wait: the request to the provider is repeated; or {more}{_or_another_pool(it)}"


def _refused_by_site(it: Situation) -> str:
    return f"correct what it asks for, as the reason says{_or_another_pool(it)}"


def _or_another_pool(it: Situation) -> str:
    return ", or move it to another pool" if it.facts.type is JobType.EXPERIMENT else ""


_ADVICE: Mapping[ReasonKind, Callable[[Situation], str]] = {
    ReasonKind.QUEUED: _queued,
    ReasonKind.SHARE_USED: _share_used,
    ReasonKind.NEEDS_RELEASE: lambda it: (
        "nothing to do: it starts when the work that is being preempted has ended"
    ),
    ReasonKind.NEEDS_CAPACITY: _needs_capacity,
    ReasonKind.NO_SUCH_AGENT: _no_such_agent,
    ReasonKind.LAUNCHING: lambda it: "nothing to do: an instance for it is being launched",
    ReasonKind.NO_CAPACITY: _no_capacity,
    ReasonKind.QUEUED_AT_PROVIDER: lambda it: (
        "nothing to do: it starts when the site delivers" + _or_another_pool(it)
    ),
    ReasonKind.QUOTA: lambda it: (
        "request a larger quota from the provider, or wait until other work has ended"
        + _or_another_pool(it)
    ),
    ReasonKind.AT_LIMIT: lambda it: (
        f"wait until instances are free, or raise max_instances of pool {it.where}"
    ),
    ReasonKind.OVER_BUDGET: lambda it: (
        f"wait until spending drops, or raise the budget of pool {it.where}"
    ),
    ReasonKind.THROTTLED: lambda it: "nothing to do: the call to the provider is repeated",
    ReasonKind.UNREACHABLE: lambda it: (
        "wait: the provider is called again and again" + _or_another_pool(it)
    ),
    ReasonKind.CREDENTIALS: lambda it: (
        f"an administrator must renew the credentials of pool {it.where}'s provider"
        + _or_another_pool(it)
    ),
    ReasonKind.MISCONFIGURED: lambda it: (
        f"an administrator must correct the configuration of pool {it.where}" + _or_another_pool(it)
    ),
    ReasonKind.CHOOSING: lambda it: "nothing to do: its hyperparameters are being chosen",
    ReasonKind.STARTING: lambda it: "nothing to do: it is about to start",
}

BATCH_SYSTEMS = ("slurm", "pbs")
"""Types of pools."""
_OF_BATCH_JOBS: Mapping[ReasonKind, Callable[[Situation], str]] = {
    ReasonKind.NO_SUCH_AGENT: _refused_by_site,
    ReasonKind.LAUNCHING: lambda it: "nothing to do: its batch job is starting",
    ReasonKind.NO_CAPACITY: lambda it: (
        "wait: its batch job starts when the site has nodes for it" + _or_another_pool(it)
    ),
    ReasonKind.QUOTA: lambda it: (
        "wait until other jobs have ended, or ask the site for higher limits" + _or_another_pool(it)
    ),
    ReasonKind.AT_LIMIT: lambda it: (
        f"wait until one of its jobs has started, or raise max_queued or max_instances of pool {it.where}"
        + _or_another_pool(it)
    ),
    ReasonKind.UNREACHABLE: lambda it: (
        "wait: the site is asked again and again" + _or_another_pool(it)
    ),
}
"""Instead of those of `_ADVICE`, where work waits for batch jobs."""
