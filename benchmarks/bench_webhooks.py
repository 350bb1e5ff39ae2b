"""What webhooks cost those who do not wait for them.

    python -m benchmarks.bench_webhooks

Changes of experiments are committed, ten at once, in rounds with and without a webhook that hears of each, in turn.
Budget: 1,000 events a second take at most a tenth of the CPU time that commits have, which is that of one thread: other
commits are slowed by no more. By the fastest rounds.

Then 20 expressions on the output of tasks, that match nothing, in batches of 500 lines of 40 tasks. Budget: 20,000
lines a second, by the clock and by CPU.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from master.core.webhooks.retries import Failure
from master.experiments.reports.log_triggers import LogTriggers
from master.logs.search_turns import Turns
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.webhooks.service import NewTrigger
from tests.fakes.hooks import FACTS, SOURCE, Hooks
from tests.fakes.stored_rows import NOW, experiment, trial
from windlass.base.clock import ManualClock

EXPERIMENTS, AT_ONCE, ROUNDS = sized((1_000, 10, 15), (10, 2, 2))
A_SECOND, MOST_OF_CORE = 1_000, 0.10
PATTERNS = 20
TASKS, BATCHES, BATCH_LINES = sized((40, 20, 500), (2, 2, 20))
LINES_BUDGET = 20_000
LINE = "epoch 3 of 90, step 1024: loss 0.2512, accuracy 0.7519, 812 images a second"
URL = "http://127.0.0.1:9/hook"


async def _nobody(url: str, body: bytes, headers: Mapping[str, str]) -> Failure:
    return Failure("it is away")


@asynccontextmanager
async def filled() -> AsyncIterator[Hooks]:
    """A store on a disk."""
    with tempfile.TemporaryDirectory() as folder:
        clock = ManualClock(NOW)
        store = await Store.open(f"sqlite:///{folder}/windlass.db", clock=clock)
        await store.take_lease("bench")
        writing = asyncio.create_task(store.run())
        try:
            hooks = Hooks(store, clock, caller=_nobody)
            await hooks.start()
            unit = UnitOfWork()
            unit.insert(tables.Project, {"id": 1, "workspace_id": 1, "name": "p", "user_id": 2})
            unit.insert(tables.Experiment, *map(experiment, range(1, EXPERIMENTS + 1)))
            unit.insert(tables.Trial, *map(trial, range(1, EXPERIMENTS + 1)))
            await store.commit(unit)
            yield hooks
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await store.close()


async def commits() -> tuple[float, float]:
    """CPU seconds of a commit without and with webhooks."""
    async with filled() as hooks:
        id_ = await hooks.create(URL)
        webhook = hooks.service.webhook(id_)
        took: dict[bool, list[float]] = {False: [], True: []}
        for number in range(2 * ROUNDS):
            called = number % 2 == 1
            if called:
                hooks.registry.register(webhook)
            else:
                hooks.registry.forget(id_)
            begun = time.process_time()
            for first in range(0, EXPERIMENTS, AT_ONCE):
                await asyncio.gather(*(_change(hooks, first + at) for at in range(AT_ONCE)))
            took[called].append((time.process_time() - begun) / EXPERIMENTS)
        assert len(await hooks.events()) == ROUNDS * EXPERIMENTS
        return min(took[False]), min(took[True])


async def _change(hooks: Hooks, number: int) -> None:
    id_ = 1 + number
    unit = UnitOfWork()
    unit.update(tables.Experiment, {"id": id_}, {"state": "COMPLETED", "ended_at": NOW}, expect=1)
    unit.update(tables.Trial, {"id": id_}, {"state": "COMPLETED", "ended_at": NOW}, expect=1)
    unit.extend(hooks.registry.state_changed(SOURCE, replace(FACTS, id=id_)))
    await hooks.store.commit(unit)


async def lines() -> tuple[float, float]:
    """Lines in a second of the clock, and in one of CPU."""
    async with filled() as hooks:
        for number in range(PATTERNS):
            regex = rf"(CUDA|NCCL) error {number}|rank [0-9]+ .*(lost|timed out) {number}"
            await hooks.create(URL, NewTrigger("TASK_LOG", {"regex": regex}))
        triggers, turns = LogTriggers(hooks.registry), Turns(2, "bench")
        said: list[str] = []

        async def write(task: int) -> None:
            for _ in range(BATCHES):
                await triggers.look(
                    [LINE] * BATCH_LINES,
                    task_id=f"task-{task}",
                    node="node-1",
                    source=SOURCE,
                    experiment=None,
                    turns=turns,
                    say=said.append,
                )

        begun, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*map(write, range(TASKS)))
        by_clock, by_cpu = time.perf_counter() - begun, time.process_time() - cpu
        await turns.close()
        assert not said, said[0]
        number = TASKS * BATCHES * BATCH_LINES
        return number / by_clock, number / by_cpu


def main() -> int:
    arguments(__doc__).parse_args()
    print_calibration()
    slower = loop_s() / REFERENCE_S
    without_s, with_s = asyncio.run(commits())
    part = A_SECOND * (with_s - without_s)
    print(
        f"a commit takes {1e6 * with_s:.0f} µs of CPU instead of {1e6 * without_s:.0f} µs: {A_SECOND} events a second "
        f"take {100 * part:.1f} % of a core; where budgets are for: {100 * part / slower:.1f} %, "
        f"budget {100 * MOST_OF_CORE:g} %"
    )
    by_clock, by_cpu = asyncio.run(lines())
    print(
        f"{PATTERNS} expressions: {by_clock:.0f} lines a second, {by_cpu:.0f} a second of CPU; where budgets are for: "
        f"{by_clock * slower:.0f} and {by_cpu * slower:.0f}, budget {LINES_BUDGET}"
    )
    return exit_code(part / slower <= MOST_OF_CORE and by_clock * slower >= LINES_BUDGET)


if __name__ == "__main__":
    sys.exit(main())
