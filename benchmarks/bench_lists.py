"""What a person waits for who looks: 10,000 experiments listed, one of 2,000 trials described, both by `det`.

    python -m benchmarks.bench_lists

A real master on SQLite; each command a process of its own, from its start to its end, of a user who has logged in. The
budget is one second for each. The peer is the same command where there is one experiment with one trial. On a machine
with other work the CPU seconds of command and master say more than what the clock does.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import print_calibration
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.fakes.stored_rows import NOW, experiment, trial
from tests.real_cluster import RealCluster
from windlass.base.clock import ManualClock

EXPERIMENTS, TRIALS, USERS = sized((10_000, 2_000, 10_000), (20, 10, 20))
BUDGET_S = 1.0
AT_ONCE = 500
OF_USERS = 10
"""Id of the first one: there are others already."""
ROUNDS = sized(5, 1)


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


class Took(NamedTuple):
    """One command. Times in seconds: by the clock, and of CPU."""

    clock: float
    det: float
    master: float
    lines: int


def run(cluster: RealCluster, words: tuple[str, ...], env: dict[str, str]) -> Took:
    master = psutil.Process(cluster.master_pid)
    before, before_master, begun = os.times(), master.cpu_times(), time.perf_counter()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("det")), *words],
        env={**os.environ, **env},
        check=True,
        stdout=subprocess.PIPE,
    )
    clock, after, after_master = time.perf_counter() - begun, os.times(), master.cpu_times()
    return Took(
        clock=clock,
        det=after.children_user
        + after.children_system
        - before.children_user
        - before.children_system,
        master=after_master.user + after_master.system - before_master.user - before_master.system,
        lines=done.stdout.count(b"\n"),
    )


COMMANDS = (("experiment", "list", "--all"), ("experiment", "describe", "1"), ("user", "list"))


def measure(experiments: int, trials: int, users: int) -> dict[tuple[str, ...], Took]:
    pools = {"resource_pools": [{"pool_name": "default"}]}
    with (
        tempfile.TemporaryDirectory() as folder,
        RealCluster(Path(folder), pools) as cluster,
    ):
        cluster.stop_master()
        asyncio.run(fill(cluster.data_dir / "windlass.db", experiments, trials, users))
        cluster.start_master()
        env = {
            "HOME": str(cluster.folder),
            "DET_MASTER": cluster.url,
            "DET_USER": "determined",
            "DET_USER_TOKEN": str(cluster.client.session.token),
        }
        return {
            words: min((run(cluster, words, env) for _ in range(ROUNDS)), key=lambda t: t.clock)
            for words in COMMANDS
        }


def main() -> int:
    arguments(__doc__).parse_args()
    print_calibration()
    few, many = measure(1, 1, 1), measure(EXPERIMENTS, TRIALS, USERS)
    print(f"{EXPERIMENTS} experiments, one of {TRIALS} trials; budget {BUDGET_S} s for a command")
    for words, took in many.items():
        print(
            f"  det {' '.join(words):24} {took.clock:6.2f} s; CPU: det {took.det:.2f} s, master {took.master:.2f} s; "
            f"{took.lines} lines; {took.clock / few[words].clock:.1f} x one of one"
        )
    return exit_code(max(took.clock for took in many.values()) <= BUDGET_S)


if __name__ == "__main__":
    sys.exit(main())
