"""What happens to an experiment: pure steps over `ExperimentState`.

Every step takes the state, what happened, and an `Env` (time, fresh ids), and answers with the new state, the searcher
events to log, and the effects to run once all of it is committed. Steps only change phases and facts; what follows from
them is drawn in `transitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from master.allocations import machine as allocation_machine
from master.allocations.machine import AllocationState
from master.core.expconf.models.log_policies import LogPolicy
from master.core.searcher.types import (
    ExitReason,
    InitialTrials,
    TrialProgress,
    ValidationCompleted,
)
from master.experiments.lifecycle.deadlines import INVALID_HP_GRACE
from master.experiments.lifecycle.releases import asked_by_others
from master.experiments.lifecycle.state import (
    ALLOWED,
    ExperimentState,
    Phase,
    TrialReports,
    already_ended,
)
from master.experiments.lifecycle.step_builder import Env, ExperimentStep, StepBuilder
from master.experiments.lifecycle.transitions import (
    allocation_ended,
    feed,
    is_due,
    named,
    settle_trials,
    step_allocation,
)
from windlass.base.errors import InvalidState

AllocationStep: TypeAlias = Callable[[AllocationState], allocation_machine.Step]


def begin(state: ExperimentState, env: Env) -> ExperimentStep:
    """A new experiment: ask the searcher for its first trials. They run once the experiment is ACTIVE."""
    builder = StepBuilder(state, env)
    feed(builder, InitialTrials())
    settle_trials(builder)
    return builder.done()


def settle(state: ExperimentState, env: Env) -> ExperimentStep:
    """Make the allocations match the phases: for a restarted master."""
    builder = StepBuilder(state, env)
    settle_trials(builder)
    return builder.done()


def activate(state: ExperimentState, env: Env) -> ExperimentStep:
    return _change_phase(state, env, Phase.ACTIVE)


def pause(state: ExperimentState, env: Env) -> ExperimentStep:
    return _change_phase(state, env, Phase.PAUSED)


def cancel(state: ExperimentState, env: Env) -> ExperimentStep:
    """End gracefully: trials checkpoint and stop."""
    return _change_phase(state, env, Phase.STOPPING_CANCELED)


def kill(state: ExperimentState, env: Env) -> ExperimentStep:
    return _change_phase(state, env, Phase.STOPPING_KILLED)


def kill_trial(state: ExperimentState, env: Env, request_id: str) -> ExperimentStep:
    builder = StepBuilder(state, env)
    trial = state.trials[request_id]
    if not trial.phase.is_terminal:
        builder.put(replace(trial, phase=Phase.STOPPING_KILLED))
        settle_trials(builder, (trial.request_id,))
    return builder.done()


def _change_phase(state: ExperimentState, env: Env, phase: Phase) -> ExperimentStep:
    if state.phase is phase:
        return ExperimentStep(state)
    if phase not in ALLOWED[state.phase]:
        if phase.is_stopping and (state.phase.is_stopping or state.phase.is_terminal):
            return ExperimentStep(state)  # it is ending or has ended: as asked
        if state.phase.is_terminal:
            raise InvalidState(already_ended(state.id, state.phase))
        raise InvalidState(f"Experiment {state.id} is already ending ({state.phase})")
    builder = StepBuilder(replace(state, phase=phase), env)
    settle_trials(builder)
    return builder.done()


def metrics_reported(
    state: ExperimentState,
    env: Env,
    request_id: str,
    metrics: TrialReports,
    validation: Mapping[str, object] | None = None,
) -> ExperimentStep:
    """The metrics of a trial are new. The searcher hears of a validation: its complaint ends the experiment."""
    builder = StepBuilder(state, env)
    trial = state.trials[request_id]
    builder.put(replace(trial, metrics=metrics))
    if validation is not None and trial.phase is Phase.ACTIVE:
        feed(builder, ValidationCompleted(request_id, dict(validation)))
        settle_trials(builder, named(builder.events))
    return builder.done()


def progress_reported(
    state: ExperimentState, env: Env, request_id: str, fraction: float
) -> ExperimentStep:
    builder = StepBuilder(state, env)
    trial = state.trials[request_id]
    if not trial.phase.is_terminal:
        builder.put(replace(trial, progress=fraction, progressed_at=env.now))
        if state.unmanaged:
            builder.state = replace(builder.state, progress=fraction)
        feed(builder, TrialProgress(request_id, fraction))
        settle_trials(builder, named(builder.events))
    return builder.done()


def early_exit_reported(
    state: ExperimentState, env: Env, request_id: str, reason: ExitReason
) -> ExperimentStep:
    """The task says that it will leave for good, and why. Repeats by other ranks change nothing."""
    builder = StepBuilder(state, env)
    trial = state.trials[request_id]
    if trial.early_exit is None and not trial.phase.is_terminal:
        builder.put(replace(trial, early_exit=reason, early_exit_at=env.now))
    return builder.done()


def checkpoint_reported(
    state: ExperimentState, env: Env, request_id: str, uuid: str, steps: int
) -> ExperimentStep:
    """A later checkpoint is where the next allocation starts; one at the same step replaces it."""
    builder = StepBuilder(state, env)
    trial = state.trials[request_id]
    if trial.latest_checkpoint is None or steps >= trial.latest_checkpoint_steps:
        is_new = uuid != trial.latest_checkpoint
        builder.put(
            replace(
                trial,
                latest_checkpoint=uuid,
                latest_checkpoint_steps=steps,
                lost_runs=0 if is_new else trial.lost_runs,
                checkpoint_run_id=trial.run_id if is_new else trial.checkpoint_run_id,
            )
        )
    return builder.done()


def log_policy_matched(
    state: ExperimentState, env: Env, request_id: str, policy: LogPolicy, node: str
) -> ExperimentStep:
    """A line of the trial's output on that node matched. Repeats change nothing but which policy was the last."""
    builder = StepBuilder(state, env)
    trial = state.trials[request_id]
    excludes = policy.action == "exclude_node" and node not in trial.avoids
    new = replace(
        trial,
        log_policy=policy.name or trial.log_policy,
        retries_cancelled=trial.retries_cancelled or policy.action == "cancel_retries",
        avoids=(*trial.avoids, node) if excludes else trial.avoids,
    )
    if new != trial and not trial.phase.is_terminal:
        builder.put(new)
    return builder.done()


