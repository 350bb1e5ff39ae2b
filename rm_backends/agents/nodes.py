"""What a pool of agents shows the provisioner of them: its agents as nodes, and whose work needs another one soon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from master.core.deadlines import Cause
from provisioner.types import Node, Notice
from rm_backends.agents.agents import Agent, Presence
from rm_backends.agents.entries import PoolEntry


def node_of(pool: str, agent: Agent, entries: Mapping[str, PoolEntry]) -> Node:
    """`entries`: what holds slots in that pool."""
    return Node(
        agent_id=agent.id,
        pool=pool,
        slots=agent.slots_in_reach,
        free_slots=len(agent.free_slot_ids()) if agent.is_open else 0,
        instance_id=agent.record.instance_id,
        busy=bool(agent.holds),
        connected=agent.presence is Presence.CONNECTED,
        schedulable=agent.record.enabled and not agent.record.draining and agent.leaving is None,
        free_aux=max(0, agent.aux_places - agent.aux_running),
        ends_at=agent.ends_at,
        facts=agent.facts,
        users=_users_on(agent, entries),
        notice=_notice(agent),
    )


def made_to_leave(agents: Iterable[Agent], entries: Mapping[str, PoolEntry]) -> Iterator[PoolEntry]:
    """What runs on agents whose machines go, and goes on elsewhere. Not of machines that the planner itself empties."""
    for agent in agents:
        if agent.leaving is None or agent.leaving.cause is Cause.EMPTIED:
            continue
        for allocation_id in sorted({hold.allocation_id for hold in agent.holds.values()}):
            entry = entries.get(allocation_id)
            if entry is not None and entry.request.preemptible and not (entry.killed or entry.lost):
                yield entry


def _notice(agent: Agent) -> Notice | None:
    if agent.leaving is None or agent.leaving.cause is not Cause.TAKEN_BACK:
        return None
    return Notice(at=agent.leaving.at, why=agent.leaving.reason)


def _users_on(agent: Agent, entries: Mapping[str, PoolEntry]) -> dict[str, int]:
    slots: dict[str, int] = {}
    for hold in agent.holds.values():
        entry = entries.get(hold.allocation_id)
        if entry is not None and hold.slot_ids:
            user = entry.request.user
            slots[user] = slots.get(user, 0) + len(hold.slot_ids)
    return slots
