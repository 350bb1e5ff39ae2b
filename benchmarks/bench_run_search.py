"""What it takes to find runs among 100,000 by three conditions, sorted: SQLite, one page of 50, with the total.

The runs are of 1,000 experiments; each has ten hyperparameters and ten metrics. The budget is one second for a search.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import print_calibration, slower
from master.core.visibility import EVERYTHING
from master.experiments.finding.columns import Table
from master.experiments.finding.filters import parse_filter
from master.experiments.finding.queries import Finder, Search
from master.experiments.finding.sorts import parse_sorts
from master.store import tables
from master.store.paging import Page
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import ManualClock

RUNS, EXPERIMENTS = sized((100_000, 1_000), (200, 10))
NOW = datetime(2026, 11, 1, tzinfo=UTC)
BUDGET_S = 1.0
AT_ONCE = 1_000


def _field(column: str, operator: str, value: object, location: str = "") -> dict[str, object]:
    where = location and f"LOCATION_TYPE_{location}"
    return {
        "kind": "field",
        "columnName": column,
        "operator": operator,
        "value": value,
        "location": where,
    }


SEARCHES = {
    "state, a hyperparameter and a metric": (
        _field("state", "=", "COMPLETED"),
        _field("hp.h3", "<", 0.5, "RUN_HYPERPARAMETERS"),
        _field("validation.m3.min", ">", 0.25, "VALIDATIONS"),
    ),
    "a name, metadata and a searcher metric": (
        _field("experimentName", "contains", "7"),
        _field("metadata.site", "=", "east", "RUN_METADATA"),
        _field("searcherMetricsVal", "<", 0.5),
    ),
    "three metrics": tuple(
        _field(f"validation.m{n}.last", ">", 0.1, "VALIDATIONS") for n in range(3)
    ),
}


def _experiment(id_: int) -> dict[str, Any]:
    space = {f"h{n}": {"type": "double", "minval": 0, "maxval": 1} for n in range(10)}
    filler = {f"option-{n}": "x" * 40 for n in range(60)}
    return {
        "id": id_,
        "job_id": f"job-{id_}",
        "owner_id": 1,
        "project_id": 1,
        "state": "COMPLETED",
        "name": f"experiment {id_}",
        "labels": [],
        "config": {"searcher": {"name": "random"}, "hyperparameters": space, "rest": filler},
        "model_files": [],
        "created_at": NOW,
    }


def _trial(id_: int) -> dict[str, Any]:
    part = (id_ * 7919 % 1000) / 1000
    stats = {"type": "number", "count": 9, "sum": 9 * part, "mean": part, "max": part}
    metrics = {f"m{n}": {**stats, "min": part, "last": part} for n in range(10)}
    return {
        "id": id_,
        "experiment_id": id_ % EXPERIMENTS + 1,
        "request_id": f"r{id_}",
        "task_id": f"t{id_}",
        "state": "COMPLETED" if id_ % 3 else "ERROR",
        "hparams": {f"h{n}": part for n in range(10)},
        "seed": id_,
        "avoids": [],
        "searcher_metric": part,
        "summary_metrics": {"validation_metrics": metrics},
        "metric_groups": {},
        "run_metadata": {"site": "east" if id_ % 2 else "west"},
        "created_at": NOW,
    }


def _units() -> Iterator[UnitOfWork]:
    first = UnitOfWork()
    now = {"created_at": NOW, "modified_at": NOW}
    first.insert(tables.User, {"id": 1, "username": "ann", **now})
    first.insert(tables.Workspace, {"id": 1, "name": "w", "user_id": 1})
    first.insert(tables.Project, {"id": 1, "workspace_id": 1, "name": "p", "user_id": 1})
    first.insert(tables.Experiment, *map(_experiment, range(1, EXPERIMENTS + 1)))
    yield first
    for start in range(1, RUNS + 1, AT_ONCE):
        unit = UnitOfWork()
        unit.insert(tables.Trial, *map(_trial, range(start, min(start + AT_ONCE, RUNS + 1))))
        yield unit


async def main() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(f"sqlite:///{folder}/windlass.db", clock=ManualClock(NOW))
        await store.take_lease("bench")
        writing = asyncio.create_task(store.run())
        try:
            for unit in _units():
                await store.commit(unit)
            slowest = await _measure(Finder(store))
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await store.close()
    there = slowest / slower()
    print(f"  the slowest: {slowest:.2f} s, {there:.2f} s where budgets are for")
    return there <= BUDGET_S


async def _measure(finder: Finder) -> float:
    """Seconds of the slowest search."""
    slowest = 0.0
    print(f"{RUNS} runs of {EXPERIMENTS} experiments, budget {BUDGET_S} s for a search")
    for name, conditions in SEARCHES.items():
        group = {"kind": "group", "conjunction": "and", "children": conditions}
        search = Search(
            filter=parse_filter(json.dumps({"filterGroup": group}), Table.RUNS),
            sorts=parse_sorts("validation.m0.last=desc", Table.RUNS),
            project_id=1,
        )
        begun = time.perf_counter()
        found = await finder.run_page(search, Page(limit=50), NOW, EVERYTHING)
        took = time.perf_counter() - begun
        slowest = max(slowest, took)
        print(f"  {name:40} {took:6.3f} s   {found.total} found")
    return slowest


if __name__ == "__main__":
    arguments(__doc__).parse_args()
    print_calibration()
    sys.exit(exit_code(asyncio.run(main())))
