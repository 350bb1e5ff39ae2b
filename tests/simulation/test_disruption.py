"""A search ends as on a quiet day although its machines are packed and exchanged under it, and the master dies.

More than the usual seeds: `WINDLASS_SIM_SEEDS=100 pytest tests/simulation/test_disruption.py`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import cache
from unittest import mock

import pytest
import yaml

from provisioner.planning.scale_down import move_value as move_worth
from tests.simulation.days import run_seed
from tests.simulation.faults import STRIKES, Fault
from tests.simulation.scenario import Outcome
from tests.simulation.training import METRIC
from tests.simulation.world import ELASTIC, World, config_of

SEEDS = int(os.environ.get("WINDLASS_SIM_SEEDS", "4"))
CHANGES_AT_S = (40.0, 100.0)
"""The provider's settings are changed then: all machines that are there have drifted."""
DEATHS = ("master killed", "master killed before a commit", "master killed after a commit")
SEARCH = yaml.safe_dump(
    {
        "name": "long",
        "entrypoint": "python3 train.py",
        "max_restarts": 0,
        "hyperparameters": {
            "learning_rate": {"type": "double", "minval": 0.0, "maxval": 1.0},
            "epochs": 60,
        },
        "searcher": {
            "name": "random",
            "max_trials": 3,
            "max_concurrent_trials": 3,
            "metric": METRIC,
            "smaller_is_better": True,
        },
        "resources": {"slots_per_trial": 1, "resource_pool": ELASTIC},
        "reproducibility": {"experiment_seed": 7},
    }
)


async def _change_settings(world: World, fault: Fault) -> None:
    for cloud in world.clouds.values():
        cloud.settings = f"settings of {fault.at_s}"


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    """The search lasts minutes: half an hour is a second here, and every saving pays."""
    short = {"SETTLED_S": 1.0, "LEAST_SCORE": 0.0, "RESTART_S": 0.0, "LEAVE_S": 0.0}
    with (
        mock.patch.multiple(move_worth, **short),
        mock.patch.dict(STRIKES, {"settings changed": _change_settings}),
    ):
        yield


@cache
def quiet() -> Outcome:
    return run_seed(0, faults=(), searches=[SEARCH])


def disrupted(seed: int) -> Outcome:
    config = dict(config_of(seed))
    elastic, *others = config["resource_pools"]
    rules = {"packing": True, "replacement": True, "drift": True, "share": 0.5}
    config["resource_pools"] = [{**elastic, "disruption": rules}, *others]
    rng = random.Random(f"disruption {seed}")
    changes = [Fault("settings changed", at_s, 0.0, 0.5) for at_s in CHANGES_AT_S]
    if seed:
        changes += [
            Fault(rng.choice(DEATHS), rng.uniform(at_s, at_s + 30.0), rng.uniform(0.1, 5), 0.5)
            for at_s in CHANGES_AT_S
        ]
    return run_seed(seed, faults=changes, config=config, searches=[SEARCH])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_search_ends_as_on_a_quiet_day(seed: int) -> None:
    outcome = disrupted(seed)
    moved = [end for end in outcome.ends if "goes at" in end]
    assert outcome.searches[0].state == "COMPLETED"
    assert outcome.searches[0].trials == quiet().searches[0].trials
    assert outcome.restarts == 0, "a move counted as a failure"
    assert outcome.launched > quiet().launched
    assert moved, "no work was moved"
