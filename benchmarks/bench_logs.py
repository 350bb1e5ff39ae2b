"""How many lines of logs a second are stored while others commit, and what 200 people cost who follow logs.

    python -m benchmarks.bench_logs

Lines come in batches of 500 from 100 containers, as agents send them, into the log store of a SQLite master; every
10 ms somebody commits a change of the state. Budget: 50,000 lines a second, while 99 % of those commits take at most
20 ms.

Then a real master, whose 40 trials write ten lines a second each, all at once; five users follow each over HTTP.
Budget: half a core of the master, with what the trials cost. Where other work shares the machine, only CPU says much.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from urllib.parse import quote

import orjson

from agent_bootstrap.protocol import LogBatch, LogEntry
from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.bench_scale import cpu_s
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from benchmarks.running_trials import Running, running_trials
from benchmarks.scale_load import Http, Trial
from master.logs.store import LogStore
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.fakes.stored_rows import NOW, experiment, trial, with_project
from windlass.base.clock import ManualClock

CONTAINERS, BATCHES, BATCH_LINES = sized((100, 20, 500), (4, 2, 20))
COMMIT_EVERY_S = 0.01
LINE = "epoch 3 of 90, step 1024: loss 0.2512, accuracy 0.7519, 812 images a second"
ENTRIES = tuple(LogEntry(timestamp=NOW, log=LINE, stdtype="stdout") for _ in range(BATCH_LINES))
LINES_BUDGET, COMMIT_BUDGET_MS = 50_000, 20.0

TRIALS, FOLLOWERS, LINES_A_SECOND, SECONDS = sized((40, 200, 10, 20), (2, 4, 2, 1))
FOLLOW_BUDGET = 0.5
"""Of a core."""


async def stored() -> tuple[float, float, float]:
    """Lines in a second of the clock, and in one of CPU; and the 99th percentile of commits, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/windlass.db"
        store = await Store.open(url, clock=ManualClock(NOW))
        logs = await LogStore.open(url)
        await store.take_lease("bench")
        writing = [asyncio.create_task(store.run()), asyncio.create_task(logs.run())]
        try:
            unit = with_project()
            unit.insert(tables.Experiment, experiment(1))
            unit.insert(tables.Trial, trial(1))
            await store.commit(unit)
            commits: list[float] = []
            committing = asyncio.create_task(_commit(store, commits))
            begun, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(_ship(logs, number) for number in range(CONTAINERS)))
            lines = CONTAINERS * BATCHES * BATCH_LINES
            by_clock = lines / (time.perf_counter() - begun)
            by_cpu = lines / (time.process_time() - cpu)
            committing.cancel()
            commits.sort()
            return by_clock, by_cpu, 1000 * commits[int(len(commits) * 0.99)] if commits else 0.0
        finally:
            for one in writing:
                one.cancel()
            await asyncio.gather(*writing, return_exceptions=True)
            await store.close()
            await logs.close()


async def _ship(logs: LogStore, number: int) -> None:
    """Batches of one container, each after the one before is stored."""
    length = BATCH_LINES * (len(LINE) + 40)
    for batch in range(BATCHES):
        offset = await logs.ingest(
            LogBatch(
                container_id=f"c{number}",
                allocation_id=f"t{number}.1",
                task_id=f"t{number}",
                agent_id="agent",
                first_offset=batch * length,
                next_offset=(batch + 1) * length,
                entries=ENTRIES,
            )
        )
        assert offset == (batch + 1) * length


async def _commit(store: Store, took: list[float]) -> None:
    while True:
        unit = UnitOfWork()
        unit.update(tables.Trial, {"id": 1}, {"steps_completed": len(took)})
        begun = time.perf_counter()
        await store.commit(unit)
        took.append(time.perf_counter() - begun)
        await asyncio.sleep(COMMIT_EVERY_S)


