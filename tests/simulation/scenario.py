"""One seed from beginning to end: two searches, a third that its user ends, faults in between, nothing left after."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from master.experiments.service import ExperimentService
from tests.fakes.actors import DETERMINED
from tests.fakes.virtual_time import run
from tests.simulation.faults import STRIKES_UNTIL_S, Fault, draw_faults
from tests.simulation.process import processes
from tests.simulation.training import METRIC, TIME_METRIC
from tests.simulation.world import ELASTIC, MAX_INSTANCES, RACK, World

LIMIT_S = 6 * 3600.0
"""Virtual seconds after which a simulation is believed to hang."""
SEARCH_SEEDS = 4
"""So many different searches; each has one quiet run to compare with."""
RANDOM_TRIALS = 6
ASHA_TRIALS = 12
DOOMED = "doomed"


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
    launched: int
    """Machines that were ever made."""
    ends: tuple[str, ...]
    """Why each run of a trial ended, oldest first."""
    restarts: int
    """Runs that counted against max_restarts."""
    reasons: frozenset[str]
    """Everything that was said about waiting requests, as `kind: text`."""
    doomed: str | None
    """How the search ended that its user ended."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What a seed says before it runs."""

    rng: random.Random
    slots: int
    """Of a trial of the first search."""
    faults: tuple[Fault, ...]

    @classmethod
    def of(cls, seed: int) -> Draw:
        rng = random.Random(f"scenario {seed}")
        return cls(rng, slots=rng.choice((1, 1, 2, 4)), faults=draw_faults(rng))


def asha_pool(seed: int) -> str:
    return RACK if seed % 3 == 0 else ELASTIC


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
            "resource_pool": asha_pool(seed),
        },
    }
    return [yaml.safe_dump(plain), yaml.safe_dump(asha)]


def doomed_search() -> str:
    """A search that would take longer than all others: somebody will end it."""
    return yaml.safe_dump(
        {
            "name": DOOMED,
            "entrypoint": "python3 train.py",
            "hyperparameters": {"learning_rate": 0.5, "epochs": 1000},
            "searcher": {"name": "random", "max_trials": 2, "metric": METRIC},
            "resources": {"slots_per_trial": 1, "resource_pool": ELASTIC},
            "reproducibility": {"experiment_seed": 1},
        }
    )


async def _doom(world: World, experiment_id: int, rng: random.Random) -> None:
    """Its user kills it, or cancels it and lets it checkpoint."""
    end = rng.choice((ExperimentService.kill, ExperimentService.cancel))
    await asyncio.sleep(rng.uniform(1.0, STRIKES_UNTIL_S))
    world.note(f"user: {end.__name__}")
    await world.eventually(lambda services: end(services.experiments, experiment_id, by=DETERMINED))


def simulate(
    seed: int,
    folder: Path,
    *,
    faults: Sequence[Fault] | None = None,
    config: Mapping[str, Any] | None = None,
    searches: Sequence[str] | None = None,
) -> Outcome:
    """Run one seed, with its own faults, master.yaml and searches or the given ones. Raises what was violated."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return run(_simulate(seed, folder, faults, config, searches), limit_s=LIMIT_S)


async def _simulate(
    seed: int,
    folder: Path,
    given: Sequence[Fault] | None,
    config: Mapping[str, Any] | None,
    searches: Sequence[str] | None,
) -> Outcome:
    draw = Draw.of(seed)
    faults = draw.faults if given is None else tuple(given)
    # No more than what programs fail by themselves: a lost machine must not count.
    max_restarts = sum(fault.kind == "task failed" for fault in faults)
    with processes():
        async with asyncio.TaskGroup() as tasks:
            world = World(seed, folder, tasks, config)
            try:
                watching = tasks.create_task(world.invariants.watch(MAX_INSTANCES))
                world.start_master()
                await world.start_rack(2)
                own = searches_of(seed, slots=draw.slots, max_restarts=max_restarts)
                for search in own if searches is None else searches:
                    await world.submit(search)
                under_way = []
                if given is None:
                    doomed = await world.submit(doomed_search())
                    under_way.append(tasks.create_task(_doom(world, doomed, draw.rng)))
                under_way += [tasks.create_task(fault.strike(world)) for fault in faults]
                await asyncio.gather(*under_way)
                await _until(world, _searches_are_over)
                await _until(world, _nothing_is_left)
                outcome = _outcome(world, faults)
                await world.end()
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
    return world.invariants.query(
        "SELECT count(*) FROM experiment WHERE state NOT IN ('COMPLETED', 'CANCELED', 'ERROR')"
    ) == [(0,)]


def _nothing_is_left(world: World) -> bool:
    """No run, no container, no machine that was launched, and no record that says otherwise."""
    (runs,) = world.invariants.query("SELECT count(*) FROM allocation WHERE is_open")
    (machines,) = world.invariants.query("SELECT count(*) FROM fleetinstance WHERE NOT gone")
    containers = any(agent.containers for agent in world.agents.values())
    return runs == machines == (0,) and not containers and not world.living()


def _outcome(world: World, faults: tuple[Fault, ...]) -> Outcome:
    query = world.invariants.query
    ends = query("SELECT exit_reason FROM allocation ORDER BY ended_at, id")
    [(restarts,)] = query("SELECT sum(restarts) FROM trial")
    searches = _read_searches(world)
    return Outcome(
        seed=world.seed,
        faults=faults,
        searches=tuple(search for search in searches if search.name != DOOMED),
        trace=tuple(world.trace),
        virtual_s=asyncio.get_running_loop().time(),
        commits=world.invariants.commits,
        masters=world.generation,
        launched=len(world.machines()),
        ends=tuple(reason for (reason,) in ends),
        restarts=restarts,
        reasons=frozenset(world.invariants.reasons),
        doomed=next((search.state for search in searches if search.name == DOOMED), None),
    )


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
