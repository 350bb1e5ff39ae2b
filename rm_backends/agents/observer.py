"""What screens see of some pools of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from master.core.reasons import ReasonKind
from master.core.scheduler.types import SchedulerSettings
from rm_backends.agents.agent_pools import pool_called
from rm_backends.agents.pool import Pool
from rm_backends.agents.views import agent_view, jobs_view, pool_view, queue_view
from rm_backends.views import AgentKey, AgentView, JobInPool, PoolView, QueueEntry
from windlass.base.errors import NotFound


class PoolsObserver:
    """Implements `rm_backends.observer.Observer`."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self._pools = pools

    def pools(self) -> Sequence[str]:
        return tuple(self._pools)

    def pools_view(self) -> Sequence[PoolView]:
        return tuple(pool_view(pool) for pool in self._pools.values())

    def scheduler(self, pool: str) -> SchedulerSettings:
        return pool_called(pool, self._pools).options.scheduler

    def jobs_in(self, pool: str) -> Sequence[JobInPool]:
        return jobs_view(pool_called(pool, self._pools))

    def queue(self, pool: str, job_id: str | None = None) -> Sequence[QueueEntry]:
        return queue_view(pool_called(pool, self._pools), job_id)

    def waiting_by_kind(self, pool: str) -> Mapping[ReasonKind, int]:
        return pool_called(pool, self._pools).waiting_by_kind()

    def agents(self) -> Sequence[AgentView]:
        return tuple(self.agent(key.id) for key in self.agent_keys())

    def agent_keys(self) -> Sequence[AgentKey]:
        keys = [
            AgentKey(id=agent.id, registered=agent.record.first_seen)
            for pool in self._pools.values()
            for agent in pool.agents.values()
            if agent.is_listed
        ]
        return tuple(sorted(keys, key=lambda key: key.id))

    def agent(self, agent_id: str) -> AgentView:
        for pool in self._pools.values():
            if (agent := pool.agents.get(agent_id)) is not None:
                return agent_view(pool, agent)
        raise NotFound("agent", agent_id)
