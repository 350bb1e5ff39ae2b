"""The resource manager over pools of agents."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from master.core.fall_back import Prospect
from master.core.reasons import Reason
from master.core.unmet import unmet
from provisioner.sections.pools import ResolvedPool
from rm_backends.agents.agent_pools import AgentPools, pool_called
from rm_backends.agents.observer import PoolsObserver
from rm_backends.agents.operator import Operator
from rm_backends.agents.pool import Decide, Pool
from rm_backends.agents.views import abilities
from rm_backends.base import (
    Abilities,
    AllocationHint,
    AllocationRequest,
    AlreadyGranted,
    JobOrder,
    LaunchSpec,
    Lost,
    RestoreRecord,
    Withdrawn,
)
from rm_backends.limits import TooMuch, refusal
from windlass.base.errors import Unfulfillable, Unsatisfiable


def require_fit(pool: Pool, request: AllocationRequest) -> None:
    """Raises Unsatisfiable."""
    if pool.options.closed:
        raise Unsatisfiable(pool.options.closed)
    shape = pool.shape(request.blocked_agents)
    too_much = refusal(shape, request.slots, single_agent=request.single_agent)
    if too_much is None and request.requires.is_picky:
        too_much = _unmet(pool, request)
    if too_much is not None:
        why, nearest = too_much
        if request.single_agent and 0 < shape.largest < request.slots:
            raise Unfulfillable(f"request unfulfillable: {why}", nearest=nearest)
        raise Unsatisfiable(why, nearest=nearest)


def notes_on_fit(pool: Pool, request: AllocationRequest) -> Sequence[str]:
    """What its user should know of how it will run there."""
    largest = pool.shape(request.blocked_agents, request.requires, request.slots).largest
    if 0 < largest < request.slots:
        return (
            f"{request.slots} slots run on several machines, for the largest of resource pool '{pool.name}' has "
            f"{largest}: the network between them may slow the work",
        )
    now = 0 if request.single_agent else pool.largest_now(request)
    if 0 < now < request.slots:
        return (
            f"{request.slots} slots run on several machines if they start now, for the largest that resource pool "
            f"'{pool.name}' has or can launch has {now} (see: det fleet offers): the network between them may slow "
            "the work",
        )
    return ()


def _unmet(pool: Pool, request: AllocationRequest) -> TooMuch | None:
    why = unmet(pool.name, request.requires, request.slots, pool.kinds(request.blocked_agents))
    if why is not None:
        return TooMuch(why)
    shape = pool.shape(request.blocked_agents, request.requires, request.slots)
    too_much = refusal(shape, request.slots, single_agent=request.single_agent)
    if too_much is None:
        return None
    only = f"counting only {request.requires.describe()}"
    return TooMuch(f"{too_much.why} ({only})", too_much.nearest)


class AgentsBackend:
    """Implements `rm_backends.router.RoutedBackend` over some of the pools of agents.

    `restore` comes first, then `run` for as long as the master leads.
    """

    def __init__(self, shared: AgentPools, options: Sequence[ResolvedPool], decide: Decide) -> None:
        self.by_name = {one.name: shared.add(one, decide) for one in options}
        self.observer = PoolsObserver(self.by_name)
        self.operator = Operator(shared.registry)
        self._registry = shared.registry
        self._outbox = shared.outbox

    def pools(self) -> Sequence[str]:
        return tuple(self.by_name)

    def knows(self, allocation_id: str) -> bool:
        """Whether it waits or holds something here."""
        return self._pool_of(allocation_id) is not None

    def check(self, request: AllocationRequest) -> Sequence[str]:
        pool = self._pool(request.pool)
        require_fit(pool, request)
        return notes_on_fit(pool, request)

    def abilities(self, pool: str) -> Abilities | None:
        found = self._pool(pool)
        return abilities(found.agents.values(), found.options.container_runtime)

    async def request(self, request: AllocationRequest) -> None:
        pool = self._pool_of(request.allocation_id) or self._pool(request.pool)
        pool.add(request)

    async def withdraw(self, allocation_id: str) -> Withdrawn | AlreadyGranted:
        pool = self._pool_of(allocation_id)
        if pool is None or pool.withdraw(allocation_id):
            return Withdrawn(allocation_id=allocation_id)
        return AlreadyGranted(allocation_id=allocation_id)

    async def start(self, allocation_id: str, spec: LaunchSpec) -> None:
        """Without a reservation the answer is `Lost`: whoever starts it must learn that nothing will come."""
        pool = self._pool_of(allocation_id)
        entry = pool.assignments.entries.get(allocation_id) if pool is not None else None
        if pool is None or entry is None:
            self._outbox.post(Lost(allocation_id=allocation_id, reason="its reservation is gone"))
            return
        pool.assignments.start(entry, spec)

    async def release(self, allocation_id: str, reason: str, deadline: datetime | None) -> None:
        """Agents are not told: the task learns it from the master, which also keeps the deadline."""
        if (pool := self._pool_of(allocation_id)) is not None:
            pool.releasing(allocation_id)

    async def kill(self, allocation_id: str) -> None:
        pool = self._pool_of(allocation_id)
        if pool is None or pool.withdraw(allocation_id):
            return
        pool.assignments.kill(pool.assignments.entries[allocation_id])

    async def update_job(self, order: JobOrder) -> None:
        for pool in self.by_name.values():
            pool.update_job(order)

    def hint(self, note: AllocationHint) -> None:
        if (pool := self._pool_of(note.allocation_id)) is not None:
            pool.hint(note)

    async def restore(self, records: Sequence[RestoreRecord]) -> None:
        for record in records:
            request = record.request
            pool = self.by_name.get(request.pool)
            if pool is None:
                reason = f"there is no resource pool '{request.pool}' any more"
                self._outbox.post(Lost(allocation_id=request.allocation_id, reason=reason))
            elif not record.containers:
                pool.add(request)
            elif not pool.knows(request.allocation_id):
                pool.note_job(request.job)
                pool.assignments.restore(record)
        self._registry.enforce()

    def explain(self, allocation_id: str) -> Reason | None:
        pool = self._pool_of(allocation_id)
        return pool.explain(allocation_id) if pool is not None else None

    async def expected_start(self, allocation_id: str) -> datetime | None:
        pool = self._pool_of(allocation_id)
        return await pool.expected_start(allocation_id) if pool is not None else None

    async def prospects(
        self, pool: str, requests: Sequence[AllocationRequest]
    ) -> Mapping[str, Prospect]:
        """Raises NotFound."""
        never: dict[Hashable, bool] = {}
        able = []
        for request in requests:
            if (key := request.shape) not in never:
                never[key] = not self._could_hold(replace(request, pool=pool))
            if not never[key]:
                able.append(request)
        return await self._pool(pool).prospects(able)

    def _could_hold(self, request: AllocationRequest) -> bool:
        try:
            self.check(request)
        except Unsatisfiable:
            return False
        return True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for pool in self.by_name.values():
                tasks.create_task(pool.loop.run())

    def _pool(self, name: str) -> Pool:
        """Raises NotFound."""
        return pool_called(name, self.by_name)

    def _pool_of(self, allocation_id: str) -> Pool | None:
        for pool in self.by_name.values():
            if pool.knows(allocation_id):
                return pool
        return None
