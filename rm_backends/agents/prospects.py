"""What a pool of agents would do for requests that it does not have: its scheduler, asked with them added. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from master.core.reasons import ReasonKind
from master.core.scheduler.types import Decision, PoolState
from rm_backends.agents.entries import Entry
from rm_backends.base import AllocationRequest
from rm_backends.fall_back import Prospect


def with_requests(state: PoolState, requests: Sequence[AllocationRequest], pool: str) -> PoolState:
    """The state as it were if these had come. Jobs that are there already keep their order."""
    jobs = {request.job.job_id: request.job.as_job(pool) for request in requests}
    added = tuple(Entry(request).as_request for request in requests)
    return replace(state, jobs={**jobs, **state.jobs}, waiting=(*state.waiting, *added))


def prospects(
    state: PoolState, decision: Decision, requests: Sequence[AllocationRequest]
) -> Mapping[str, Prospect]:
    """By allocation id. Left out: those that wait for others, or for which others are asked to leave."""
    at_cost = {id_ for release in decision.release for id_ in release.for_requests}
    starts = {start.request_id for start in decision.start}
    found: dict[str, Prospect] = {}
    for request in requests:
        id_ = request.allocation_id
        if id_ in at_cost:
            continue
        if id_ in starts:
            found[id_] = Prospect.START
        elif request.launches_machines and _launches(state, decision, request):
            found[id_] = Prospect.LAUNCH
    return found


def _launches(state: PoolState, decision: Decision, request: AllocationRequest) -> bool:
    """Capacity that is expected would hold it: the scheduler has promised it some, or it asks for a place only."""
    waiting = decision.waiting.get(request.allocation_id)
    if waiting is None or not waiting.needs_capacity or not state.launchable:
        return False
    return request.slots == 0 or waiting.reason.kind is ReasonKind.NEEDS_CAPACITY
