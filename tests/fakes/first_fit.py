"""The smallest scheduler that keeps the contract of `decide`, for tests of what surrounds it."""

from __future__ import annotations

from collections.abc import Mapping

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.types import Decision, PoolState, Request, Start, Waiting


def first_fit(state: PoolState) -> Decision:
    """Oldest first: one agent, else as many wholly free agents as it takes. Releases nothing."""
    free = {agent.id: agent.slots for agent in state.agents if agent.schedulable}
    whole = dict(free)
    for running in state.running:
        for agent_id, slots in running.placement.items():
            if agent_id in free:
                free[agent_id] -= slots
    start, waiting = [], {}
    for request in sorted(state.waiting, key=lambda r: (r.requested, r.id)):
        placement = _place(request, free, whole)
        if placement is None:
            reason = Reason(kind=ReasonKind.NEEDS_CAPACITY, text=f"needs {request.slots} slots")
            waiting[request.id] = Waiting(reason=reason, needs_capacity=True)
            continue
        for agent_id, slots in placement.items():
            free[agent_id] -= slots
        start.append(Start(request_id=request.id, placement=placement))
    return Decision(start=tuple(start), waiting=waiting)


def _place(
    request: Request, free: Mapping[str, int], whole: Mapping[str, int]
) -> dict[str, int] | None:
    agents = sorted(a for a in free if a not in request.blocked_agents)
    for agent_id in agents:
        if free[agent_id] >= request.slots:
            return {agent_id: request.slots}
    if request.single_agent:
        return None
    placement: dict[str, int] = {}
    missing = request.slots
    for agent_id in agents:
        if 0 < free[agent_id] == whole[agent_id] <= missing:
            placement[agent_id] = free[agent_id]
            missing -= free[agent_id]
    return placement if missing == 0 else None
