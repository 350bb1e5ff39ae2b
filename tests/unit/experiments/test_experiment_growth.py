"""What a step costs does not grow with the number of trials: what it touches is its own trial."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from master.core.searcher.types import ExitReason
from master.experiments.lifecycle import machine
from master.experiments.lifecycle.persistence import changes, snapshot_interval
from master.roots.root import Transition
from tests.fakes.pure_experiment import ASHA, PureExperiment

SMALL, LARGE = 20, 2000


def search(method: str, trials: int) -> PureExperiment:
    """All of its trials wait for slots, but for the first, which runs."""
    common: dict[str, Any] = {"max_trials": trials, "max_concurrent_trials": trials}
    world = PureExperiment(
        {**ASHA, **common}
        if method == "async_halving"
        else {"name": method, "metric": "loss", **common}
    )
    world.start(0)
    return world


def progress(world: PureExperiment) -> None:
    name = world.trial().request_id
    world.do(lambda s, e: machine.progress_reported(s, e, name, 0.5))


def early_exit(world: PureExperiment) -> None:
    name = world.trial().request_id
    world.do(lambda s, e: machine.early_exit_reported(s, e, name, ExitReason.INVALID_HP))


STEPS: dict[str, Callable[[PureExperiment], object]] = {
    "validation": lambda world: world.validate(0, loss=0.5, epochs=1),
    "progress": progress,
    "early exit": early_exit,
    "failure": lambda world: world.exit(0, 1),
    "tick": lambda world: world.tick(),
}


def calls_of(work: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(work)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["random", "async_halving"])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_in_a_large_search_calls_no_more_than_in_a_small_one(method: str, step: str) -> None:
    small, large = (
        calls_of(partial(STEPS[step], search(method, trials))) for trials in (SMALL, LARGE)
    )
    assert large <= small + 50


def test_an_end_while_all_are_killed_looks_at_no_other_trial() -> None:
    calls = []
    for n in (SMALL, LARGE):
        world = search("random", n)
        world.start(1)
        world.do(machine.kill)
        calls.append(calls_of(partial(world.exit, 0, 137)))
    assert calls[1] <= calls[0] + 50


def test_a_step_writes_only_the_rows_of_its_own_trial() -> None:
    world = search("random", LARGE)
    before, name = world.state, world.trial().request_id
    step = machine.early_exit_reported(before, world.env(), name, ExitReason.INVALID_HP)
    assert len(changes([Transition(before, step)]).operations) == 1


@pytest.mark.parametrize(
    ("trials", "interval"), [(1, 200), (200, 200), (201, 400), (10_000, 12_800)]
)
def test_snapshots_grow_with_the_search_and_so_does_their_interval(
    trials: int, interval: int
) -> None:
    assert snapshot_interval(trials) == interval
