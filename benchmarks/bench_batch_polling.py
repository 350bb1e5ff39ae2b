"""What following a batch system takes of a master: 1,000 jobs of ours beside 1,000 and 10,000 others, 1 and 20 pools.

    pilots      the provider's own pace (`list_every_s`), over a minute in which nothing changes and one after a change
    dispatch    the dispatcher's own pace, over a minute in which nothing changes
    slurmrestd  one look at an answer about all jobs, as Slurm 22.05 and 25.11 write it (recorded), by the real client

Calls are commands or requests. CPU is of the process, without what the site itself would do. `memory` is the peak of
Python's own during one look; `held` how long the event loop was kept from others, at the best of three times.
`squeue --me` leaves the others out; they are read here all the same, as where a service account shares the queue.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.arguments import arguments, sized
from benchmarks.bench_batch_adoption import Host, leases, memory_disk
from benchmarks.calibration import print_calibration
from master.store.repositories.leases import LeaseRepository
from provisioner.batch.commands import FinishedCommand
from provisioner.batch.disks import LocalDisk
from provisioner.batch.job_files import JobFiles
from provisioner.batch.slurm.rest.client import RestClient
from provisioner.batch.slurm.rest.system import RestSystem
from provisioner.batch.slurm.system import SlurmSystem
from provisioner.providers.base import LaunchIntent
from provisioner.providers.pilots.book import PilotBook
from provisioner.providers.pilots.offers import PilotOptions
from provisioner.providers.pilots.provider import PilotProvider
from provisioner.sections.batch import SlurmSection
from rm_backends.batch.dispatcher import Dispatcher
from tests.fakes.batch_world import slurm_pool
from tests.fakes.dispatch_backend import still_leads
from tests.fakes.slurm_commands import FakeSlurm, Job
from tests.stores import leading_store
from windlass.base.clock import ManualClock
from windlass.base.ids import Ids

OURS = sized(1_000, 5)
FOREIGN = sized((1_000, 10_000), (5, 10))
POOLS = sized((1, 20), (1, 2))
CLUSTER = "c0ffee00-0000-4000-8000-000000000000"
ROUNDS = sized(3, 1)
"""Of slurmrestd; the best counts: what else runs on this machine holds the event loop, too."""
BUDGET_S = 0.5
"""Of CPU for one look, and of the event loop."""
FLAT = 1.5
"""What 20 pools may take of what one takes."""
RECORDED = (("22.05.8", "v0.0.38 running job"), ("25.11.7", "v0.0.44 running job"))
TRANSCRIPTS = Path(__file__).parents[1] / "tests" / "transcripts" / "slurm"


class Joined:
    """Implements `PilotHost`: every agent is connected."""

    def drain(self, agent_id: str) -> None:
        raise AssertionError(f"drained: {agent_id}")

    def disabled_nodes(self) -> frozenset[str]:
        return frozenset()

    def avoided_nodes(self, pool: str) -> frozenset[str]:
        return frozenset()

    def connected(self, agent_ids: Collection[str]) -> int:
        return len(agent_ids)


class FrozenSlurm(FakeSlurm):
    """Answers `squeue` with a text made before, so that making it does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[tuple[str, ...], str] = {}

    async def run(self, words: Sequence[str], **more: Any) -> FinishedCommand:
        text = self.texts.get(tuple(words))
        if text is None:
            done = await super().run(words, **more)
            if words[0] == "squeue":
                self.texts[tuple(words)] = done.out
            return done
        self.calls.append(words[0])
        return FinishedCommand(0, text)


@dataclass
class Looks:
    calls: int = 0
    cpu_s: float = 0.0
    longest_s: float = 0.0
    """CPU of one look."""

    async def measure(self, look: Callable[[], Awaitable[object]]) -> None:
        begun = time.process_time()
        await look()
        took = time.process_time() - begun
        self.cpu_s += took
        self.longest_s = max(self.longest_s, took)


def add_others(slurm: FakeSlurm, foreign: int) -> None:
    for number in range(foreign):
        id_ = OURS + number + 1
        slurm.jobs[id_] = Job(id=id_, name=f"theirs-{number}", nodes=4, limit_s=3600.0)


async def peak_mib(look: Callable[[], Awaitable[object]]) -> float:
    tracemalloc.start()
    await look()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


