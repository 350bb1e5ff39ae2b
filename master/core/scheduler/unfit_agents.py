"""Requests that ask for certain machines are kept off all others. Pure.

A gang over several agents that asks for a placement group gets the agents of one group: the one with the most free
slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from master.core.machines import MachineFacts, Requirements
from master.core.scheduler.ledger import agents_in_time, expected_id
from master.core.scheduler.types import Decision, PoolState, Request
from master.core.scheduler.usage import used_slots


def keep_off_unfit(pool: PoolState) -> tuple[PoolState, Mapping[str, int]]:
    """The pool where every waiting request is kept off agents that are not what it asks; request id -> from how many.

    Agents that are only expected are left out of that number: nobody has them yet.
    """
    if not any(request.requires.is_picky for request in pool.waiting):
        return pool, {}
    here = {agent.id: (agent.slots, agent.facts) for agent in pool.agents}
    coming = dict(_expected(pool))
    known: dict[tuple[Requirements, int], tuple[frozenset[str], int]] = {}
    waiting: list[Request] = []
    kept_off: dict[str, int] = {}
    for request in pool.waiting:
        if request.requires.is_picky:
            key = (request.requires, request.slots)
            if key not in known:
                unfit = _unfit(pool, here, request) | _unfit(pool, coming, request)
                known[key] = unfit, len(unfit & here.keys())
            unfit, count = known[key]
            request = replace(request, blocked_agents=request.blocked_agents | unfit)
            if count:
                kept_off[request.id] = count
        waiting.append(request)
    return replace(pool, waiting=tuple(waiting)), kept_off


def explain_unfit(pool: PoolState, decision: Decision, kept_off: Mapping[str, int]) -> Decision:
    """The decision, with a word to those that wait beside agents that are not what they ask for."""
    if not kept_off:
        return decision
    asks = {request.id: request.requires.describe() for request in pool.waiting}
    waiting = dict(decision.waiting)
    for request_id in kept_off.keys() & waiting.keys():
        count = kept_off[request_id]
        agents = "1 agent is" if count == 1 else f"{count} agents are"
        text = (
            f"{waiting[request_id].reason.text}; {agents} not what it asks for: {asks[request_id]}"
        )
        reason = replace(waiting[request_id].reason, text=text)
        waiting[request_id] = replace(waiting[request_id], reason=reason)
    return replace(decision, waiting=waiting)


def _expected(pool: PoolState) -> Iterator[tuple[str, tuple[int, MachineFacts]]]:
    wanted = sum(request.slots for request in pool.waiting)
    for kind, one in enumerate(agents_in_time(pool)):
        for number in range(min(one.count, wanted)):
            yield expected_id(kind, number), (one.slots_per_agent, one.facts)


def _unfit(
    pool: PoolState, agents: Mapping[str, tuple[int, MachineFacts]], request: Request
) -> frozenset[str]:
    """Of these agents those that it may not use."""
    slots, requires = request.slots, request.requires
    fit = {
        agent: facts
        for agent, (size, facts) in agents.items()
        if requires.are_met_by(facts, machines_for(slots, size))
    }
    spread = requires.placement_group and all(agents[agent][0] < slots for agent in fit)
    if spread and len({facts.placement for facts in fit.values()}) > 1:
        used = used_slots(pool.running)
        free: dict[str, int] = {}
        for agent, facts in fit.items():
            left = agents[agent][0] - used.get(agent, 0)
            free[facts.placement] = free.get(facts.placement, 0) + left
        best = min(free, key=lambda group: (-free[group], group))
        fit = {agent: facts for agent, facts in fit.items() if facts.placement == best}
    return frozenset(agents.keys() - fit.keys())


def machines_for(slots: int, size: int) -> int:
    """How many agents of `size` a request takes."""
    return max(1, -(-slots // size)) if size else 1
