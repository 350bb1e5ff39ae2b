"""5,000 requests that wait for a queue that takes 100 jobs: what that costs the master, on virtual time.

The real pool, its scheduler and the dispatcher, with a batch system in memory that starts nothing, and then all of it.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from tests.fakes.agents_world import agents_world, allocation
from tests.fakes.batch_world import BatchWorld, slurm_pool
from tests.fakes.virtual_time import run

REQUESTS, TAKEN = sized((5_000, 100), (20, 5))
SECONDS = 60.0
BUDGET = 0.1
"""Of one CPU, while nothing moves."""


async def main(folder: Path) -> None:
    async with agents_world(starts=False) as world:
        batch = BatchWorld(world, folder, slurm_pool(max_queued=TAKEN))
        batch.site.holds_back = True
        await batch.start()
        begun = time.process_time()
        for number in range(REQUESTS):
            await world.backend.request(allocation(number))
        print(f"{REQUESTS} requests: {time.process_time() - begun:.2f} s of CPU")
        begun = time.process_time()
        await world.settle(SECONDS)
        print(
            f"the first {SECONDS:.0f} s, until {TAKEN} jobs are submitted: {time.process_time() - begun:.2f} s of CPU"
        )
        assert len(batch.site.submissions) == TAKEN
        begun = time.process_time()
        await world.settle(SECONDS)
        share = (time.process_time() - begun) / SECONDS
        assert len(batch.site.submissions) == TAKEN
        print(f"while nothing moves: {share:.1%} of one CPU")
        begun = time.process_time()
        reasons = [world.backend.explain(allocation(n).allocation_id) for n in range(REQUESTS)]
        assert all(reasons)
        print(f"{REQUESTS} reasons: {time.process_time() - begun:.2f} s of CPU")
        begun = time.process_time()
        await world.backend.withdraw(allocation(0).allocation_id)
        await world.settle(SECONDS)
        assert len(batch.site.submissions) == TAKEN + 1, "the next one follows"
        print(f"one is withdrawn, {SECONDS:.0f} s: {time.process_time() - begun:.2f} s of CPU")
    print(f"budget: {BUDGET:.0%}; {'within' if share < BUDGET else 'OVER'}")


if __name__ == "__main__":
    arguments(__doc__).parse_args()
    print_calibration()
    with tempfile.TemporaryDirectory() as name:
        run(main(Path(name)))
