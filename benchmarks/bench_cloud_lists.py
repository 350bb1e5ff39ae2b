"""What a list of 5,000 machines of Compute Engine takes of a master: Google's client, our fake in another process.

Each machine has user data of 4 KB, which is part of every list. `held`: the most CPU that the event loop's
thread took without a pause. A list is made every ten seconds, in another thread: it may take 2 s of CPU.
"""

from __future__ import annotations

import asyncio
import multiprocessing as mp
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from provisioner.money.price_book import open_book
from provisioner.providers.base import LaunchIntent
from provisioner.providers.gcp.labels import launch_labels
from provisioner.providers.gcp.provider import GcpProvider
from provisioner.providers.gcp.site import GcpSite
from provisioner.types import Offer, OfferKey
from tests.fakes.gce import fake_gce
from tests.fakes.pool_machines import gcp_machines
from windlass.base.clock import SystemClock

MACHINES = sized(5_000, 20)
USER_DATA = "#!/bin/sh\n" + "x" * 4096
ROUNDS = sized(3, 1)
CPU_BUDGET_S = 2.0
HELD_BUDGET_MS = 100.0


def serve(ready: Connection) -> None:
    key = OfferKey(provider="acme", region="us-central1", zone="us-central1-a", instance_type="g")
    offer = Offer(key=key, slots=1, usd_per_hour=1.0, boot_s=60.0)
    with fake_gce() as fake:
        for number in range(MACHINES):
            intent = LaunchIntent(
                intent_id=f"i-{number}",
                token=f"{number:032x}",
                cluster_id="bench",
                pool="gpu",
                generation=1,
                offer=offer,
                count=1,
            )
            items = [{"key": "startup-script", "value": USER_DATA}]
            body = {
                "machineType": "g2-standard-4",
                "labels": launch_labels(intent),
                "metadata": {"items": items},
            }
            machine = fake.cloud.add("acme", "us-central1-a", f"windlass-{number}", body)
            machine.status = "RUNNING"
        ready.send(fake.url)
        ready.recv()


@contextmanager
def served() -> Iterator[str]:
    here, there = mp.Pipe()
    process = mp.get_context("fork").Process(target=serve, args=(there,))
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("stop")
        process.join()


async def main(url: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    provider = GcpProvider(
        site=GcpSite(name="acme", project="acme", region="us-central1", endpoint_url=url),
        pools=[gcp_machines(machine_type="g2-standard-4")],
        cluster_id="bench",
        clock=SystemClock(),
        prices=open_book(None),
        user_data=lambda *_: USER_DATA,
    )
    await provider.open()
    held = 0.0

    async def watch() -> None:
        nonlocal held
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            held, last = max(held, now - last), now

    watching = asyncio.create_task(watch())
    walls, cpus = [], []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        found = await provider.list()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        assert len(found.instances) == MACHINES
    watching.cancel()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"list of {MACHINES} machines: best of {ROUNDS}")
    print(f"  CPU {min(cpus):.2f} s (budget {CPU_BUDGET_S:.1f})   wall {min(walls):.2f} s")
    print(f"  loop held {held * 1000:.0f} ms (budget {HELD_BUDGET_MS:.0f})")
    print(f"  memory with the client: {(after - before) / 1024:.0f} MB more")
    await provider.close()


if __name__ == "__main__":
    arguments(__doc__).parse_args()
    print_calibration()
    with served() as address:
        asyncio.run(main(address))