def provider_of(folder: Path, slurm: FakeSlurm, clock: ManualClock, pools: int) -> PilotProvider:
    options = [
        PilotOptions(
            pool=f"pool-{number}",
            files=JobFiles(root=folder / "jobs", python="python3", agent={}),
            section=SlurmSection(
                type="slurm",
                mode="pilot",
                partition="gpu",
                walltimes=(timedelta(hours=1),),
                max_queued=OURS,
            ),
        )
        for number in range(pools)
    ]
    return PilotProvider(
        name="slurm",
        system=SlurmSystem(slurm),
        host=Joined(),
        pools=options,
        book=PilotBook(folder / "pilots"),
        token=lambda pilot: "token",
        clock=clock,
        cluster_id=CLUSTER,
        disk=LocalDisk(),
        check_lease=lambda: asyncio.sleep(0),
        gather_s=0.0,
    )


async def pilots(folder: Path, foreign: int, pools: int) -> tuple[Looks, Looks, float]:
    """A quiet minute, the minute after a change, and the memory of a look."""
    slurm, clock = FrozenSlurm(), ManualClock()
    provider = provider_of(folder, slurm, clock, pools)
    await provider.open()
    for number in range(OURS):
        pool = f"pool-{number % pools}"
        offer = provider.could_offer(pool)[0]
        intent = LaunchIntent(
            intent_id=f"i-{number}",
            token=f"{number:016x}{0:016x}",
            cluster_id=CLUSTER,
            pool=pool,
            generation=1,
            offer=offer,
            count=1,
        )
        clock.advance(1.0)  # submissions are paced
        await provider.launch(replace(intent, request=provider.freeze(intent)))
    add_others(slurm, foreign)
    await provider.list()  # notes what came

    async def minute() -> Looks:
        seen, last, before = Looks(), clock.monotonic(), len(slurm.calls)
        for _ in range(60):
            clock.advance(1.0)
            if clock.monotonic() - last >= provider.list_every_s:
                last = clock.monotonic()
                await seen.measure(provider.list)
        seen.calls = len(slurm.calls) - before
        return seen

    changed = await minute()
    clock.advance(60.0)
    quiet = await minute()
    assert len((await provider.list()).instances) == OURS
    return quiet, changed, await peak_mib(provider.list)


async def dispatched(folder: Path, foreign: int, pools: int) -> Looks:
    slurm, clock = FrozenSlurm(), ManualClock()
    mine = leases()
    for lease in mine:
        job = Job(id=int(lease.job_id or 0), name=lease.tag, nodes=1, limit_s=3600.0)
        job.run(time.time())
        slurm.jobs[job.id] = job
    add_others(slurm, foreign)
    async with leading_store(f"sqlite:///{folder}/master.db", ManualClock()) as store:
        await LeaseRepository(store).save(mine)
        names = ["gpu", *(f"pool-{number}" for number in range(1, pools))]
        dispatcher = Dispatcher(
            pools=[slurm_pool(name) for name in names],
            system=SlurmSystem(slurm),
            host=Host(),
            store=LeaseRepository(store),
            files={n: JobFiles(root=folder, python="python3", agent={}) for n in names},
            token=lambda lease: "token",
            clock=clock,
            ids=Ids.seeded(1),
            cluster_id=CLUSTER,
            check_lease=still_leads,
        )
        await dispatcher.load()
        for _ in range(60):  # everything has been found again, and is looked at less often
            clock.advance(1.0)
            await dispatcher._step()
        seen, before = Looks(), len(slurm.calls)
        for _ in range(60):
            clock.advance(1.0)
            await seen.measure(dispatcher._step)
        seen.calls = len(slurm.calls) - before
    return seen


async def watched(look: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """CPU of one look, and how long the event loop was held meanwhile."""
    ended, seen = asyncio.Event(), Looks()
    watch = asyncio.create_task(longest_hold_s(ended))
    await seen.measure(look)
    ended.set()
    return seen.cpu_s, await watch


async def longest_hold_s(ended: asyncio.Event) -> float:
    longest = 0.0
    while not ended.is_set():
        begun = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - begun - 0.001)
    return longest


