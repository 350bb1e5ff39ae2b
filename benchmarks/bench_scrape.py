"""How long one scrape of Prometheus holds the event loop while 10,000 requests wait, beside the queue's whole view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.arguments import arguments, sized
from benchmarks.bench_fall_back import WAITING, backend, request
from master.core.scheduler import decide
from windlass.base.clock import ManualClock

BUDGET_MS = 30.0
TIMES = sized(10, 1)


def least_ms(work: Callable[[], object]) -> float:
    """Of CPU."""
    spent = []
    for _ in range(TIMES):
        before = time.thread_time()
        work()
        spent.append(1000 * (time.thread_time() - before))
    return min(spent)


async def measure(pool: str) -> tuple[float, float]:
    agents = backend(ManualClock())
    for number in range(WAITING):
        await agents.request(replace(request(number), pool=pool))
    its = agents.by_name[pool]
    state = its.snapshot()
    await its.apply(state, decide(state))
    return least_ms(lambda: agents.observer.waiting_by_kind(pool)), least_ms(
        lambda: agents.observer.queue(pool)
    )


async def main() -> None:
    for pool, what in (("home", "a pool that launches"), ("other", "a pool of agents")):
        counted, whole = await measure(pool)
        verdict = "within" if counted <= BUDGET_MS else "ABOVE"
        print(
            f"{WAITING:,} waiting in {what}: counted by why in {counted:.1f} ms, {verdict} the budget of "
            f"{BUDGET_MS:g}; the whole queue {whole:.0f} ms ({whole / counted:.1f} times)"
        )


if __name__ == "__main__":
    arguments(__doc__).parse_args()
    asyncio.run(main())