def runner_state_reported(
    state: ExperimentState, env: Env, request_id: str, text: str
) -> ExperimentStep:
    builder = StepBuilder(state, env)
    builder.put(replace(state.trials[request_id], runner_state=text))
    return builder.done()


def allocation_event(
    state: ExperimentState, env: Env, allocation_id: str, step: AllocationStep
) -> ExperimentStep:
    """Apply a step of `master.allocations.machine` to a trial's current allocation, then draw the consequences."""
    builder = StepBuilder(state, env)
    trial = state.trial_of_allocation(allocation_id)
    if (
        trial.allocation is None
    ):  # pragma: no cover - trial_of_allocation found it by its allocation
        return builder.done()
    new, effects = step(trial.allocation)
    builder.effects.extend(effects)
    if new is not trial.allocation:
        builder.put(replace(trial, allocation=new))
        if why := asked_by_others(trial.allocation, new):
            builder.state = replace(builder.state, last_release=why)
        if not new.is_open and trial.allocation.is_open:
            allocation_ended(builder, trial.request_id)
        settle_trials(builder, named(builder.events) | {trial.request_id})
    return builder.done()


def clock_ticked(state: ExperimentState, env: Env, due: Iterable[str]) -> ExperimentStep:
    """Deadlines of these trials (request ids): see `deadlines`."""
    builder = StepBuilder(state, env)
    touched: set[str] = set()
    for request_id in due:
        trial = builder.state.trials[request_id]
        allocation = trial.open_allocation
        if allocation is None:
            if trial.not_before is not None and is_due(trial, env.now):
                touched.add(request_id)
            continue
        new, effects = allocation_machine.expired(allocation, now=env.now)
        overdue = (
            trial.early_exit_at is not None and env.now >= trial.early_exit_at + INVALID_HP_GRACE
        )
        if overdue and new.kill_reason is None:
            new, effects = allocation_machine.kill(
                allocation, "it reported invalid hyperparameters but did not exit", now=env.now
            )
        if new is not allocation:
            step_allocation(builder, trial, (new, effects))
            touched.add(request_id)
    if touched:
        settle_trials(builder, named(builder.events) | touched)
    return builder.done()
