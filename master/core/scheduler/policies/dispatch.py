"""Requests that each get agents made for them, by a batch job of their own. Nothing else ever runs there.

The site schedules. What is decided here is only who may ask it, and who has all of its agents. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.explain import count
from master.core.scheduler.queue_order import in_queue_order
from master.core.scheduler.types import (
    AgentState,
    Decision,
    Placement,
    PoolState,
    Request,
    Start,
    Waiting,
)


def decide_dispatch(pool: PoolState) -> Decision:
    """Nobody is ever asked to leave: that would give nobody else anything."""
    agents = {agent.id: agent for agent in pool.agents}
    used: dict[str, int] = {}
    for running in pool.running:
        request = running.request
        used[request.job_id] = used.get(request.job_id, 0) + request.slots
    starts: list[Start] = []
    waiting: dict[str, Waiting] = {}
    for request in in_queue_order(pool, pool.waiting):
        placement = _placement(request, pool.leases.get(request.id, ()), agents)
        limit = pool.jobs[request.job_id].max_slots
        asked = used.get(request.job_id, 0)
        if limit is not None and asked + request.slots > limit:
            text = f"max_slots limit reached ({asked} of {count(limit, 'slot')} are in use or asked for)"
            reason = Reason(kind=ReasonKind.SHARE_USED, text=text)
            waiting[request.id] = Waiting(reason=reason)
            continue
        used[request.job_id] = asked + request.slots
        if placement is not None:
            starts.append(Start(request_id=request.id, placement=placement))
        else:
            waiting[request.id] = _needs_job(request, pool)
    return Decision(start=tuple(starts), waiting=waiting)


def _placement(
    request: Request, lease: tuple[str, ...], agents: Mapping[str, AgentState]
) -> Placement | None:
    """The same number of slots on each of its agents. None: they are not all there."""
    if not lease:
        return None
    share = request.slots // len(lease)
    there = [agents.get(id_) for id_ in lease]
    if any(agent is None or not agent.schedulable or agent.slots < share for agent in there):
        return None
    return dict.fromkeys(lease, share)


def _needs_job(request: Request, pool: PoolState) -> Waiting:
    """Free nodes at the site are as good as a launch; how it stands with a job, whoever submits it says."""
    free = any(
        one.count >= -(-request.slots // max(1, one.slots_per_agent)) for one in pool.launchable
    )
    kind = ReasonKind.NEEDS_CAPACITY if free else ReasonKind.QUEUED
    reason = Reason(kind=kind, text="a batch job is to be submitted for it")
    return Waiting(reason=reason, needs_capacity=True, in_turn=True)
