"""A pass over 1,000 and 10,000 machines, and what it leaves of the event loop while a provider hangs.

The real provisioner on the real clock; its machines boot for ever, and every list after the first hangs until its
deadline. `api` is `GET /api/v1/me` through the real application on the same loop: its budget is a p99 of 100 ms. `held`
is the most CPU time that the loop's thread takes in one go. Passes are made in a thread from 1,000 machines on.

    python -m benchmarks.bench_fleet_pass [--machines 1000 10000]
"""

from __future__ import annotations

import asyncio
import logging
import math
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arguments import arguments, sized
from benchmarks.bench_arrival import TimedProvider
from benchmarks.calibration import print_calibration
from master.serve import tune_interpreter
from provisioner.providers.base import Inventory
from provisioner.types import PoolSettings
from tests.fakes.api_world import ApiWorld, api_world
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from windlass.base.clock import SystemClock

BUDGET_MS = 100.0
"""p99 of a call of the API."""
CALLS = sized(200, 3)


class Hanging(TimedProvider):
    hangs = False

    async def list(self) -> Inventory:
        if self.hangs:
            await asyncio.Event().wait()
        return await super().list()


@dataclass
class Found:
    pass_ms: float
    api_ms: list[float]
    held_ms: float


async def measure(machines: int, api: ApiWorld) -> Found:
    settings = PoolSettings(pool="gpu", max_instances=100_000)
    world = FleetWorld(SystemClock(), [an_offer(1, 1.0)], settings=settings)
    provider = Hanging(world)
    provisioner = await world.start(provider)
    await world.want(*(a_gang(f"g-{n}", 1) for n in range(machines)))
    while provider.machines < machines:  # noqa: ASYNC110 - the provider is not told how many come
        await asyncio.sleep(0.05)
    provider.hangs = True
    await asyncio.sleep(1.0)
    passes, spent = sum(provisioner.counters.passes.counts), provisioner.counters.passes.sum_s
    times, held = [], 0.0
    for _ in range(CALLS):
        provisioner.wake()
        begun, cpu = time.perf_counter(), time.thread_time()
        await api.ok("GET", "/api/v1/me")
        times.append(1000.0 * (time.perf_counter() - begun))
        await asyncio.sleep(0.005)
        held = max(held, 1000.0 * (time.thread_time() - cpu))
    counters = provisioner.counters.passes
    count = max(1, sum(counters.counts) - passes)
    found = Found(1000.0 * (counters.sum_s - spent) / count, sorted(times), held)
    await world.stop()
    await provider.close()
    return found


async def measured(sizes: list[int]) -> list[Found]:
    with tempfile.TemporaryDirectory() as folder:
        async with api_world(Path(folder)) as api:
            await api.login()
            return [await measure(machines, api) for machines in sizes]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--machines", type=int, nargs="*", default=sized([1_000, 10_000], [10]))
    sizes = parser.parse_args().machines
    logging.disable(logging.WARNING)
    tune_interpreter()  # as in the master's process
    print_calibration()
    found = asyncio.run(measured(sizes))
    for machines, each in zip(sizes, found, strict=True):
        p99 = each.api_ms[round(0.99 * len(each.api_ms)) - 1]
        print(
            f"{machines:>7,} machines: a pass {each.pass_ms:7.1f} ms; api p50 "
            f"{statistics.median(each.api_ms):5.1f} ms, p99 {p99:6.1f} ms (budget {BUDGET_MS:.0f} ms); "
            f"held {each.held_ms:6.1f} ms"
        )
    if len(found) > 1:
        growth = math.log(found[-1].pass_ms / found[0].pass_ms) / math.log(sizes[-1] / sizes[0])
        print(f"a pass grows with the machines to the power of {growth:.2f}")


if __name__ == "__main__":
    main()
