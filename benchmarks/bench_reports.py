"""How many metric reports a second the store takes alone, and a real master over HTTP.

Training code waits for the commit of each report; 64 wait at the same time. Budgets: 5,000 a second into the store and
1,200 over HTTP. The master has a core of its own; where other work shares it, a second of CPU says more than one of the
clock.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator

import orjson

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.bench_scale import cpu_s
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from benchmarks.running_trials import running_trials
from benchmarks.scale_load import Http, Load, Trial
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.fakes.stored_rows import NOW, experiment, trial, with_project
from windlass.base.clock import ManualClock

REPORTERS = sized(64, 4)
REPORTS = sized(50_000, 40)
"""Into the store."""
SECONDS = sized(15.0, 0.5)
"""Over HTTP."""
STORE_BUDGET, HTTP_BUDGET = 5_000, 1_200


async def into_store() -> tuple[float, float]:
    """Reports in a second of the clock, and in one of CPU."""
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(f"sqlite:///{folder}/windlass.db", clock=ManualClock(NOW))
        await store.take_lease("bench")
        writing = asyncio.create_task(store.run())
        try:
            await store.commit(_an_experiment())
            left = iter(range(REPORTS))
            begun, cpu = time.perf_counter(), time.process_time()
            async with asyncio.TaskGroup() as group:
                for number in range(1, REPORTERS + 1):
                    group.create_task(_commit(store, number, left))
            return (
                REPORTS / (time.perf_counter() - begun),
                REPORTS / (time.process_time() - cpu),
            )
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await store.close()


def _an_experiment() -> UnitOfWork:
    unit = with_project()
    unit.insert(tables.Experiment, experiment(1))
    unit.insert(tables.Trial, *map(trial, range(1, REPORTERS + 1)))
    return unit


async def _commit(store: Store, trial_id: int, steps: Iterator[int]) -> None:
    """What a report of training metrics writes: its row, and what its trial derives from all of them."""
    stats = {"type": "number", "count": 9, "sum": 4.5, "mean": 0.5, "max": 1, "min": 0, "last": 0.5}
    averages = {"loss": 0.25, "accuracy": 0.5}
    summary = {"avg_metrics": dict.fromkeys(averages, stats)}
    for step in steps:
        unit = UnitOfWork()
        unit.insert(
            tables.Metric,
            {
                "id": step + 1,
                "trial_id": trial_id,
                "run_id": 1,
                "group": "training",
                "steps": step,
                "metrics": {"avg_metrics": averages, "batch_metrics": None},
                "archived": False,
                "reported_at": NOW,
            },
        )
        changed = {"steps_completed": step, "summary_metrics": summary, "metric_groups": {}}
        unit.update(tables.Trial, {"id": trial_id}, changed, expect=1)
        await store.commit(unit)


async def over_http() -> tuple[float, float]:
    """Reports in a second of the clock, and in one of the master's CPU."""
    async with running_trials(REPORTERS) as running:
        begun, cpu = time.perf_counter(), cpu_s(running.master)
        until = begun + SECONDS
        counts = await asyncio.gather(
            *(_report(running.load, trial, until) for trial in running.trials)
        )
        return (
            sum(counts) / (time.perf_counter() - begun),
            sum(counts) / (cpu_s(running.master) - cpu),
        )


async def _report(load: Load, of: Trial, until: float) -> int:
    """One report after the other; how many there were."""
    http, count = Http(), 0
    try:
        while time.perf_counter() < until:
            of.steps += 1
            report = {
                "trialId": of.trial_id,
                "trialRunId": of.run_id,
                "stepsCompleted": of.steps,
                "metrics": {"avgMetrics": {"loss": 1.0 / of.steps, "accuracy": 0.5}},
            }
            status, answer = await http.ask(
                load.address,
                "POST",
                f"/api/v1/trials/{of.trial_id}/metrics",
                of.token,
                orjson.dumps({"group": "training", "metrics": report}),
            )
            if status != 200:
                raise RuntimeError(f"HTTP {status}: {answer[:300]!r}")
            count += 1
    finally:
        http.close()
    return count


def main() -> int:
    arguments(__doc__).parse_args()
    print_calibration()
    slower = loop_s() / REFERENCE_S
    within = True
    for name, measure, budget in (
        ("into the store", into_store, STORE_BUDGET),
        ("over HTTP", over_http, HTTP_BUDGET),
    ):
        by_clock, by_cpu = asyncio.run(measure())
        within &= by_clock * slower >= budget
        print(
            f"{name:15} {by_clock:7.0f} reports a second, {by_cpu:7.0f} a second of CPU; "
            f"where budgets are for: {by_clock * slower:.0f} and {by_cpu * slower:.0f}, budget {budget}"
        )
    return exit_code(within)


if __name__ == "__main__":
    sys.exit(main())
