"""What it costs that requests may fall back: the router's looks at 10,000 of them, and its questions to another pool.

Printed are milliseconds of work for each second of the master's life; the budget is 10, which is 1 % of a core.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from benchmarks.arguments import arguments, sized
from master.core.fall_back import FallBackRule
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler import decide
from provisioner.types import PoolAvailability
from rm_backends.agents.backend import AgentsBackend
from rm_backends.base import AllocationRequest, JobOrder
from rm_backends.router import Router
from tests.fakes.agents_world import memory_pools
from tests.fakes.pools import EMBEDDED, resolved_pool
from windlass.base.clock import ManualClock

AT = datetime(2026, 1, 1, tzinfo=UTC)
WAITING = sized(10_000, 50)
SECONDS = sized(600, 2)
BUDGET_MS = 10.0


def request(number: int) -> AllocationRequest:
    return AllocationRequest(
        allocation_id=f"t-{number}.1",
        task_id=f"t-{number}",
        name=f"t-{number}",
        pool="home",
        slots=8,
        job=JobOrder(job_id=f"j-{number % 100}", submitted=AT),
        requested=AT,
    )


def backend(clock: ManualClock) -> AgentsBackend:
    pools = [resolved_pool("home", EMBEDDED), resolved_pool("other")]
    return AgentsBackend(memory_pools(clock), pools, decide)


async def cost_ms(kind: ReasonKind) -> float:
    """For each second, while all of them wait for that reason."""
    clock = ManualClock()
    agents = backend(clock)
    router = Router([agents], fall_back={"home": FallBackRule(pools=("other",))}, clock=clock)
    for number in range(WAITING):
        await router.request(request(number))
    home = agents.by_name["home"]
    state = home.snapshot()
    await home.apply(state, decide(state))
    reasons = dict.fromkeys(home.waiting, Reason(kind=kind, text="the quota is used"))
    home.set_availability(PoolAvailability(pool="home", reasons=reasons))
    spent = 0.0
    for _ in range(SECONDS):
        clock.advance(1.0)
        before = time.perf_counter()
        await router._moves._step()
        spent += time.perf_counter() - before
    return 1000 * spent / SECONDS


async def main() -> None:
    print(
        f"the router follows {WAITING:,} requests that may fall back, for {SECONDS} s of its time"
    )
    for kind, what in (
        (ReasonKind.QUEUED, "queued at home"),
        (ReasonKind.QUOTA, "stuck at home; a pool that has nothing free is asked all the time"),
    ):
        ms = await cost_ms(kind)
        verdict = "within" if ms <= BUDGET_MS else "ABOVE"
        print(f"  {what}: {ms:.2f} ms a second, {verdict} the budget of {BUDGET_MS:g}")


if __name__ == "__main__":
    arguments(__doc__).parse_args()
    asyncio.run(main())
