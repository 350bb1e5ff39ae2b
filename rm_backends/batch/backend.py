"""Pools whose requests wait at a batch system, each for nodes made to measure on which our agents run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from master.core.scheduler.policies.dispatch import decide_dispatch
from provisioner.sections.pools import ResolvedPool
from rm_backends.agents.agent_pools import AgentPools
from rm_backends.agents.backend import AgentsBackend
from rm_backends.base import AllocationRequest, RestoreRecord
from rm_backends.batch.dispatcher import Dispatcher


class BatchBackend(AgentsBackend):
    """A resource manager over pools of agents that come with the jobs of one site. The site schedules."""

    def __init__(
        self, shared: AgentPools, options: Sequence[ResolvedPool], dispatcher: Dispatcher
    ) -> None:
        super().__init__(shared, options, decide_dispatch)
        self._dispatcher = dispatcher
        shared.registry.watch_jobs(dispatcher.is_instance, dispatcher.may_be_away)
        for pool in self.by_name.values():
            pool.demand_changed = dispatcher.wake

    def check(self, request: AllocationRequest) -> Sequence[str]:
        self._pool(request.pool)
        return self._dispatcher.check(request)

    async def expected_start(self, allocation_id: str) -> datetime | None:
        pool = self._pool_of(allocation_id)
        if pool is None or allocation_id not in pool.waiting:
            return None
        told = self._dispatcher.starts_at(allocation_id)
        return None if told is None else datetime.fromtimestamp(told, tz=UTC)

    async def restore(self, records: Sequence[RestoreRecord]) -> None:
        await super().restore(records)
        await self._dispatcher.load()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._dispatcher.run())
