"""One seed from beginning to end: two searches on two pools, faults in between, and everything over at the end."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.virtual_time import run
from tests.simulation.faults import Fault, draw_faults
from tests.simulation.process import processes
from tests.simulation.training import METRIC, TIME_METRIC
from tests.simulation.world import ELASTIC, MAX_INSTANCES, RACK, World

LIMIT_S = 6 * 3600.0
"""Virtual seconds after which a simulation is believed to hang."""
SEARCH_SEEDS = 4
"""So many different searches; each has one quiet run to compare with."""
RANDOM_TRIALS = 6
ASHA_TRIALS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnd:
    """What a search is compared by."""

    request_id: str
    hparams: Mapping[str, Any]
    state: str
    metrics: tuple[tuple[str, int, float], ...]
    """(group, steps, loss) of every report that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnd:
    name: str
    state: str
    config: Mapping[str, Any]
    trials: tuple[TrialEnd, ...]
    events: tuple[tuple[Any, Any], ...]
    """(event, actions) as JSON, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    seed: int
    faults: tuple[Fault, ...]
    searches: tuple[SearchEnd, ...]
    trace: tuple[str, ...]
    virtual_s: float
    commits: int
    masters: int


def searches_of(seed: int, *, slots: int, max_restarts: int) -> list[str]:
    """The same `seed % SEARCH_SEEDS` is the same two searches; `slots` are those of a trial of the first one."""
    space = {"learning_rate": {"type": "double", "minval": 0.0, "maxval": 1.0}}
    common = {
        "entrypoint": "python3 train.py",
        "max_restarts": max_restarts,
        "reproducibility": {"experiment_seed": 100 + seed % SEARCH_SEEDS},
    }
    metric = {"metric": METRIC, "smaller_is_better": True}
    plain = {
        **common,
        "name": "random",
        "hyperparameters": {**space, "epochs": 6},
        "searcher": {
            "name": "random",
            "max_trials": RANDOM_TRIALS,
            "max_concurrent_trials": 4,
            **metric,
        },
        "resources": {"slots_per_trial": slots, "resource_pool": ELASTIC},
    }
    asha = {
        **common,
        "name": "asha",
        "hyperparameters": {**space, "epochs": 9},
        "searcher": {
            "name": "async_halving",
            "max_trials": ASHA_TRIALS,
            "max_concurrent_trials": 5,
            "max_time": 9,
            "time_metric": TIME_METRIC,
            "num_rungs": 3,
            "divisor": 3,
            **metric,
        },
        "resources": {
            "slots_per_trial": 1,
            "resource_pool": RACK if seed % 3 == 0 else ELASTIC,
        },
    }
    return [yaml.safe_dump(plain), yaml.safe_dump(asha)]


def simulate(seed: int, folder: Path, *, quiet: bool = False) -> Outcome:
    """Run one seed. Raises what was violated."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return run(_simulate(seed, folder, quiet=quiet), limit_s=LIMIT_S)


async def _simulate(seed: int, folder: Path, *, quiet: bool) -> Outcome:
    rng = random.Random(f"scenario {seed}")
    slots = rng.choice((1, 1, 2, 4))
    faults = () if quiet else draw_faults(rng)
    # No more than what programs fail by themselves: a lost machine must not count.
    max_restarts = sum(fault.kind == "task failed" for fault in faults)
    with processes():
        async with asyncio.TaskGroup() as tasks:
            world = World(seed, folder, tasks)
            try:
                watching = tasks.create_task(world.invariants.watch(MAX_INSTANCES))
                supervising = tasks.create_task(world.supervise())
                await world.start_rack(2)
                for config in searches_of(seed, slots=slots, max_restarts=max_restarts):
                    await world.submit(config)
                carried_out = [tasks.create_task(fault.strike(world)) for fault in faults]
                await _until(world, _searches_are_over)
                await asyncio.gather(*carried_out)
                await _until(world, _nothing_is_left)
                outcome = Outcome(
                    seed=seed,
                    faults=faults,
                    searches=tuple(_read_searches(world)),
                    trace=tuple(world.trace),
                    virtual_s=asyncio.get_running_loop().time(),
                    commits=world.invariants.commits,
                    masters=world.generation,
                )
                await world.end(supervising)
                watching.cancel()
            finally:
                world.invariants.close()
    world.invariants.check()
    return outcome


async def _until(world: World, reached: Callable[[World], bool]) -> None:
    while not reached(world):
        world.invariants.check()
        await asyncio.sleep(1.0)


def _searches_are_over(world: World) -> bool:
    ends = world.invariants.query(
        "SELECT count(*) FROM experiment WHERE state IN ('COMPLETED', 'CANCELED', 'ERROR')"
    )
    return ends == [(2,)]


def _nothing_is_left(world: World) -> bool:
    """No run, no container, no machine that was launched, and no record that says otherwise."""
    (runs,) = world.invariants.query("SELECT count(*) FROM allocation WHERE is_open")
    (machines,) = world.invariants.query("SELECT count(*) FROM fleetinstance WHERE NOT gone")
    containers = any(agent.containers for agent in world.agents.values())
    return runs == machines == (0,) and not containers and not world.provider.living()


def _read_searches(world: World) -> list[SearchEnd]:
    query = world.invariants.query
    ends = []
    for id_, name, state, config in query(
        "SELECT id, name, state, config FROM experiment ORDER BY id"
    ):
        trials = query(
            "SELECT id, request_id, hparams, state FROM trial WHERE experiment_id = ? ORDER BY id",
            id_,
        )
        events = query(
            "SELECT event, actions FROM searcherevent WHERE experiment_id = ? ORDER BY seq", id_
        )
        ends.append(
            SearchEnd(
                name=name,
                state=state,
                config=json.loads(config),
                trials=tuple(
                    TrialEnd(
                        request_id=request_id,
                        hparams=json.loads(hparams),
                        state=trial_state,
                        metrics=tuple(_metrics_of(world, trial_id)),
                    )
                    for trial_id, request_id, hparams, trial_state in trials
                ),
                events=tuple((json.loads(event), json.loads(actions)) for event, actions in events),
            )
        )
    return ends


def _metrics_of(world: World, trial_id: int) -> list[tuple[str, int, float]]:
    rows = world.invariants.query(
        'SELECT "group", steps, metrics FROM metric WHERE trial_id = ? AND NOT archived '
        'ORDER BY steps, "group", id',
        trial_id,
    )
    return [
        (group, steps, json.loads(metrics)["avg_metrics"][METRIC]) for group, steps, metrics in rows
    ]
