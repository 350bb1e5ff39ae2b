"""What a person waits for who looks: 10,000 experiments listed, one of 2,000 trials described, 10,000 users listed.

    python -m benchmarks.bench_lists

A real master on SQLite, asked by `det`; each command a process of its own, from its start to its end. The budget is one
second for each. The peer is the same command where there is one experiment with one trial, and one user more than the
first two.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import print_calibration
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.real_cluster import RealCluster
from windlass.base.clock import ManualClock

EXPERIMENTS, TRIALS, USERS = sized((10_000, 2_000, 10_000), (20, 10, 20))
NOW = datetime(2026, 11, 1, tzinfo=UTC)
BUDGET_S = 1.0
AT_ONCE = 500
OF_USERS = 10
"""Id of the first one: there are others already."""
ROUNDS = sized(5, 1)


def experiment(id_: int) -> dict[str, Any]:
    config = {
        "name": f"experiment {id_}",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "random", "metric": "loss", "max_trials": TRIALS},
        "hyperparameters": {
            f"h{n}": {"type": "double", "minval": 0, "maxval": 1} for n in range(10)
        },
        "resources": {"resource_pool": "default", "slots_per_trial": 1},
        "rest": {f"option-{n}": "x" * 40 for n in range(60)},
    }
    return {
        "id": id_,
        "job_id": f"job-{id_}",
        "owner_id": 2,
        "project_id": 1,
        "state": "COMPLETED",
        "name": f"experiment {id_}",
        "labels": [],
        "config": config,
        "model_files": [],
        "created_at": NOW,
        "ended_at": NOW,
    }


def trial(id_: int) -> dict[str, Any]:
    stats = {"type": "number", "count": 9, "sum": 4.5, "mean": 0.5, "max": 1, "min": 0, "last": 0.5}
    return {
        "id": id_,
        "experiment_id": 1,
        "request_id": f"r{id_}",
        "task_id": f"t{id_}",
        "state": "COMPLETED",
        "hparams": {f"h{n}": id_ / TRIALS for n in range(10)},
        "seed": id_,
        "avoids": [],
        "searcher_metric": id_ / TRIALS,
        "summary_metrics": {"validation_metrics": {f"m{n}": stats for n in range(10)}},
        "metric_groups": {},
        "created_at": NOW,
        "ended_at": NOW,
    }


def user(id_: int) -> dict[str, Any]:
    times = {"created_at": NOW, "modified_at": NOW}
    return {"id": id_, "username": f"user-{id_}", "display_name": f"User {id_}", **times}


def units(experiments: int, trials: int, users: int) -> Iterator[UnitOfWork]:
    for make, table, first, count in (
        (experiment, tables.Experiment, 1, experiments),
        (trial, tables.Trial, 1, trials),
        (user, tables.User, OF_USERS, users),
    ):
        end = first + count
        for start in range(first, end, AT_ONCE):
            unit = UnitOfWork()
            unit.insert(table, *map(make, range(start, min(start + AT_ONCE, end))))
            yield unit


async def fill(file: Path, experiments: int, trials: int, users: int) -> None:
    store = await Store.open(f"sqlite:///{file}", clock=ManualClock(NOW))
    await store.take_lease("bench")
    writing = asyncio.create_task(store.run())
    try:
        for unit in units(experiments, trials, users):
            await store.commit(unit)
        await store.give_back_lease()
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await store.close()


def waits(cluster: RealCluster, words: tuple[str, ...]) -> tuple[float, int]:
    """Seconds, and the lines that it printed."""
    home = {"HOME": str(cluster.folder), "DET_MASTER": cluster.url, **cluster.login_as()}
    took, lines = [], 0
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        done = subprocess.run(
            [str(Path(sys.executable).with_name("det")), *words],
            env={**os.environ, **home},
            check=True,
            stdout=subprocess.PIPE,
        )
        took.append(time.perf_counter() - begun)
        lines = done.stdout.count(b"\n")
    return statistics.median(took), lines


COMMANDS = (("experiment", "list", "--all"), ("experiment", "describe", "1"), ("user", "list"))


def measure(experiments: int, trials: int, users: int) -> dict[tuple[str, ...], tuple[float, int]]:
    pools = {"resource_pools": [{"pool_name": "default"}]}
    with (
        tempfile.TemporaryDirectory() as folder,
        RealCluster(Path(folder), pools) as cluster,
    ):
        cluster.stop_master()
        asyncio.run(fill(cluster.data_dir / "windlass.db", experiments, trials, users))
        cluster.start_master()
        return {words: waits(cluster, words) for words in COMMANDS}


def main() -> int:
    arguments(__doc__).parse_args()
    print_calibration()
    few, many = measure(1, 1, 1), measure(EXPERIMENTS, TRIALS, USERS)
    print(
        f"{EXPERIMENTS} experiments, one of {TRIALS} trials; {USERS} users; budget {BUDGET_S} s for a command"
    )
    for words, (took, lines) in many.items():
        ratio = took / few[words][0]
        print(f"  det {' '.join(words):26} {took:6.2f} s, {lines} lines; {ratio:.1f} x one of one")
    return exit_code(max(took for took, _ in many.values()) <= BUDGET_S)


if __name__ == "__main__":
    sys.exit(main())
