"""What a person waits for who looks: 10,000 experiments listed, one of 2,000 trials described, by `det`.

And the same where roles decide: of 1,000 workspaces the user sees 300, and those 10,000 experiments of 20,000; 1,000
workspaces listed by an administrator, and 10,000 users.

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
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import print_calibration, slower
from master.core.roles.catalogue import RoleId
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.fakes.stored_rows import NOW, experiment, trial
from tests.real_cluster import RealCluster
from windlass.base.clock import ManualClock

EXPERIMENTS, TRIALS, USERS = sized((10_000, 2_000, 10_000), (20, 10, 20))
WORKSPACES, SEEN = sized((1_000, 300), (10, 3))
FIRST_WORKSPACE = 10
BUDGET_S = 1.0
AT_ONCE = 500
OF_USERS = 10
"""Id of the first one: there are others already."""
ROUNDS = sized(5, 1)


def user(id_: int) -> dict[str, Any]:
    times = {"created_at": NOW, "modified_at": NOW}
    return {"id": id_, "username": f"user-{id_}", "display_name": f"User {id_}", **times}


def in_workspaces() -> Iterator[UnitOfWork]:
    """As many experiments again where the user does not look; the others are moved to where he does."""
    ids = range(FIRST_WORKSPACE, FIRST_WORKSPACE + WORKSPACES)
    names = [(id_, f"workspace {id_}") for id_ in ids]
    unit = UnitOfWork()
    unit.insert(
        tables.Workspace,
        *({"id": id_, "name": n, "name_key": tables.name_key(n), "user_id": 1} for id_, n in names),
    )
    unit.insert(
        tables.Project,
        *(
            {
                "id": id_,
                "workspace_id": id_,
                "name": n,
                "name_key": tables.name_key(n),
                "user_id": 1,
            }
            for id_, n in names
        ),
    )
    unit.insert(
        tables.RoleAssignment,
        *(
            {"id": 10 + id_, "role_id": int(RoleId.VIEWER), "workspace_id": id_, "user_id": 2}
            for id_ in ids[:SEEN]
        ),
    )
    yield unit
    hidden = ids[SEEN:]
    for first in range(1, 2 * EXPERIMENTS, AT_ONCE):
        unit = UnitOfWork()
        for id_ in range(first, min(first + AT_ONCE, 2 * EXPERIMENTS + 1)):
            if id_ <= EXPERIMENTS:
                project = {"project_id": ids[id_ % SEEN]}
                unit.update(tables.Experiment, {"id": id_}, project)
            else:
                project = {"project_id": hidden[id_ % len(hidden)]}
                unit.insert(tables.Experiment, {**experiment(id_), **project})
        yield unit


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


async def fill(file: Path, work: Iterable[UnitOfWork]) -> None:
    store = await Store.open(f"sqlite:///{file}", clock=ManualClock(NOW))
    await store.take_lease("bench")
    writing = asyncio.create_task(store.run())
    try:
        for unit in work:
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


COMMANDS = (
    ("experiment", "list", "--all"),
    ("experiment", "describe", "1"),
    ("user", "list"),
    ("workspace", "list"),
)
OF_ADMINISTRATORS = ("workspace", "list")


def measure(work: Iterable[UnitOfWork], *, roles: bool = False) -> dict[tuple[str, ...], Took]:
    authz = {"security": {"authz": {"type": "rbac"}}} if roles else {}
    settings = {"resource_pools": [{"pool_name": "default"}], **authz}
    with (
        tempfile.TemporaryDirectory() as folder,
        RealCluster(Path(folder), settings) as cluster,
    ):
        cluster.stop_master()
        asyncio.run(fill(cluster.data_dir / "windlass.db", work))
        cluster.start_master()
        with cluster.session() as session:
            tokens = {
                name: session.login(name, cluster.password) for name in ("determined", "admin")
            }
        env = {"HOME": str(cluster.folder), "DET_MASTER": cluster.url}

        def fastest(words: tuple[str, ...]) -> Took:
            name = "admin" if words == OF_ADMINISTRATORS else "determined"
            who = {**env, "DET_USER": name, "DET_USER_TOKEN": tokens[name]}
            return min((run(cluster, words, who) for _ in range(ROUNDS)), key=lambda t: t.clock)

        return {words: fastest(words) for words in COMMANDS}


def main() -> int:
    arguments(__doc__).parse_args()
    print_calibration()
    few, many = measure(units(1, 1, 1)), measure(units(EXPERIMENTS, TRIALS, USERS))
    with_roles = measure(
        chain(units(EXPERIMENTS, TRIALS, USERS), in_workspaces()),
        roles=True,
    )
    print(f"{EXPERIMENTS} experiments, one of {TRIALS} trials; budget {BUDGET_S} s for a command")
    _show(many, few)
    print(f"with roles: {SEEN} of {WORKSPACES} workspaces seen, {2 * EXPERIMENTS} experiments")
    _show(with_roles, few)
    slowest = max(took.clock for took in chain(many.values(), with_roles.values()))
    there = slowest / slower()
    print(f"the slowest: {slowest:.2f} s, {there:.2f} s where budgets are for")
    return exit_code(there <= BUDGET_S)


def _show(found: dict[tuple[str, ...], Took], few: dict[tuple[str, ...], Took]) -> None:
    for words, took in found.items():
        print(
            f"  det {' '.join(words):24} {took.clock:6.2f} s; CPU: det {took.det:.2f} s, master {took.master:.2f} s; "
            f"{took.lines} lines; {took.clock / few[words].clock:.1f} x one of one"
        )


if __name__ == "__main__":
    sys.exit(main())
