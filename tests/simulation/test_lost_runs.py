"""A trial whose machine dies again and again: it goes on while it gets on, and fails with the reason if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from agent_bootstrap.protocol import ExitFailure
from tests.fakes.virtual_time import run
from tests.simulation.process import processes
from tests.simulation.scenario import LIMIT_S
from tests.simulation.training import CHECKPOINT_EVERY, METRIC, epoch_s
from tests.simulation.world import ELASTIC, MAX_INSTANCES, World

LEARNING_RATE = 0.4
CHECKPOINT_S = CHECKPOINT_EVERY * epoch_s(LEARNING_RATE)
"""From the start of a run to its first checkpoint, a little less."""
MAX_LOST_RUNS = 10
"""The default of master.yaml."""


def trial_of(epochs: int) -> str:
    return yaml.safe_dump(
        {
            "name": "unlucky",
            "entrypoint": "python3 train.py",
            "hyperparameters": {"learning_rate": LEARNING_RATE, "epochs": epochs},
            "searcher": {"name": "single", "metric": METRIC},
            "max_restarts": 0,
            "resources": {"slots_per_trial": 1, "resource_pool": ELASTIC},
        }
    )


async def strike(world: World, after_s: float) -> None:
    """Every machine dies so long after a program began on it."""
    doomed: set[str] = set()

    async def die(instance_id: str) -> None:
        await asyncio.sleep(after_s)
        world.kill(instance_id)

    while True:
        for instance in world.living():
            agent = world.agents.get(instance.id)
            if agent is not None and agent.containers and instance.id not in doomed:
                doomed.add(instance.id)
                world.tasks.create_task(die(instance.id))
        await asyncio.sleep(0.1)


async def refuse_starts(world: World) -> None:
    """No machine can start the program, each for the same reason."""
    while True:
        for agent in list(world.agents.values()):
            for container in list(agent.containers):
                agent.exit(container, failure=ExitFailure.ABORTED, message="cannot mount /data")
        await asyncio.sleep(0.1)


Trouble: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]


async def end_of(folder: Path, *, epochs: int, trouble: Trouble) -> tuple[str, str, int, int]:
    """State, error and number of runs of the only trial; how many machines were made."""
    with processes():
        async with asyncio.TaskGroup() as tasks:
            world = World(1, folder, tasks)
            try:
                watching = tasks.create_task(world.invariants.watch(MAX_INSTANCES))
                world.start_master()
                await world.submit(trial_of(epochs))
                striking = tasks.create_task(trouble(world))
                query = partial(world.invariants.query, "SELECT state, error, run_id FROM trial")
                while query()[0][0] not in ("COMPLETED", "ERROR"):
                    world.invariants.check()
                    await asyncio.sleep(1.0)
                [(state, error, runs)] = query()
                striking.cancel()
                machines = len(world.machines())
                await world.end()
                watching.cancel()
            finally:
                world.invariants.close()
    world.invariants.check()
    return str(state), str(error), int(runs), machines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster").mkdir(mode=0o700)
    return tmp_path / "cluster"


@pytest.mark.slow
def test_without_a_checkpoint_it_fails_with_the_reason(folder: Path) -> None:
    trouble = partial(strike, after_s=CHECKPOINT_S / 2)
    state, error, runs, _ = run(
        end_of(folder, epochs=CHECKPOINT_EVERY, trouble=trouble), limit_s=LIMIT_S
    )
    assert state == "ERROR"
    assert f"lost or preempted {MAX_LOST_RUNS + 1} times without a new checkpoint" in error
    assert runs == MAX_LOST_RUNS + 1


@pytest.mark.slow
def test_with_checkpoints_it_goes_on_to_its_end(folder: Path) -> None:
    epochs = 2 * MAX_LOST_RUNS * CHECKPOINT_EVERY
    trouble = partial(strike, after_s=CHECKPOINT_S * 1.5)
    state, error, runs, _ = run(end_of(folder, epochs=epochs, trouble=trouble), limit_s=LIMIT_S)
    assert (state, error) == ("COMPLETED", "")
    assert runs > MAX_LOST_RUNS + 1


def test_what_no_machine_can_start_buys_two_at_the_most(folder: Path) -> None:
    state, error, runs, machines = run(
        end_of(folder, epochs=CHECKPOINT_EVERY, trouble=refuse_starts), limit_s=LIMIT_S
    )
    assert state == "ERROR"
    assert error.startswith("it could not be started ")
    assert error.endswith(": cannot mount /data")
    assert runs <= 3
    assert 1 <= machines <= 2
