"""Three pools, of which one falls back to the others, on virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from master.core.fall_back import FallBackRule
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler import decide
from master.core.scheduler.types import (
    SchedulerSettings,
)
from provisioner.types import PoolAvailability
from tests.fakes.agents_world import AgentsWorld, agents_world, allocation
from tests.fakes.pools import EMBEDDED, resolved_pool
from tests.fakes.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from rm_backends.agents.backend import AgentsBackend
    from rm_backends.base import (
        AllocationRequest,
    )
    from rm_backends.router import Router

START = datetime(2025, 1, 1, tzinfo=UTC)
AFTER_S = 60.0
RULES = {"home": FallBackRule(pools=("b", "c"), after_s=AFTER_S)}
PRIORITY = SchedulerSettings(type="priority", preemption=True)
QUOTA = Reason(kind=ReasonKind.QUOTA, text="the quota of 8 is used")
ID = "task-1.1"


@dataclass
class Cluster:
    """Three pools; `home` has a provisioner, and what that says is what a test makes it say."""

    world: AgentsWorld

    @property
    def router(self) -> Router:
        return self.world.router

    @property
    def backend(self) -> AgentsBackend:
        return self.world.backend

    def says(self, reason: Reason, *requests: AllocationRequest, pool: str = "home") -> None:
        reasons = {request.allocation_id: reason for request in requests}
        self.world.nodes.availability(PoolAvailability(pool=pool, reasons=reasons))

    def pool_of(self, allocation_id: str) -> str:
        """Where it waits or holds slots. Never in two pools."""
        found = [
            entry.pool
            for pool in self.router.pools()
            for entry in self.router.queue(pool)
            if entry.allocation_id == allocation_id
        ]
        assert len(found) <= 1
        return found[0] if found else ""

    async def until(self, allocation_id: str, *, in_pool: str) -> None:
        while self.pool_of(allocation_id) != in_pool:
            await self.world.settle(0.1)

    def text(self, allocation_id: str) -> str:
        reason = self.router.explain(allocation_id)
        assert reason is not None
        return reason.text

    async def ask(self, number: int, slots: int = 2, **changes: object) -> AllocationRequest:
        request = replace(allocation(number, slots=slots, pool="home"), **changes)  # type: ignore[arg-type]
        await self.router.request(request)
        return request


@asynccontextmanager
async def opened(rules: Mapping[str, FallBackRule] = RULES) -> AsyncIterator[Cluster]:
    pools = (
        resolved_pool("home", EMBEDDED, scheduler=PRIORITY),
        resolved_pool("b", scheduler=PRIORITY),
        resolved_pool("c", EMBEDDED, scheduler=PRIORITY),
    )
    async with agents_world(*pools, decide=decide, fall_back=rules) as world:
        # Known, and away: neither pool is too small for ever.
        for pool, name in (("home", "h0"), ("c", "c0")):
            agent = await world.add_agent(name, pool=pool, slots=8)
            await world.backend.operator.disable_agent(name, drain=False, by=None)  # type: ignore[arg-type]
            assert agent.connected
        yield Cluster(world)


def play(
    scenario: Callable[[Cluster], Awaitable[None]], rules: Mapping[str, FallBackRule] = RULES
) -> None:
    async def main() -> None:
        async with opened(rules) as cluster:
            await scenario(cluster)

    run(main(), limit_s=24 * 3600)


def limited(number: int, slots: int = 4) -> AllocationRequest:
    """Of one job, which may hold 8."""
    request = allocation(number, slots=slots, pool="home", job="job")
    return replace(request, job=replace(request.job, submitted=START, max_slots=8))


def held(it: Cluster, pool: str) -> int:
    return sum(sum(entry.placement.values()) for entry in it.router.queue(pool, "job"))