def answer_of_slurmrestd(release: str, label: str, foreign: int) -> bytes:
    steps = json.loads((TRANSCRIPTS / f"rest-{release}.json").read_text())["steps"]
    text = next(step["stdout"] for step in steps if step.get("label") == label)
    document = json.loads(text.rpartition("\nHTTP ")[0])
    (record,) = document["jobs"]
    document["jobs"] = [
        {
            **record,
            "job_id": number + 1,
            "name": f"theirs-{number}" if number < foreign else f"wp-c0ffee00-{number:x}",
            "user_name": "alice" if number < foreign else "me",
        }
        for number in range(foreign + OURS)
    ]
    return json.dumps(document, indent=2).encode()


async def slurmrestd(release: str, label: str, foreign: int) -> bool:
    content = answer_of_slurmrestd(release, label, foreign)
    served = f'"/slurm/{label.split(" ")[0]}/jobs"'

    def answer(request: httpx2.Request) -> httpx2.Response:
        is_jobs = request.url.path.endswith("/jobs")
        return httpx2.Response(200, content=content if is_jobs else served.encode())

    client = RestClient("the site", lambda: httpx2.MockTransport(answer))
    system = RestSystem(client, FakeSlurm(), "me")
    await client.served()
    rounds = [await watched(lambda: system.named_like("wp-c0ffee00-")) for _ in range(ROUNDS)]
    cpu_s, held_s = map(min, zip(*rounds, strict=True))
    assert len(await system.named_like("wp-c0ffee00-")) == OURS
    memory = await peak_mib(lambda: system.named_like("wp-c0ffee00-"))
    print(
        f"slurmrestd {release}, {foreign:,} + {OURS:,} jobs: {len(content) / 1e6:.0f} MB, {cpu_s:.2f} s of CPU, "
        f"event loop held for {held_s:.2f} s at the most, memory {memory:.0f} MiB"
    )
    return bool(held_s < BUDGET_S)


async def main() -> None:
    print_calibration()
    logging.disable(logging.WARNING)
    costs: dict[tuple[int, int], tuple[float, float]] = {}
    longest = 0.0
    for foreign in FOREIGN:
        for pools in POOLS:
            with tempfile.TemporaryDirectory(dir=memory_disk()) as name:
                quiet, changed, memory = await pilots(Path(name), foreign, pools)
            with tempfile.TemporaryDirectory(dir=memory_disk()) as name:
                dispatch = await dispatched(Path(name), foreign, pools)
            print(
                f"{foreign:,} + {OURS:,} jobs, {pools} pool{'s' if pools > 1 else ''}: "
                f"pilots {quiet.calls} calls/min, {quiet.cpu_s:.2f} s of CPU/min "
                f"(after a change {changed.calls}, {changed.cpu_s:.2f}), "
                f"one look {quiet.longest_s:.3f} s, memory {memory:.1f} MiB; "
                f"dispatch {dispatch.calls} calls/min, {dispatch.cpu_s:.2f} s/min, one look {dispatch.longest_s:.3f} s"
            )
            costs[foreign, pools] = (quiet.cpu_s, dispatch.cpu_s)
            longest = max(longest, quiet.longest_s, changed.longest_s, dispatch.longest_s)
    few, many = FOREIGN
    grown = [after / before for before, after in zip(costs[few, 1], costs[many, 1], strict=True)]
    print(
        f"{few:,} to {many:,} others: pilots {grown[0]:.1f} times the CPU, dispatch {grown[1]:.1f}"
    )
    flat = max(
        after / before
        for foreign in FOREIGN
        for before, after in zip(costs[foreign, 1], costs[foreign, POOLS[-1]], strict=True)
    )
    print(
        f"1 to 20 pools: {flat:.2f} times at the most (goal {FLAT}: {'within' if flat < FLAT else 'OVER'})"
    )
    print(
        f"one look: {longest:.3f} s (goal {BUDGET_S} s: {'within' if longest < BUDGET_S else 'OVER'})"
    )
    free = True
    for release, label in RECORDED:
        for foreign in FOREIGN:
            free = await slurmrestd(release, label, foreign) and free
    verdict = "within" if free else "OVER"
    print(f"slurmrestd keeps the event loop for less than {BUDGET_S} s: {verdict}")


if __name__ == "__main__":
    arguments(__doc__).parse_args()
    asyncio.run(main())