async def followed() -> tuple[float, float]:
    """Parts of a core of the master without and with followers."""
    async with running_trials(TRIALS) as running:
        alone = await _part_of_core(running, [])
        counts = [0] * FOLLOWERS
        following = [
            asyncio.create_task(_follow(running, running.trials[at % TRIALS], counts, at))
            for at in range(FOLLOWERS)
        ]
        try:
            while not all(counts):
                await _write(running, seconds=1)
                if any(one.done() for one in following):
                    raise RuntimeError("the master ended a log that is followed")
            busy = await _part_of_core(running, counts)
        finally:
            for one in following:
                one.cancel()
            await asyncio.gather(*following, return_exceptions=True)
        return alone, busy


async def _part_of_core(running: Running, counts: list[int]) -> float:
    """By the seconds that the lines are for: where all is slower, they take longer. All of them have come."""
    before, cpu = list(counts), cpu_s(running.master)
    await _write(running, seconds=SECONDS)
    due = SECONDS * LINES_A_SECOND
    while any(count - first < due for count, first in zip(counts, before, strict=True)):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return (cpu_s(running.master) - cpu) / SECONDS


async def _write(running: Running, *, seconds: int) -> None:
    """Every trial its lines of a second at once, a second long at least."""
    connections = [Http() for _ in running.trials]
    try:
        for _ in range(seconds):
            due = time.perf_counter() + 1.0
            posts = zip(connections, running.trials, strict=True)
            await asyncio.gather(*(_post(running, http, trial) for http, trial in posts))
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
    finally:
        for http in connections:
            http.close()


async def _post(running: Running, http: Http, of: Trial) -> None:
    body = {"logs": [{"taskId": _task(of), "log": f"{LINE}\n"}] * LINES_A_SECOND}
    post = ("POST", "/api/v1/task/logs", of.token, orjson.dumps(body))
    try:
        status, answer = await http.ask(running.load.address, *post)
    except ConnectionResetError:  # idle for too long, on a busy machine
        status, answer = await http.ask(running.load.address, *post)
    if status != 200:
        raise RuntimeError(f"HTTP {status}: {answer[:300]!r}")


def _task(of: Trial) -> str:
    return of.allocation_id.rpartition(".")[0]


async def _follow(running: Running, of: Trial, counts: list[int], at: int) -> None:
    """Counts the lines that come."""
    reader, writer = await asyncio.open_connection(*running.load.address)
    try:
        writer.write(
            f"GET /api/v1/tasks/{quote(_task(of))}/logs?follow=true HTTP/1.1\r\nHost: master\r\n"
            f"Authorization: Bearer {running.admin}\r\n\r\n".encode()
        )
        while piece := await reader.read(65536):
            counts[at] += piece.count(b'{"result"')
    finally:
        writer.close()


def main() -> int:
    arguments(__doc__).parse_args()
    print_calibration()
    slower = loop_s() / REFERENCE_S
    by_clock, by_cpu, commit_ms = asyncio.run(stored())
    print(
        f"{by_clock:.0f} lines a second stored, {by_cpu:.0f} a second of CPU; where budgets are for: "
        f"{by_clock * slower:.0f} and {by_cpu * slower:.0f}, budget {LINES_BUDGET}"
    )
    print(f"  commits meanwhile: 99 % within {commit_ms:.1f} ms, budget {COMMIT_BUDGET_MS:g} ms")
    alone, busy = asyncio.run(followed())
    print(
        f"{FOLLOWERS} followers of {TRIALS} trials, {LINES_A_SECOND} lines a second each: {busy:.2f} of a core, "
        f"{alone:.2f} without them; where budgets are for: {busy / slower:.2f}, budget {FOLLOW_BUDGET}"
    )
    return exit_code(
        by_clock * slower >= LINES_BUDGET
        and commit_ms <= COMMIT_BUDGET_MS
        and busy / slower <= FOLLOW_BUDGET
    )


if __name__ == "__main__":
    sys.exit(main())
