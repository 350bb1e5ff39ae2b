"""Nodes of a batch system on which nothing new is to run, by the names that the site gives them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rm_backends.agents.agents import Agent, Presence
from rm_backends.base import AllocationRequest


def disabled_nodes(agents: Iterable[Agent]) -> frozenset[str]:
    """Where an operator disabled or drained an agent that is there."""
    there = (agent for agent in agents if agent.site_node and agent.presence is not Presence.AWAY)
    return frozenset(
        agent.site_node for agent in there if agent.record.draining or not agent.record.enabled
    )


def avoided_by_all(waiting: Iterable[AllocationRequest]) -> frozenset[str]:
    """Names, of agents too, that every one of them avoids. Empty: nothing waits."""
    names = [request.blocked_agents for request in waiting]
    return frozenset.intersection(*names) if names else frozenset()
