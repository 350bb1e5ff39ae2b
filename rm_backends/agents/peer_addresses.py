"""Where the agents of one gang reach each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rm_backends.agents.agents import Agent


def peer_addresses(agents: Sequence[Agent]) -> list[str]:
    """As the master sees them; those that it sees at one address are behind the same NAT, and have one each there."""
    seen = Counter(agent.address for agent in agents)
    return [
        agent.own_address or agent.address if seen[agent.address] > 1 else agent.address
        for agent in agents
    ]
