"""Why a request of a pool waits, in the words of its user. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.explain import count, names
from master.core.scheduler.types import Waiting
from rm_backends.agents.agents import Agent, Presence
from rm_backends.agents.entries import PoolEntry
from rm_backends.base import AllocationRequest
from rm_backends.limits import PoolShape, refusal


def named(waiting: Waiting, entries: Mapping[str, PoolEntry]) -> Reason:
    """Its reason, with the names of what it waits for: the scheduler knows only ids."""
    text = waiting.reason.text
    for id_ in sorted(waiting.victims, key=len, reverse=True):  # "3.1" is part of "3.10"
        if (entry := entries.get(id_)) is not None:
            text = text.replace(id_, entry.request.name)
    return replace(waiting.reason, text=text)


def not_planned(reason: Reason) -> Reason:
    """No agent has that shape now; whether a launch can bring one up is not known yet."""
    if reason.kind is ReasonKind.NO_SUCH_AGENT:
        return replace(reason, kind=ReasonKind.NEEDS_CAPACITY)
    return reason


def no_such_agent(request: AllocationRequest, shape: PoolShape, agents: Iterable[Agent]) -> Reason:
    """`shape`: of the pool with all of its `agents`."""
    if request.slots == 0 and not shape.takes_aux:
        too_much = refusal(shape, 0, single_agent=False)
        return Reason(kind=ReasonKind.NO_SUCH_AGENT, text=too_much.why if too_much else "")
    what = count(request.slots, "slot") if request.slots else "a task without slots"
    one = " on one agent" if request.single_agent and request.slots else ""
    asked = request.requires.describe()
    one += f" of what it asks for ({asked})" if asked else ""
    if request.blocked_agents:
        one += f" without {names(sorted(request.blocked_agents))}, which its log policies exclude"
    gone = _leaving(agents)
    return Reason(
        kind=ReasonKind.NO_SUCH_AGENT,
        text=f"no agents in service in resource pool '{shape.pool}' can hold {what}{one}{gone}: "
        f"it starts when {'other' if gone else 'such'} agents connect or are enabled",
    )


def _leaving(agents: Iterable[Agent]) -> str:
    """The agents that are there and get no more work."""
    told = [
        f"{agent.id} leaves at {agent.leaving.moment:%Y-%m-%d %H:%M:%S} UTC"
        for agent in agents
        if agent.leaving is not None and agent.presence is not Presence.AWAY
    ]
    if not told:
        return ""
    return f" ({names(told)} and {'gets' if len(told) == 1 else 'get'} no more work)"
