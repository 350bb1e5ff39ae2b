"""The starvation guard around a policy: decide, see who starves, keep places for them, and decide again without these.

When nothing starves, the policy's decision stands. Else gangs that starve get reservations: under `priority` in the
order of the queue, and only those that no more important request waits before, unless that has one, too; else by age.
What the policy starts before the first of them, in the same order, it starts. It then decides again on what is left. At
last what still waits and is known to end in time is started on reserved slots.

`priority` with preemption needs no guard: what cannot be asked to leave does not pass a gang that waits, and all that
can be leaves as soon as that makes room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from master.core.reasons import ReasonKind
from master.core.scheduler.fitting import shape_of
from master.core.scheduler.ledger import Wanted
from master.core.scheduler.queue_order import in_queue_order, priority_of
from master.core.scheduler.reservations import (
    LARGE,
    Reservations,
    reserve_for_starving,
    reserved,
)
from master.core.scheduler.types import (
    Decision,
    Job,
    PoolState,
    Request,
    Running,
    Start,
    Waiting,
)
from master.core.scheduler.usage import free_agents, used_slots


def decide_guarded(pool: PoolState, policy: Callable[[PoolState], Decision]) -> Decision:
    """The policy's decision, with places kept for gangs that have waited for longer than `reserve_after`."""
    decision = policy(pool)
    first, candidates = _in_order(pool, decision)
    if not any(request.id in decision.waiting for request, _ in candidates):
        return decision
    pool = _begun(pool, first)
    free = free_agents(pool, used_slots(pool.running))
    # Shares say who starts: somebody else would be asked to leave again. Places are only kept free for their time.
    shares = pool.settings.type == "fair_share"
    found = reserve_for_starving(pool, free, candidates, only_later=shares)
    if found is None or not found.by_request:
        return decision
    now = [
        Start(request_id=name, placement=one.placement)
        for name, one in found.by_request.items()
        if one.at == pool.now
    ]
    second = policy(replace(_begun(pool, now), kept=found.kept()))
    requests = {request.id: request for request in pool.waiting}
    waiting = dict(second.waiting)
    for name, one in found.by_request.items():
        if name in waiting and waiting[name].needs_capacity:
            waiting[name] = reserved(one, pool.now)
    for start in second.start:
        found.start(start.placement, requests[start.request_id].expected_run_s)
    starts = (*now, *second.start)
    short = (
        requests[name]
        for name, answer in waiting.items()
        if _may_fill(answer) and name not in found.by_request
    )
    filling = [] if found.is_full else _backfill(pool, found, starts, short)
    for start in filling:
        del waiting[start.request_id]
    return Decision(start=(*first, *starts, *filling), release=second.release, waiting=waiting)


def _in_order(pool: PoolState, decision: Decision) -> tuple[list[Start], list[Wanted]]:
    """What starts before anything is reserved, and the starving gangs that the policy would start if they fitted.

    Those that it would start anyhow are among them: else the places of those behind them would take their slots.
    """
    settings = pool.settings
    if settings.reserve_after is None or settings.preemption:
        return [], []
    long_ago = pool.now - settings.reserve_after.total_seconds()
    starving = {r.id for r in pool.waiting if r.slots >= LARGE and r.requested <= long_ago}
    if not starving:
        return [], []
    starts = {start.request_id: start for start in decision.start}
    is_queue = settings.type == "priority"
    wanting = [
        request
        for request in pool.waiting
        if ((request.slots and is_queue) or request.id in starving)
        and (request.id in starts or decision.waiting[request.id].in_turn)
    ]
    if not is_queue:
        first, candidates = _by_age(pool, wanting, starts)
        # Under shares nothing begins here, so there is nothing to protect from it.
        return [] if settings.type == "fair_share" else first, candidates
    first, candidates = [], []
    limit: int | None = None
    for request in in_queue_order(pool, wanting):
        priority = _priority(pool, request)
        if request.id in starving:
            if limit is not None and priority > limit:
                break
            candidates.append((request, shape_of(request)))
        elif request.id in starts and not candidates:
            first.append(starts[request.id])
        else:
            limit = priority if limit is None else limit
    return first, candidates


def _by_age(
    pool: PoolState, starving: Sequence[Request], starts: Mapping[str, Start]
) -> tuple[list[Start], list[Wanted]]:
    """Where no queue says who is before whom: what was asked for earlier. What comes later cannot starve anybody."""
    if not starving:
        return [], []
    ordered = sorted(starving, key=_age)
    oldest = _age(ordered[0])
    first = [
        starts[request.id]
        for request in pool.waiting
        if request.slots and request.id in starts and _age(request) < oldest
    ]
    return first, [(request, shape_of(request)) for request in ordered]


def _age(request: Request) -> tuple[float, str]:
    return request.requested, request.id


def _priority(pool: PoolState, request: Request) -> int:
    job = pool.jobs.get(request.job_id) or Job(id=request.job_id, submitted=request.requested)
    return priority_of(job, pool.settings)


def _may_fill(answer: Waiting) -> bool:
    """Nothing but room is missing, or its share: that does not matter where slots would stay empty."""
    kinds = (ReasonKind.QUEUED, ReasonKind.SHARE_USED)
    return answer.needs_capacity and answer.reason.kind in kinds


def _begun(pool: PoolState, starts: Sequence[Start]) -> PoolState:
    """The pool once these have started. Nothing decided now may take them back: they were served in their turn."""
    if not starts:
        return pool
    placements = {start.request_id: start.placement for start in starts}
    begun = [
        Running(
            request=replace(request, preemptible=False),
            placement=placements[request.id],
            started=pool.now,
        )
        for request in pool.waiting
        if request.id in placements
    ]
    return replace(
        pool,
        running=(*pool.running, *begun),
        waiting=tuple(request for request in pool.waiting if request.id not in placements),
    )


def _backfill(
    pool: PoolState, found: Reservations, starts: Sequence[Start], short: Iterable[Request]
) -> list[Start]:
    """What may start on reserved slots because it is gone when they are needed."""
    held = _held_by_job(pool, {start.request_id for start in starts})
    filling: list[Start] = []
    brief = [r for r in short if r.slots and r.expected_run_s is not None]
    for request in in_queue_order(pool, brief):
        if found.is_full:
            break
        job = pool.jobs.get(request.job_id)
        after = held[request.job_id] + request.slots
        if job is not None and job.max_slots is not None and after > job.max_slots:
            continue
        placement = found.find(shape_of(request), request.expected_run_s)
        if placement is not None:
            found.start(placement, request.expected_run_s)
            held[request.job_id] = after
            filling.append(Start(request_id=request.id, placement=placement, backfilled=True))
    return filling


def _held_by_job(pool: PoolState, started: Container[str]) -> Counter[str]:
    held: Counter[str] = Counter()
    for one in pool.running:
        held[one.request.job_id] += one.request.slots
    for request in pool.waiting:
        if request.id in started:
            held[request.job_id] += request.slots
    return held
