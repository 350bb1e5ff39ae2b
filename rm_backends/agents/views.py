"""The views of `rm_backends.views`, of pools of agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.queue_order import queue_key
from rm_backends.agents.agents import Agent, Presence
from rm_backends.agents.entries import PoolEntry, Stage
from rm_backends.agents.pool import Pool
from rm_backends.base import Abilities
from rm_backends.ports import SlotService
from rm_backends.views import (
    AgentView,
    JobInPool,
    PoolView,
    QueueEntry,
    QueueState,
    SlotView,
)

_STARTING = Reason(kind=ReasonKind.STARTING, text="slots are granted; the task is being started")

PROCESS = "process"
"""What an agent says that runs no images; others name the engine that does, with its version, after a comma."""
OWN_SHM_SIZE = {"apptainer", "singularity", "enroot"}
"""Engines that choose it."""


def agent_view(pool: Pool, agent: Agent) -> AgentView:
    kinds = {slot.id: slot for slot in agent.devices}
    holder = {
        slot: (container_id, hold.allocation_id)
        for container_id, hold in agent.holds.items()
        for slot in hold.slot_ids
    }
    slots = []
    for slot_id in agent.slot_ids:
        container_id, allocation_id = holder.get(slot_id, (None, None))
        device = kinds.get(slot_id)
        slots.append(
            SlotView(
                id=slot_id,
                kind=device.kind if device else "",
                brand=device.brand if device else "",
                uuid=device.uuid if device else "",
                enabled=agent.record.enabled and slot_id not in agent.record.slot_service,
                draining=agent.record.draining
                or (
                    container_id is not None
                    and (_slot_drains(agent, slot_id) or _may_come_back(agent))
                ),
                container_id=container_id,
                allocation_id=allocation_id,
            )
        )
    return AgentView(
        id=agent.id,
        pool=pool.name,
        address=agent.address,
        registered=agent.record.first_seen,
        slots=tuple(slots),
        containers={c: hold.allocation_id for c, hold in agent.holds.items()},
        enabled=agent.record.enabled,
        draining=agent.is_draining or _may_come_back(agent),
        connected=agent.presence is Presence.CONNECTED,
        version=agent.version,
        instance_id=agent.record.instance_id,
        notes=(*agent.notes, *filter(None, (agent.shares_user,)), *_leaving(agent)),
        ends_at=agent.end.moment if agent.end else None,
        leaves_at=agent.leaving.moment if agent.leaving else None,
        labels=agent.labels,
        isolation=agent.isolation,
        container_runtime=agent.container_runtime,
        one_user=not agent.is_root,
    )


def _may_come_back(agent: Agent) -> bool:
    """It lost its connection: what runs on it goes on, and nothing follows until it is back."""
    return agent.presence is Presence.RECONNECTING and agent.record.enabled


def _leaving(agent: Agent) -> tuple[str, ...]:
    if agent.leaving is not None:
        return (f"goes {agent.leaving.when_iso}: {agent.leaving.reason}",)
    return () if agent.end is None else (f"ends {agent.end.when_iso}",)


def _slot_drains(agent: Agent, slot_id: int) -> bool:
    """What holds it may finish, and nothing follows."""
    how = agent.record.slot_service.get(slot_id)
    return agent.record.draining if how is None else how is SlotService.DRAINING


def pool_view(pool: Pool) -> PoolView:
    agents = [a for a in pool.agents.values() if a.presence is not Presence.AWAY]
    sizes = {agent.slot_count for agent in agents}
    device = next((agent.devices[0] for agent in agents if agent.devices), None)
    return PoolView(
        name=pool.name,
        description=pool.options.section.description,
        type=pool.options.kind,
        dynamic=pool.options.is_dynamic,
        agents=len(agents),
        slots=sum(agent.slots_for_scheduler for agent in agents),
        slots_used=sum(agent.used_slots for agent in agents),
        aux_running=sum(agent.aux_running for agent in agents),
        aux_capacity=sum(agent.aux_places for agent in agents),
        waiting=len(pool.waiting),
        running=len(pool.assignments.entries),
        slot_kind=device.kind if device else "",
        slot_brand=device.brand if device else "",
        slots_per_agent=sizes.pop() if len(sizes) == 1 else None,
        settings=pool.options.scheduler,
    )


def queue_view(pool: Pool, job_id: str | None = None) -> tuple[QueueEntry, ...]:
    """In the order in which the pool's policy serves jobs, then by age of the request. Of one job, or of all."""
    entries = [
        entry
        for entry in (*pool.waiting.values(), *pool.assignments.entries.values())
        if job_id is None or entry.as_request.job_id == job_id
    ]
    ids = {entry.as_request.job_id for entry in entries}
    keys = {id_: queue_key(pool.jobs[id_], pool.options.scheduler) for id_ in ids}
    entries.sort(key=lambda e: (keys[e.as_request.job_id], *_age(e)))
    return tuple(_queue_entry(pool, entry) for entry in entries)


