"""Searches that have come some way, for pages of curves, rungs and hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.fakes.api_world import ApiWorld

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
HALVING = f"""
name: halving
entrypoint: python3 train.py
searcher:
  name: async_halving
  metric: loss
  num_rungs: 3
  divisor: 2
  max_trials: 20
  max_concurrent_trials: 12
  max_time: 8
  time_metric: epochs
hyperparameters:
  lr: {{type: log, base: 10, minval: -5, maxval: -1}}
  net:
    depth: {{type: int, minval: 1, maxval: 6}}
    kind: {{type: categorical, vals: [wide, "{HOSTILE}", 3, {{drop: 0.5}}]}}
  fixed: 7
resources: {{slots_per_trial: 1}}
"""
GRID = """
name: grid
entrypoint: python3 train.py
searcher: {name: grid, metric: loss, max_concurrent_trials: 4}
hyperparameters:
  lr: {type: double, minval: 0, maxval: 1, count: 3}
  kind: {type: categorical, vals: [a, 2]}
resources: {slots_per_trial: 1}
"""
EXTERNAL = """
name: outside
entrypoint: python3 train.py
searcher: {name: windlass_external, metric: loss}
hyperparameters: {lr: {type: double, minval: -1, maxval: 1}}
resources: {slots_per_trial: 0}
"""
ODD: tuple[dict[str, Any], ...] = (
    {"lr": -0.5, "own": 1},
    {"lr": 0.0, "own": "1", "more": {"deep": True}},
    {"lr": 0.5, "own": None, "more": "flat"},
    {"lr": 0.25},
)


@dataclass(frozen=True, slots=True)
class Searches:
    halving: int
    trials: list[int]
    """Of the halving search, in order of their making."""
    grid: int
    external: int


async def searches(world: ApiWorld) -> Searches:
    await world.add_agent(slots=16)
    halving = await world.create(HALVING)
    trials = []
    for index in range(12):
        await world.run_of(halving, index)
        trial = world.trial_id(halving, index)
        trials.append(trial)
        for step in range(1, 5):
            loss = (index + 1) / step - 4
            await world.report(trial, "training", step, loss=loss, epoch=step / 2)
    await world.report(trials[3], "training", 5, loss="NaN")
    await world.report(trials[3], "training", 6, loss="Infinity")
    for index, trial in enumerate(trials[:8]):
        loss = abs(index - 4) / 4 - 0.5
        await world.report(trial, "validation", 2, loss=loss, epochs=2, accuracy=1 - loss)
    grid = await world.create(GRID)
    await world.run_of(grid, 0)
    await world.report(world.trial_id(grid, 0), "validation", 1, loss=0.25)
    await world.finish(await world.run_of(grid, 0))
    external = await world.create(EXTERNAL)
    path = f"/api/v1/windlass/experiments/{external}/trials"
    for number, hparams in enumerate(ODD):
        added = await world.ok("POST", path, {"key": str(number), "hparams": hparams})
        await world.run_of(external, number)
        if number:
            loss: Any = "NaN" if number == 3 else -number
            await world.report(added["trial"]["id"], "validation", 1, loss=loss)
    return Searches(halving, trials, grid, external)
