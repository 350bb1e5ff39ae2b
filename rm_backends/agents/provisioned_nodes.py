"""The agents of machines that a provisioner launches, as it sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from master.core.deadlines import Deadline
from master.core.scheduler.types import Running
from provisioner.types import PoolAvailability, PoolCapacity, PoolDemand
from rm_backends.agents.agent_pools import AgentPools
from rm_backends.agents.pool import Pool
from rm_backends.ports import LaunchedMachines


class ProvisionedNodes:
    """Implements `provisioner.ports.NodeHost`. `pools`: for the dynamic ones of these it launches machines."""

    def __init__(self, shared: AgentPools, pools: Iterable[Pool]) -> None:
        self._pools = shared
        self._elastic = tuple(pool for pool in pools if pool.options.is_dynamic)
        self._registry = shared.registry

    def connect(
        self,
        *,
        wake: Callable[[], None],
        capacity: Callable[[str], PoolCapacity | None],
        note_agent: Callable[[str, bool], None],
        machines: LaunchedMachines,
        may_be_away: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`wake` when demand changes; `capacity` of a pool by name; `note_agent` when one connects (True) or leaves;
        `machines`: what providers made; `may_be_away`: such an agent is not lost for not being connected."""
        self._registry.watch(note_agent, machines, may_be_away)
        for pool in self._elastic:
            pool.demand_changed = wake
            pool.capacity = None if pool.options.closed else capacity

    def demand(self) -> Sequence[PoolDemand]:
        return tuple(pool.demand for pool in self._elastic)

    def cordon(self, agent_id: str) -> bool:
        return self._registry.departures.cordon(agent_id)

    def uncordon(self, agent_id: str) -> None:
        self._registry.departures.uncordon(agent_id)

    def drain(self, agent_id: str) -> None:
        self._registry.departures.drain(agent_id)

    def running(self, pool: str) -> Sequence[Running]:
        return self._pools.get(pool).running()

    def leave(self, agent_id: str, deadline: Deadline) -> None:
        self._registry.departures.leave(agent_id, deadline)

    async def instance_gone(self, agent_id: str, reason: str) -> None:
        await self._registry.remove(agent_id, reason)

    def availability(self, availability: PoolAvailability) -> None:
        self._pools.get(availability.pool).set_availability(availability)