@dataclass(slots=True)
class _Sum:
    """Of one job's entries."""

    requested: int = 0
    allocated: int = 0
    granted: bool = False
    backfilled: bool = False
    waiting: PoolEntry | None = None

    @property
    def state(self) -> QueueState:
        if self.granted:
            return QueueState.SCHEDULED
        return QueueState.SCHEDULED_BACKFILLED if self.backfilled else QueueState.QUEUED


def jobs_view(pool: Pool) -> tuple[JobInPool, ...]:
    """Who is in the queue, in no order: one pass over thousands of entries, which makes nothing of each."""
    sums: defaultdict[str, _Sum] = defaultdict(_Sum)
    for entry in pool.waiting.values():
        it = sums[entry.as_request.job_id]
        it.requested += entry.request.slots
        if it.waiting is None or _age(entry) < _age(it.waiting):
            it.waiting = entry
    for entry in pool.assignments.entries.values():
        it = sums[entry.as_request.job_id]
        it.requested += entry.request.slots
        for part in entry.parts.values():
            if not part.ended:
                it.allocated += len(part.container.slot_ids)
        if entry.backfilled:
            it.backfilled = True
        else:
            it.granted = True
    return tuple(
        JobInPool(
            job=pool.jobs[id_],
            state=it.state,
            requested_slots=it.requested,
            allocated_slots=it.allocated,
            first_waiting=it.waiting.id if it.waiting is not None else None,
        )
        for id_, it in sums.items()
    )


def _age(entry: PoolEntry) -> tuple[float, str]:
    return entry.as_request.requested, entry.id


def _queue_entry(pool: Pool, entry: PoolEntry) -> QueueEntry:
    request = entry.request
    state = QueueState.QUEUED
    if entry.stage is not Stage.WAITING:
        state = QueueState.SCHEDULED_BACKFILLED if entry.backfilled else QueueState.SCHEDULED
    return QueueEntry(
        allocation_id=entry.id,
        task_id=request.task_id,
        name=request.name,
        pool=pool.name,
        job=pool.jobs[request.job.job_id],
        slots=request.slots,
        requested=request.requested,
        preemptible=request.preemptible,
        state=state,
        placement={
            part.container.agent_id: len(part.container.slot_ids) for part in entry.holding()
        },
        releasing=entry.releasing,
        reason=_STARTING if entry.stage is Stage.RESERVED else pool.explain(entry.id),
    )


def abilities(agents: Iterable[Agent], configured: str = "") -> Abilities | None:
    """Of those that are connected; before any is, as far as the `configured` runtime of all of them says.

    Agents of 0.1 do not say what runs their tasks: processes.
    """
    known = [agent for agent in agents if agent.presence is Presence.CONNECTED]
    if not known and configured in ("", "auto"):
        return None
    told = [agent.container_runtime for agent in known] or [configured]
    users = {agent.process_user for agent in known}
    engines = {words.split()[0] for one in told for words in one.split(",") if words} - {PROCESS}
    return Abilities(
        containers=bool(engines),
        trial_classes=not known or any(agent.runs_trial_classes is not False for agent in known),
        shm_sizes=not engines <= OWN_SHM_SIZE,
        shares_user=bool(known) and all(agent.shares_user for agent in known),
        process_user=users.pop() if len(users) == 1 else "",
    )
