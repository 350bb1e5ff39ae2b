"""The agents of nodes that come with batch jobs, as those who submit these jobs see them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from agent_bootstrap.protocol import AgentShutdown
from provisioner.types import PoolAvailability
from rm_backends.agents.agent_pools import AgentPools
from rm_backends.agents.agents import Agent, Presence
from rm_backends.agents.pool import Pool
from rm_backends.base import AllocationRequest, LossKind, Refused


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


class LeasedNodes:
    """Implements `rm_backends.batch.ports.LeaseHost` and `provisioner.ports.PilotHost`."""

    def __init__(
        self, pools: AgentPools, may_go_elsewhere: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`may_go_elsewhere`: whether another pool may take a request that its own pool never will."""
        self._pools = pools
        self._may_go_elsewhere = may_go_elsewhere

    def wanting(self, pool: str) -> Sequence[AllocationRequest]:
        return self._pools.get(pool).wanting()

    def waits_or_holds(self, pool: str, allocation_id: str) -> bool:
        return self._pools.get(pool).knows(allocation_id)

    def holds(self, pool: str, allocation_id: str) -> bool:
        return allocation_id in self._pools.get(pool).assignments.entries

    def connected(self, agent_ids: Collection[str]) -> int:
        return sum(one.presence is Presence.CONNECTED for _, one in self._found(agent_ids))

    def slots(self, agent_ids: Collection[str]) -> Mapping[str, int]:
        return {
            agent.site_node or agent.id: agent.slot_count
            for _, agent in self._found(agent_ids)
            if agent.presence is Presence.CONNECTED
        }

    def dismiss(self, agent_ids: Collection[str], reason: str) -> bool:
        links = [agent.link for _, agent in self._found(agent_ids) if agent.link is not None]
        if len(links) < len(agent_ids):
            return False
        for link in links:
            link.send(AgentShutdown(epoch=self._pools.epoch, reason=reason))
        return True

    def occupied(self, agent_ids: Collection[str]) -> bool:
        return any(agent.holds for _, agent in self._found(agent_ids))

    def refuse(self, pool: str, allocation_id: str, reason: str) -> None:
        entry = self._pools.get(pool).waiting.get(allocation_id)
        if entry is None or entry.refused or self._may_go_elsewhere(allocation_id):
            return
        entry.refused = True
        self._pools.outbox.post(Refused(allocation_id=allocation_id, reason=reason))

    def lose(self, agent_ids: Collection[str], reason: str, kind: LossKind) -> bool:
        for pool, agent in list(self._found(agent_ids)):
            pool.assignments.lose(agent, reason, kind)
        return not self.occupied(agent_ids)

    async def job_gone(self, agent_id: str, reason: str) -> None:
        await self._pools.registry.remove(agent_id, reason)

    def availability(self, availability: PoolAvailability) -> None:
        self._pools.get(availability.pool).set_availability(availability)

    def drain(self, agent_id: str) -> None:
        self._pools.registry.departures.drain(agent_id)

    def disabled_nodes(self) -> frozenset[str]:
        pools = self._pools.by_name.values()
        return disabled_nodes(agent for pool in pools for agent in pool.agents.values())

    def avoided_nodes(self, pool: str) -> frozenset[str]:
        return avoided_by_all(entry.request for entry in self._pools.get(pool).waiting.values())

    def _found(self, agent_ids: Collection[str]) -> Iterator[tuple[Pool, Agent]]:
        return (one for id_ in agent_ids if (one := self._pools.registry.find(id_)) is not None)
