"""An experiment when the wall clock was set: no deadline comes nearer, none goes away."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from master.allocations.clock_jumps import shifted, since, until
from master.experiments.lifecycle.state import ExperimentState, TrialState
from master.experiments.lifecycle.step_builder import Env, ExperimentStep, StepBuilder


def clock_jumped(state: ExperimentState, env: Env, by: timedelta) -> ExperimentStep:
    builder = StepBuilder(state, env)
    for trial in state.trials.values():
        if not trial.phase.is_terminal:
            builder.put(_shifted(trial, by, env.now))
    return builder.done()


def _shifted(trial: TrialState, by: timedelta, now: datetime) -> TrialState:
    allocation = trial.allocation
    return replace(
        trial,
        not_before=until(trial.not_before, by),
        progressed_at=since(trial.progressed_at, by, now),
        early_exit_at=since(trial.early_exit_at, by, now),
        last_activity=since(trial.last_activity, by, now),
        not_lost_before=until(trial.not_lost_before, by),
        allocation=None if allocation is None else shifted(allocation, by, now),
    )
