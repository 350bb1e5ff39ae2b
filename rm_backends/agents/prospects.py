"""What a pool of agents would do for requests that it does not have: its scheduler, asked with them added. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from master.core import fall_back
from master.core.fall_back import Prospect
from master.core.scheduler.types import Decision, PoolState
from rm_backends.agents.entries import PoolEntry
from rm_backends.base import AllocationRequest


def with_requests(state: PoolState, requests: Sequence[AllocationRequest], pool: str) -> PoolState:
    """The state as it were if these had come. Jobs that are there already keep their order."""
    jobs = {request.job.job_id: request.job.as_job(pool) for request in requests}
    added = tuple(PoolEntry(request).as_request for request in requests)
    return replace(state, jobs={**jobs, **state.jobs}, waiting=(*state.waiting, *added))


def prospects(
    state: PoolState, decision: Decision, requests: Sequence[AllocationRequest]
) -> Mapping[str, Prospect]:
    """By allocation id. Left out: those that wait for others, or for which others are asked to leave."""
    found = fall_back.prospects(state, decision, {r.allocation_id: r.slots for r in requests})
    launches = {request.allocation_id for request in requests if request.launches_machines}
    return {id_: how for id_, how in found.items() if how is Prospect.START or id_ in launches}
