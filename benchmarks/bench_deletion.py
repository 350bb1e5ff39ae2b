"""What others notice while an experiment with a million metrics and ten million lines of log is deleted, on SQLite.

    python -m benchmarks.bench_deletion [--part 0.1]

Its rows go in many transactions, and the longest of them is how long a commit of somebody else may have to wait. Budget
for one: 50 ms, in CPU of the writing thread (by the clock, a disk and other work of the machine count as well). A tenth
of the rows comes first: so the longest transaction should not grow, and the whole linearly.

As they are reported: 64 trials at a time, whose reports alternate one by one, and their lines a hundred at a time.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from sqlalchemy import select

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from master.checkpoints.experiment_rows import ExperimentRows
from master.logs.store import LogStore
from master.store import tables
from master.store.sql.sqlite import SqliteDatabase
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.fakes.stored_rows import NOW, experiment, trial, with_project
from windlass.base.clock import ManualClock

METRICS, LINES, EVENTS, TRIALS = sized(
    (1_000_000, 10_000_000, 100_000, 1_024), (6_400, 12_800, 3_000, 64)
)
AT_ONCE = 64
"""Trials that run at the same time."""
BUDGET_MS = 50.0
P = ParamSpec("P")
T = TypeVar("T")

_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows)"
_TRIAL = f"1 + (i / :apiece) * {AT_ONCE} + i % {AT_ONCE}"
_METRICS = f"""{_NUMBERS}
INSERT INTO metric (id, trial_id, run_id, "group", steps, metrics, archived, reported_at)
SELECT i + 1, {_TRIAL}, 1, 'training', i / {AT_ONCE}, :text, 0, '2026-11-01 00:00:00.000000' FROM n"""  # noqa: S608
_EVENTS = f"""{_NUMBERS}
INSERT INTO searcherevent (experiment_id, seq, event, actions, at)
SELECT 1, i + 1, :text, '[]', '2026-11-01 00:00:00.000000' FROM n"""  # noqa: S608
_LINES = f"""{_NUMBERS}
INSERT INTO log_entry (id, task_id, timestamp, level, stdtype, source, log)
SELECT i + 1, 't' || (1 + (i / :apiece) * {AT_ONCE} + i / 100 % {AT_ONCE}), i, 'INFO', 'stdout', 'task', :text FROM n"""  # noqa: S608


class TimedThread(ThreadPoolExecutor):
    """The one thread that writes a database, and how long each of its transactions took, in seconds."""

    def __init__(self) -> None:
        super().__init__(1)
        self.cpu: list[float] = []
        self.clock: list[float] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        def timed() -> T:
            cpu, clock = time.thread_time(), time.perf_counter()
            try:
                return fn(*args, **kwargs)
            finally:
                self.cpu.append(time.thread_time() - cpu)
                self.clock.append(time.perf_counter() - clock)

        return super().submit(timed)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One deletion."""

    part: float
    took_s: float
    state: TimedThread
    logs: TimedThread

    @property
    def longest_ms(self) -> float:
        return 1000 * max(*self.state.cpu, *self.logs.cpu)


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[Store, LogStore]]:
    url = f"sqlite:///{folder}/windlass.db"
    store = await Store.open(url, clock=ManualClock(NOW))
    logs = await LogStore.open(url)
    await store.take_lease("bench")
    writing = [asyncio.create_task(store.run()), asyncio.create_task(logs.run())]
    try:
        yield store, logs
    finally:
        for one in writing:
            one.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
        await store.close()
        await logs.close()


async def fill(folder: Path, part: float) -> None:
    """An experiment with its trials; its many rows without Python."""
    async with opened(folder) as (store, _):
        unit = with_project()
        unit.insert(tables.Experiment, experiment(1))
        await store.commit(unit)
        for start in range(1, TRIALS + 1, 500):
            numbers = range(start, min(start + 500, TRIALS + 1))
            unit = UnitOfWork()
            unit.insert(tables.Trial, *map(trial, numbers))
            unit.insert(tables.Task, *map(task, numbers))
            await store.commit(unit)
    for file, statement, rows, text in (
        ("windlass.db", _METRICS, METRICS, '{"avg_metrics": {"loss": 0.25, "accuracy": 0.75}}'),
        ("windlass.db", _EVENTS, EVENTS, '{"type": "validation", "trial": 1, "value": 0.25}'),
        ("logs.db", _LINES, LINES, "epoch 3 of 90, step 1024: loss 0.2512, 812 images a second"),
    ):
        count = int(rows * part)
        apiece = max(1, count * AT_ONCE // TRIALS)
        with closing(sqlite3.connect(folder / file)) as connection, connection:
            connection.execute(statement, {"rows": count, "apiece": apiece, "text": text})


def task(number: int) -> dict[str, object]:
    return {
        "id": f"t{number}",
        "type": "TRIAL",
        "job_id": "job-1",
        "owner_id": 2,
        "experiment_id": 1,
        "trial_id": number,
        "created_at": NOW,
        "ended_at": NOW,
    }


async def measure(part: float) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await fill(folder, part)
        async with opened(folder) as (store, logs):
            threads = timed_writer(store), timed_writer(logs)
            begun = time.perf_counter()
            await ExperimentRows(store, logs).remove(1)
            took = time.perf_counter() - begun
            for table in (tables.Metric, tables.SearcherEvent, tables.Trial, tables.Experiment):
                assert not await store.read(select(table).limit(1))
    return Row(part=part, took_s=took, state=threads[0], logs=threads[1])


def timed_writer(of: Store | LogStore) -> TimedThread:
    database = of._database  # its transactions are what is measured
    assert isinstance(database, SqliteDatabase)
    assert database._write_thread is not None
    database._write_thread.shutdown()
    database._write_thread = thread = TimedThread()
    return thread


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--part", type=float, nargs="+", default=sized([0.1, 1.0], [1.0]))
    given = parser.parse_args()
    print_calibration()
    slower = loop_s() / REFERENCE_S
    rows = [asyncio.run(measure(part)) for part in given.part]
    print(f"{METRICS} metrics, {EVENTS} events of the search, {LINES} lines of {TRIALS} trials")
    for row in rows:
        print(f"  {row.part:g} of them deleted in {row.took_s:.1f} s; transactions, CPU (clock):")
        for name, thread in (("state", row.state), ("logs", row.logs)):
            print(
                f"    {name:6} {len(thread.cpu):6}, median {1000 * sorted(thread.cpu)[len(thread.cpu) // 2]:.1f} ms, "
                f"longest {1000 * max(thread.cpu):.1f} ({1000 * max(thread.clock):.1f}) ms, budget {BUDGET_MS:g}"
            )
    return exit_code(max(row.longest_ms for row in rows) <= BUDGET_MS * slower)


if __name__ == "__main__":
    sys.exit(main())
