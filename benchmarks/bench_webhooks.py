"""What webhooks cost those who do not wait for them.

    python -m benchmarks.bench_webhooks

1,000 changes of experiments a second are committed, ten at once, in rounds with and without a webhook for each, in
turn; a change is one that an experiment makes that has its trial's rows with it. Budget: a commit takes at most 10 %
longer with webhooks, by the median of all.

Then 20 expressions on the output of tasks, that match nothing, in batches of 500 lines of 40 tasks. Budget: 20,000
lines a second, by the clock and by CPU.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
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

EXPERIMENTS, A_SECOND, AT_ONCE = sized((1_000, 1_000, 10), (10, 100, 2))
ROUNDS, ROUND_S = sized((10, 2.0), (2, 0.1))
MOST_SLOWER = 0.10
PATTERNS = 20
TASKS, BATCHES, BATCH_LINES = sized((40, 20, 500), (2, 2, 20))
LINES_BUDGET = 20_000
LINE = "epoch 3 of 90, step 1024: loss 0.2512, accuracy 0.7519, 812 images a second"
URL = "http://127.0.0.1:9/hook"


async def _nobody(*_: object) -> Failure:
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


async def commits() -> tuple[float, float, int]:
    """Median seconds of a commit without and with webhooks; events a second."""
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
            await _round(hooks, took[called])
        events = len(await hooks.events())
        return (
            statistics.median(took[False]),
            statistics.median(took[True]),
            round(events / (ROUNDS * ROUND_S)),
        )


async def _round(hooks: Hooks, took: list[float]) -> None:
    begun, number = time.perf_counter(), 0
    while (now := time.perf_counter() - begun) < ROUND_S:
        await asyncio.sleep(max(0.0, number * AT_ONCE / A_SECOND - now))
        first = number * AT_ONCE
        await asyncio.gather(*(_change(hooks, first + at, took) for at in range(AT_ONCE)))
        number += 1


async def _change(hooks: Hooks, number: int, took: list[float]) -> None:
    id_ = 1 + number % EXPERIMENTS
    begun = time.perf_counter()
    unit = UnitOfWork()
    unit.update(tables.Experiment, {"id": id_}, {"state": "COMPLETED", "ended_at": NOW}, expect=1)
    unit.update(tables.Trial, {"id": id_}, {"state": "COMPLETED", "ended_at": NOW}, expect=1)
    unit.extend(hooks.registry.state_changed(SOURCE, replace(FACTS, id=id_)))
    await hooks.store.commit(unit)
    took.append(time.perf_counter() - begun)


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
    without_s, with_s, events = asyncio.run(commits())
    more = with_s / without_s - 1
    print(
        f"{events} events a second queued: a commit takes {1000 * with_s:.2f} ms instead of {1000 * without_s:.2f} ms, "
        f"{100 * more:+.1f} %; budget {100 * MOST_SLOWER:g} %"
    )
    by_clock, by_cpu = asyncio.run(lines())
    print(
        f"{PATTERNS} expressions: {by_clock:.0f} lines a second, {by_cpu:.0f} a second of CPU; where budgets are for: "
        f"{by_clock * slower:.0f} and {by_cpu * slower:.0f}, budget {LINES_BUDGET}"
    )
    return exit_code(more <= MOST_SLOWER and by_clock * slower >= LINES_BUDGET)


if __name__ == "__main__":
    sys.exit(main())
