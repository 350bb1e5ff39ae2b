"""Real pools in the states of `decide_states`: agents that are connected, work that was restored, requests that wait.

Only the ways out are missing: no messages go to agents, and what a pool tells the master stays in its outbox.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

from agent_bootstrap.protocol import Slot, SlotKind
from master.core.scheduler import decide
from master.core.scheduler.types import Job, PoolState, Request
from rm_backends.agents.agents import Agent, Presence
from rm_backends.agents.pool import Pool
from rm_backends.base import AllocationRequest, Container, JobOrder, RestoreRecord, RmEvent
from rm_backends.outbox import Outbox
from rm_backends.ports import AgentRecord
from tests.fakes.pools import resolved_pool
from windlass.base.clock import ManualClock
from windlass.base.ids import Ids

POOL = "default"


class NoMaster:
    """Hears nothing: the outboxes here are not run."""

    async def handle(self, event: RmEvent) -> None:
        raise AssertionError(event)


def pool_in(state: PoolState) -> Pool:
    """A pool whose next snapshot is that state."""
    pool = Pool(
        resolved_pool(POOL, scheduler=state.settings),
        decide=decide,
        outbox=Outbox(NoMaster()),
        clock=ManualClock(_time(state.now)),
        ids=Ids(),
        epoch=1,
    )
    for one in state.agents:
        pool.agents[one.id] = _agent(one.id, one.slots)
    orders = {job.id: _order(job) for job in state.jobs.values()}
    next_slot = {agent: count() for agent in pool.agents}
    for running in state.running:
        request = _allocation(running.request, orders[running.request.job_id], running.started)
        pool.note_job(request.job)
        containers = tuple(
            Container(
                container_id=f"{request.allocation_id}-{rank}",
                agent_id=agent,
                rank=rank,
                slot_ids=tuple(next(next_slot[agent]) for _ in range(slots)),
            )
            for rank, (agent, slots) in enumerate(running.placement.items())
        )
        pool.assignments.restore(
            RestoreRecord(request=request, containers=containers, started=True)
        )
    for waiting in state.waiting:
        pool.add(_allocation(waiting, orders[waiting.job_id], waiting.requested))
    return pool


def _agent(agent_id: str, slots: int) -> Agent:
    record = AgentRecord(agent_id=agent_id, pool=POOL, slots=slots, first_seen=_time(0.0))
    agent = Agent(record=record, aux_places=100, presence=Presence.CONNECTED)
    agent.set_devices(tuple(Slot(id=n, kind=SlotKind.CUDA) for n in range(slots)))
    return agent


def _order(job: Job) -> JobOrder:
    return JobOrder(
        job_id=job.id,
        submitted=_time(job.submitted),
        weight=job.weight,
        max_slots=job.max_slots,
        priority=job.priority,
        position=job.position,
    )


def _allocation(request: Request, order: JobOrder, requested: float) -> AllocationRequest:
    return AllocationRequest(
        allocation_id=request.id,
        task_id=request.id,
        name=request.id,
        pool=POOL,
        slots=request.slots,
        job=order,
        requested=_time(requested),
        single_agent=request.single_agent,
        preemptible=request.preemptible,
        blocked_agents=request.blocked_agents,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
