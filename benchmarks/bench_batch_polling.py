"""What one look at a batch system takes of a master: the text of squeue with 10,000 jobs of others and 1,000 of ours.

`squeue --me` leaves the others out; they are read here all the same, as where a service account shares them. `list` is
the whole of it for pilots: read, compared with what was submitted, told to the provisioner.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from calibration import print_calibration

from provisioner.providers.batch.slurm.states import report
from provisioner.providers.batch.slurm.text import squeue_lines
from tests.contract.providers.pilots import FakePilotCase
from tests.fakes.slurm_commands import Job

FOREIGN, OURS, ROUNDS = 10_000, 1_000, 5
BUDGET_S = 0.5


async def main() -> None:
    print_calibration()
    with tempfile.TemporaryDirectory() as folder:
        case = FakePilotCase(Path(folder))
        await case.provider.open()
        case.provider.pools = tuple(replace(p, max_queued=OURS) for p in case.provider.pools)
        for _ in range(OURS):
            await case.provider.launch(case.intent())
        for number in range(FOREIGN):
            id_ = OURS + number + 1
            case.slurm.jobs[id_] = Job(id=id_, name=f"theirs-{number}", nodes=4, limit_s=3600.0)
        text = (await case.slurm.run(["squeue"])).out
        await case.provider.list()  # the first notes what came
        read, listed = [], []
        for _ in range(ROUNDS):
            begun = time.process_time()
            jobs = [report(line) for line in squeue_lines(text)]
            read.append(time.process_time() - begun)
            assert len(jobs) == FOREIGN + OURS
            begun = time.process_time()
            inventory = await case.provider.list()
            listed.append(time.process_time() - begun)
            assert len(inventory.instances) == OURS
    print(f"{len(text) / 1e6:.1f} MB of squeue read: {min(read):.3f} s of CPU")
    print(f"list of {OURS} pilots beside {FOREIGN} other jobs: {min(listed):.3f} s of CPU")
    print(f"budget: {BUDGET_S} s; {'within' if min(listed) < BUDGET_S else 'OVER'}")


if __name__ == "__main__":
    asyncio.run(main())
