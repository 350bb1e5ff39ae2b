"""From a gang that needs a machine to the first call to its provider, while a thousand others wait for theirs to boot.

The real provisioner on the real clock and event loop; the provider answers at once, and its machines never boot.

    python -m benchmarks.bench_arrival [--pending 1000] [--arrivals 100]
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import time

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from master.serve import tune_interpreter
from provisioner.providers.base import Accepted, LaunchIntent, LaunchResult
from provisioner.types import PoolSettings
from tests.fakes.fleet_world import CLUSTER, FleetWorld, a_gang, an_offer
from tests.fakes.simulated_provider import SimulatedProvider
from windlass.base.clock import SystemClock

BUDGET_MS = 150.0
"""p99 with 1,000 pending."""
NEVER_S = 1e6


class TimedProvider(SimulatedProvider):
    """Tells when launches arrive."""

    def __init__(self, world: FleetWorld) -> None:
        super().__init__(
            offers=[an_offer(1, 1.0, boot_s=NEVER_S)],
            clock=world.clock,
            cluster_id=CLUSTER,
            name="cloud",
        )
        self.called = asyncio.Event()
        self.machines = 0

    async def launch(self, intent: LaunchIntent) -> LaunchResult | Accepted:
        self.called.set()
        self.machines += intent.count
        return await super().launch(intent)


async def measure(pending: int, arrivals: int) -> list[float]:
    """Milliseconds of each arrival."""
    settings = PoolSettings(pool="gpu", max_instances=100_000)
    world = FleetWorld(SystemClock(), [an_offer(1, 1.0)], settings=settings)
    provider = TimedProvider(world)
    provisioner = await world.start(provider)
    await world.want(*(a_gang(f"first-{n}", 1) for n in range(pending)))
    while provider.machines < pending:  # noqa: ASYNC110 - the provider is not told how many come
        await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)
    times = []
    for n in range(arrivals):
        provider.called.clear()
        world.host.waiting[f"next-{n}"] = a_gang(f"next-{n}", 1)
        start = time.perf_counter()
        provisioner.wake()
        await provider.called.wait()
        times.append(1000.0 * (time.perf_counter() - start))
        await asyncio.sleep(0.05 + 0.013 * (n % 17))  # not in step with the loop
    await world.stop()
    await provider.close()
    return times


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pending", type=int, nargs="*", default=sized([100, 1000, 4000], [10]))
    parser.add_argument("--arrivals", type=int, default=sized(100, 2))
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    tune_interpreter()  # as in the master's process
    print_calibration()
    for pending in options.pending:
        times = sorted(asyncio.run(measure(pending, options.arrivals)))
        p99 = times[max(0, round(0.99 * len(times)) - 1)]
        budget = f" (budget {BUDGET_MS:.0f} ms)" if pending == 1000 else ""
        print(
            f"{pending:>6,} pending: p50 {statistics.median(times):6.1f} ms, p99 {p99:6.1f} ms{budget}"
        )


if __name__ == "__main__":
    main()
