"""A pool without capacity falls back to a rack: the master is killed at every step of a move, work is preempted there,
and its user moves it meanwhile. Nothing is granted twice or lost, and nothing moves to and fro.

More than the usual seeds: `WINDLASS_SIM_SEEDS=1000 pytest tests/simulation/test_falling_back.py`.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from master.core.fall_back import REST_S
from master.core.jobs import SetPool
from rm_backends import moves
from tests.fakes.actors import ADMIN
from tests.fakes.virtual_time import run
from tests.simulation.process import processes
from tests.simulation.scenario import LIMIT_S
from tests.simulation.training import METRIC
from tests.simulation.world import (
    CONFIG,
    ELASTIC,
    MAX_INSTANCES,
    OFFERS,
    RACK,
    World,
)
from windlass.base.errors import InvalidArgument, InvalidState

SEEDS = int(os.environ.get("WINDLASS_SIM_SEEDS", "21"))
FIRST_SEEDS = 7
STEPS = (
    "before withdraw",
    "after withdraw",
    "before request",
    "after request",
    "before the commit",
    "after the commit",
    "never",
)
"""Where the master is killed, as often as moves come by while the seed has kills left."""
MAX_SLOTS = 3
AGAIN_S = 2.0


def config() -> dict[str, Any]:
    elastic, rack = CONFIG["resource_pools"]
    falls_back = {"fall_back_to": [RACK], "fall_back_after": "10s"}
    scheduler = {"type": "priority", "preemption": True}
    return {
        **CONFIG,
        "resource_manager": {**CONFIG["resource_manager"], "scheduler": scheduler},
        "resource_pools": [{**elastic, **falls_back}, rack],
    }


def search(name: str, pool: str, *, trials: int, epochs: int, **resources: Any) -> str:
    return yaml.safe_dump(
        {
            "name": name,
            "entrypoint": "python3 train.py",
            "hyperparameters": {"learning_rate": 0.4, "epochs": epochs},
            "searcher": {"name": "random", "max_trials": trials, "metric": METRIC},
            "max_restarts": 0,
            "resources": {"slots_per_trial": 1, "resource_pool": pool, **resources},
            "reproducibility": {"experiment_seed": 1},
        }
    )


@dataclass
class Seen:
    """What was seen of all moves, over all masters."""

    world: World
    kills_left: int
    step: str
    kills: int = 0
    places: dict[str, tuple[int, str, float]] = field(default_factory=dict)
    """Request -> (master, pool, when it was first seen there)."""
    ages: dict[str, datetime] = field(default_factory=dict)
    """Request -> since when it asks."""
    away: set[str] = field(default_factory=set)
    """Runs that fell back."""
    made_home: set[str] = field(default_factory=set)
    """Those of them whose user moved the search to where they ran."""

    def kill(self) -> None:
        if self.kills_left > 0 and self.world.master is not None:
            self.kills_left -= 1
            self.kills += 1
            self.world.note(f"killed {self.step}")
            self.world.master.kill()

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self.look()

    def look(self) -> None:
        master = self.world.master
        services = master.services if master is not None else None
        if services is None:
            return
        broken, now = self.world.invariants.broken, asyncio.get_running_loop().time()
        queue = services.cluster
        entries = [entry for pool in queue.pools() for entry in queue.queue(pool)]
        ids = [entry.allocation_id for entry in entries]
        if len(set(ids)) < len(ids):
            broken.append(f"at {now:.1f} s: something is in two pools: {sorted(ids)}")
        held: dict[str, int] = {}
        for entry in entries:
            held[entry.job.id] = held.get(entry.job.id, 0) + sum(entry.placement.values())
            self._moved(entry.allocation_id, entry.pool, now)
            since = self.ages.setdefault(entry.allocation_id, entry.requested)
            if entry.requested != since:
                broken.append(f"at {now:.1f} s: {entry.allocation_id} has lost its age")
        for id_, state in services.allocations.open_states().items():
            if state.granted_pool is not None:
                self.away.add(id_)
            elif id_ in self.away and not state.preempt_requested:
                self.made_home.add(id_)
        for live in services.experiments.all_live():
            limit = live.state.settings.max_slots
            if limit is not None and held.get(live.job_id, 0) > limit:
                broken.append(f"at {now:.1f} s: a job holds {held[live.job_id]} of {limit} slots")

    def _moved(self, id_: str, pool: str, now: float) -> None:
        life = self.world.generation
        before = self.places.get(id_)
        if before is None or before[0] != life:
            self.places[id_] = (life, pool, float("-inf"))
        elif before[1] != pool:
            if now - before[2] < REST_S - 1.0:
                self.world.invariants.broken.append(f"at {now:.1f} s: {id_} moved twice")
            self.places[id_] = (life, pool, now)


@contextmanager
def killed_at(step: str, seen: Seen) -> Iterator[None]:
    """At that step of each move, as long as kills are left."""
    real = moves._repeat

    async def repeat(call: Callable[[], Awaitable[Any]], *rest: Any) -> Any:
        name = "withdraw" if "withdraw" in call.__code__.co_names else "request"
        if step == f"before {name}":
            seen.kill()
            await asyncio.sleep(0)
        answer = await real(call, *rest)
        if step == f"after {name}":
            seen.kill()
            await asyncio.sleep(0)
        if name == "request" and step.endswith("commit") and seen.kills_left > 0:
            seen.kills_left -= 1
            seen.kills += 1
            invariants = seen.world.invariants
            if step.startswith("before"):
                invariants.kill_before = invariants.commits + 1
            else:
                invariants.kill_after = invariants.allocation_commits + 1
        return answer

    with mock.patch.object(moves, "_repeat", repeat):
        yield


async def move_about(world: World, rng: random.Random) -> None:
    """The user moves the search into the pool where it runs, and perhaps back."""
    await asyncio.sleep(rng.uniform(10, 90))
    for pool in (RACK, ELASTIC)[: rng.randint(1, 2)]:

        async def change(services: Any, pool: str = pool) -> None:
            live = services.experiments.live(1)
            if live is not None:
                await live.change_job(SetPool(pool), by=ADMIN)

        with suppress(InvalidState, InvalidArgument):
            await world.eventually(change)
        await asyncio.sleep(rng.uniform(1, 40))


async def stock_outs(world: World, rng: random.Random) -> None:
    """Nothing can be launched, until the provider has some again for a while."""
    keys = {offer.key for offer in OFFERS}
    while True:
        for cloud in world.clouds.values():
            cloud.faults.stock_out = set(keys)
        await asyncio.sleep(rng.uniform(60, 200))
        for cloud in world.clouds.values():
            cloud.faults.stock_out = set()
        await asyncio.sleep(rng.uniform(5, 40))


@dataclass(frozen=True)
class End:
    states: list[str]
    fell_back: int
    made_home: int
    preempted_there: int
    kills: int
    reasons: frozenset[str]


async def simulate(seed: int, folder: Path) -> End:
    rng = random.Random(seed)
    with processes():
        async with asyncio.TaskGroup() as tasks:
            world = World(seed, folder, tasks, config())
            world.restart_after_s = rng.uniform(0.2, 5)
            step = STEPS[seed % len(STEPS)]
            seen = Seen(world, kills_left=rng.randint(1, 3), step=step)
            watching = [
                tasks.create_task(world.invariants.watch(MAX_INSTANCES)),
                tasks.create_task(seen.watch()),
                tasks.create_task(stock_outs(world, rng)),
            ]
            with killed_at(step, seen):
                try:
                    await asyncio.sleep(0)
                    world.start_master()
                    await world.start_rack(2)
                    await world.submit(
                        search("big", ELASTIC, trials=4, epochs=9, max_slots=MAX_SLOTS)
                    )
                    if rng.random() < 0.5:
                        watching.append(tasks.create_task(move_about(world, rng)))
                    await asyncio.sleep(rng.uniform(20, 60))
                    await world.submit(search("rival", RACK, trials=4, epochs=6, priority=1))
                    while not _is_over(world):
                        world.invariants.check()
                        await asyncio.sleep(AGAIN_S)
                    end = _end(world, seen)
                    await world.end()
                finally:
                    world.invariants.close()
                    for task in watching:
                        task.cancel()
    world.invariants.check()
    return end


def _is_over(world: World) -> bool:
    states = [row[0] for row in world.invariants.query("SELECT state FROM experiment")]
    [(runs,)] = world.invariants.query(
        "SELECT count(*) FROM allocation a JOIN trial t ON t.task_id = a.task_id WHERE a.is_open"
    )
    return runs == 0 and len(states) == 2 and set(states) <= {"COMPLETED", "ERROR", "CANCELED"}


def _end(world: World, seen: Seen) -> End:
    query = world.invariants.query
    rows = query("SELECT granted_pool, exit_reason FROM allocation")
    return End(
        states=[state for (state,) in query("SELECT state FROM experiment ORDER BY id")],
        fell_back=len(seen.away),
        made_home=len(seen.made_home),
        preempted_there=sum(there is not None and "preempted" in why for there, why in rows),
        kills=seen.kills,
        reasons=frozenset(world.invariants.reasons),
    )


ENDS: dict[int, End] = {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_work_that_falls_back_ends_as_it_should(seed: int, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir(mode=0o700)
    try:
        ENDS[seed] = end = run(simulate(seed, folder), limit_s=LIMIT_S)
        assert end.states == ["COMPLETED", "COMPLETED"]
    except BaseException as error:
        error.add_note(f"seed {seed}, killed {STEPS[seed % len(STEPS)]}")
        raise


@pytest.mark.slow
def test_the_seeds_show_what_they_are_for() -> None:
    """Otherwise they would prove little."""
    ends = [ENDS[seed] for seed in range(FIRST_SEEDS) if seed in ENDS]
    if len(ends) < FIRST_SEEDS:
        pytest.skip("runs after all of the seeds above, in one process")
    kills = [end.kills for seed, end in ENDS.items() if STEPS[seed % len(STEPS)] != "never"]
    assert sum(map(bool, kills)) > len(kills) / 2
    for what in ("fell_back", "made_home", "preempted_there"):
        assert any(getattr(end, what) for end in ends), what
    said = frozenset[str]().union(*(end.reasons for end in ends))
    assert any("it may start in resource pool 'rack' after 10s of this" in why for why in said)
