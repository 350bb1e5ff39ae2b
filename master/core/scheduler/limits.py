"""What a job holds above its `max_slots` is asked back: somebody has lowered the limit while it ran.

Only where the policy may ask at all (`fair_share`, `priority` with preemption). As much as needed and no gang more;
what loses least since its last checkpoint goes first, then the latest.
"""

from __future__ import annotations

from dataclasses import replace

from master.core.scheduler.types import (
    PoolState,
    Release,
    Running,
    SchedulerSettings,
)


def over_limit(pool: PoolState) -> tuple[PoolState, tuple[Release, ...]]:
    """The pool with that work on its way out, and who has to leave."""
    if not _may_ask(pool.settings):
        return pool, ()
    limited = {job.id: job.max_slots for job in pool.jobs.values() if job.max_slots is not None}
    held: dict[str, list[Running]] = {}
    for one in pool.running:
        if one.request.job_id in limited and one.request.slots and not one.releasing:
            held.setdefault(one.request.job_id, []).append(one)
    releases: dict[str, Release] = {}
    for job_id, running in held.items():
        limit = limited[job_id]
        for one in _surplus(running, limit, pool.now):
            why = f"job {job_id} holds more than its max_slots of {limit}"
            releases[one.request.id] = Release(request_id=one.request.id, why=why)
    if not releases:
        return pool, ()
    leaving = tuple(
        replace(one, releasing=True) if one.request.id in releases else one for one in pool.running
    )
    return replace(pool, running=leaving), tuple(releases.values())


def _may_ask(settings: SchedulerSettings) -> bool:
    return settings.type == "fair_share" or (
        settings.type == "priority" and bool(settings.preemption)
    )


def _surplus(running: list[Running], limit: int, now: float) -> list[Running]:
    excess = sum(one.request.slots for one in running) - limit
    if excess <= 0:
        return []
    chosen: list[Running] = []
    cheapest_first = sorted(
        (one for one in running if one.request.preemptible),
        key=lambda one: (now - _saved(one), -one.started, one.request.id),
    )
    for one in cheapest_first:
        if excess <= 0:
            break
        chosen.append(one)
        excess -= one.request.slots
    for one in reversed(chosen.copy()):
        if one.request.slots <= -excess:
            chosen.remove(one)
            excess += one.request.slots
    return chosen


def _saved(one: Running) -> float:
    """When it last had nothing to lose."""
    return one.started if one.last_checkpoint is None else one.last_checkpoint
