"""Hyperparameters that a sampler has chosen: a pure step over `ExperimentState`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from master.core.searcher.types import PointChosen
from master.experiments.lifecycle.state import ExperimentState
from master.experiments.lifecycle.step_builder import Env, ExperimentStep, StepBuilder
from master.experiments.lifecycle.transitions import feed, settle_trials
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from windlass.base.formats.json_types import JsonMapping


def choose_points(
    state: ExperimentState, env: Env, points: Mapping[str, JsonMapping]
) -> ExperimentStep:
    """By request id. What does not wait any more stays as it is."""
    builder, rows = StepBuilder(state, env), UnitOfWork()
    if state.phase.is_stopping or state.phase.is_terminal:
        return builder.done()
    for request_id, hparams in points.items():
        trial = state.trials[request_id]
        if not trial.awaits_point or trial.phase.is_terminal:
            continue
        builder.put(replace(trial, hparams=hparams, awaits_point=False))
        feed(builder, PointChosen(request_id, hparams))
        if hparams != trial.hparams:
            rows.update(tables.Trial, {"id": trial.id}, {"hparams": dict(hparams)}, expect=1)
    settle_trials(builder, points)
    return replace(builder.done(), rows=tuple(rows.operations))
