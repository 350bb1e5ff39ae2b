"""Searches whose hyperparameters a sampler chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from master.core.searcher.sampler_question import ENOUGH, Point, is_random
from master.experiments.live import LiveExperiment
from master.experiments.restoring import rebuilt
from master.experiments.sampling.process import SamplerFailed, SamplerProcess, require_sampler
from master.store import tables
from tests.fakes.api_world import ApiWorld, api_world
from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonObject

TRIALS, AT_ONCE = ENOUGH + 8, 4
SEARCH = f"""
name: sampled
entrypoint: python3 train.py
searcher:
  name: random
  metric: loss
  max_trials: {TRIALS}
  max_concurrent_trials: {AT_ONCE}
  windlass_sampler: {{name: optuna.tpe}}
hyperparameters: {{x: {{type: double, minval: 0, maxval: 1}}, epochs: 3}}
resources: {{slots_per_trial: 1}}
reproducibility: {{experiment_seed: 1}}
"""
CHOSEN = 0.125


@dataclass
class FixedSampler:
    """Always the same point, or a failure."""

    fails: bool = False
    asked: list[JsonObject] = field(default_factory=list)

    async def ask(self, question: JsonObject) -> list[Point]:
        self.asked.append(question)
        if self.fails:
            raise SamplerFailed("out of ideas")
        return [[CHOSEN]] * question["count"]


async def finish_all(world: ApiWorld, id_: int) -> LiveExperiment:
    """Every trial reports and completes."""
    live = world.services.experiments.live(id_)
    assert live is not None
    for index in range(TRIALS):
        run = await world.run_of(id_, index)
        trial = live.state.trials[list(live.state.trials)[index]]
        await world.report(trial.id, "validation", 1, loss=trial.hparams["x"])
        await world.finish(run)
    await live.wait_until(lambda state: state.phase.is_terminal)
    return live


@pytest.mark.parametrize("fails", [False, True])
async def test_later_trials_start_at_the_points_of_the_sampler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(
        "master.experiments.submission.admission.require_sampler", lambda name: None
    )
    sampler = FixedSampler(fails=fails)
    async with api_world(tmp_path, sampler=sampler) as world:
        await world.login()
        await world.add_agent(slots=AT_ONCE)
        id_ = await world.create(SEARCH)
        live = await finish_all(world, id_)
        trials = list(live.state.trials.values())
        guided = [trial for trial in trials if trial.hparams["x"] == CHOSEN]
        assert sampler.asked
        assert all(len(question["done"]) >= ENOUGH for question in sampler.asked)
        if fails:
            assert guided == []
        else:
            assert len(guided) == sum(question["count"] for question in sampler.asked)
            assert not any(is_random(trial.seed) for trial in guided)
        assert all(trial.hparams["epochs"] == 3 for trial in trials)
        shown = (await world.ok("GET", f"/api/v1/experiments/{id_}/trials"))["trials"]
        assert [one["hparams"] for one in shown] == [dict(trial.hparams) for trial in trials]
        row = await world.services.store.read_one(
            select(tables.Experiment).where(tables.Experiment.id == id_)
        )
        assert row is not None
        restored = await rebuilt(world.services.store, row)
        assert restored.searcher == live.state.searcher
        assert [t.awaits_point for t in restored.trials.values()] == [False] * TRIALS


def test_a_master_without_optuna_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("master.experiments.sampling.process.find_spec", lambda name: None)
    require_sampler("")
    with pytest.raises(
        InvalidConfig, match=r"windlass_sampler: optuna.tpe needs Optuna.*\[optuna\]"
    ):
        require_sampler("optuna.tpe")


def _question(**changes: Any) -> JsonObject:
    done = [[[k / 20, k % 4, k % 3], (k / 20 - 0.25) ** 2] for k in range(20)]
    axes = [["float", 0.0, 1.0], ["int", 0, 3], ["choice", 0, 2]]
    asked = {"axes": axes, "done": done, "pending": [[0.5, 1, 1]], "minimize": True}
    return asked | {"count": 3, "seed": 1} | changes


@pytest.mark.slow
async def test_optuna_answers_the_same_to_the_same_question() -> None:
    sampler = SamplerProcess()
    points = await sampler.ask(_question())
    assert len(points) == 3
    for x, whole, choice in points:
        assert 0 <= x <= 1
        assert whole in range(4)
        assert choice in range(3)
    assert await sampler.ask(_question()) == points


@pytest.mark.slow
async def test_what_a_sampler_cannot_do_is_its_failure() -> None:
    with pytest.raises(SamplerFailed, match="ValueError"):
        await SamplerProcess().ask(_question(axes=[["float", 1.0, 0.0]] * 3))
