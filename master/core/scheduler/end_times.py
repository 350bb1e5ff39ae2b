"""Agents that will end (a walltime, a capacity block): who may still start there, and when work must leave. Pure.

The rule: nothing is placed where it could neither finish nor checkpoint before the end. `least_s` says for how long an
agent must last at the least to be of use to a request:

* what is known to finish (its run time was said or learned): that time;
* what can be preempted: `USEFUL_S` of work, and its lead (`lead_s`): the time to checkpoint and leave;
* what can do both: the shorter of the two;
* what cannot be preempted and whose run time nobody knows: `USEFUL_S`. Nobody can say that it would not finish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from master.core.scheduler.ledger import agents_in_time, expected_id
from master.core.scheduler.types import Decision, PoolState, Request, Running

USEFUL_S = 300.0
"""To start for less than this is not worth it."""

SUCCESSOR_S = 300.0
"""So long before work must leave its agent, another is looked for."""

LEAD_SHARE = 0.25
"""Of the time that an agent gives, work is asked to leave for this share of it at the most, unless leaving takes it
longer: an agent that lasts for 5 minutes is not left 5 minutes before its end."""


LEAST_S = USEFUL_S / (1 - LEAD_SHARE)
"""The shortest time in which work of unknown length has `USEFUL_S` before its lead: 400 s."""

LEAST_WALLTIME_S = 180.0
"""A batch job that is shorter holds no start (1 minute), no checkpoint (1 minute) and no lead (`LEAD_SHARE`)."""


def lead_s(request: Request, lifetime_s: float) -> float:
    """How long before the end of agents that it has for `lifetime_s` in all it is asked to checkpoint and leave.

    `leave_s`, or `LEAD_SHARE` of the time if that is less; never less than what it needs (`leave_least_s`), nor more
    than half of the time.
    """
    lead = max(min(request.leave_s, LEAD_SHARE * lifetime_s), request.leave_least_s)
    return max(0.0, min(lead, lifetime_s / 2))


def least_s(request: Request) -> float:
    """An agent that ends sooner than in so many seconds is of no use to it."""
    run_s = request.expected_run_s
    if not request.preemptible:
        return USEFUL_S if run_s is None else run_s
    checkpointed = _with_lead_s(request)
    return checkpointed if run_s is None else min(run_s, checkpointed)


def _with_lead_s(request: Request) -> float:
    """The shortest time that leaves `USEFUL_S` before the lead."""
    lead = max(
        min(request.leave_s, USEFUL_S * LEAD_SHARE / (1 - LEAD_SHARE)), request.leave_least_s
    )
    return USEFUL_S + min(lead, USEFUL_S)


def must_leave(one: Running, ends_at: float, now: float, *, early: bool = False) -> bool:
    """Whether the end of one of its agents is so near that it must be asked now. Not what will finish in time.

    `early`: the agent goes sooner than was known when the work began there; then the whole `leave_s` counts.
    """
    request = one.request
    whole = max(request.leave_s, request.leave_least_s)
    if now < ends_at - (whole if early else lead_s(request, ends_at - one.started)):
        return False
    return one.expected_end is None or not now <= one.expected_end <= ends_at


def wants_successor(one: Running, ends_at: float, now: float, *, early: bool = False) -> bool:
    """Whether it goes on elsewhere, and so soon that another agent should be on its way."""
    return one.request.preemptible and must_leave(one, ends_at, now + SUCCESSOR_S, early=early)


def successor_least_s(request: Request) -> float:
    """How long that must last from now on: until it comes, and then as any."""
    return SUCCESSOR_S + request.leave_s + least_s(request)


def keep_off_ending(pool: PoolState) -> tuple[PoolState, Mapping[str, int]]:
    """The pool where every waiting request is kept off agents that end too soon for it; request id -> from how many.

    Agents that are only expected are left out of that number: nobody has them yet.
    """
    ends = {
        agent.id: agent.ends_at - pool.now for agent in pool.agents if agent.ends_at is not None
    }
    coming: dict[str, float] = {}
    for kind, one in enumerate(agents_in_time(pool)):
        if one.ends_at is not None:
            lasts = one.ends_at - pool.now - one.ready_in_s
            most = min(one.count, sum(request.slots for request in pool.waiting))
            coming |= {expected_id(kind, n): lasts for n in range(most)}
    if not ends and not coming:
        return pool, {}
    waiting: list[Request] = []
    kept_off: dict[str, int] = {}
    known: dict[tuple[float, frozenset[str]], tuple[frozenset[str], int]] = {}
    for request in pool.waiting:
        key = (least_s(request), request.blocked_agents)
        if key not in known:
            here = {agent for agent, lasts in ends.items() if lasts < key[0]}
            later = {agent for agent, lasts in coming.items() if lasts < key[0]}
            known[key] = (key[1] | here | later, len(here - key[1]))
        blocked, count = known[key]
        if blocked != request.blocked_agents:
            request = replace(request, blocked_agents=blocked)
        if count:
            kept_off[request.id] = count
        waiting.append(request)
    return replace(pool, waiting=tuple(waiting)), kept_off


def explain_kept_off(pool: PoolState, decision: Decision, kept_off: Mapping[str, int]) -> Decision:
    """The decision, with a word to those that wait beside agents that end too soon for them."""
    if not kept_off:
        return decision
    needs = {request.id: least_s(request) for request in pool.waiting if request.id in kept_off}
    waiting = dict(decision.waiting)
    for request_id in kept_off.keys() & waiting.keys():
        count = kept_off[request_id]
        agents = "1 agent ends" if count == 1 else f"{count} agents end"
        text = (
            f"{waiting[request_id].reason.text}; {agents} too soon for it "
            f"(needs {needs[request_id] / 60:.0f} min)"
        )
        reason = replace(waiting[request_id].reason, text=text)
        waiting[request_id] = replace(waiting[request_id], reason=reason)
    return replace(decision, waiting=waiting)
