"""What may be changed of an experiment while it lives: its place among the jobs, its limits, its pool. Pure steps.

The same value again changes nothing. What a change of pool means for the allocations is drawn in `transitions`.
"""

from __future__ import annotations

from dataclasses import replace

from master.core.jobs import (
    JobChange,
    SetMaxSlots,
    SetPlace,
    SetPool,
    SetPriority,
    SetWeight,
)
from master.experiments.lifecycle.state import ExperimentState, RunSettings, already_ended
from master.experiments.lifecycle.step_builder import Env, ExperimentStep, StepBuilder
from master.experiments.lifecycle.transitions import settle_trials
from windlass.base.errors import InvalidArgument, InvalidState


def change(state: ExperimentState, env: Env, wanted: JobChange) -> ExperimentStep:
    """Raises InvalidState when the experiment is over, InvalidArgument for what cannot be."""
    require_alive(state)
    match wanted:
        case SetPriority():
            return change_priority(state, wanted)
        case SetWeight():
            return change_weight(state, wanted)
        case SetMaxSlots():
            return change_max_slots(state, wanted)
        case SetPool():
            return change_pool(state, env, wanted)
        case SetPlace():
            return change_place(state, wanted)


def require_alive(state: ExperimentState) -> None:
    if state.phase.is_terminal:
        raise InvalidState(already_ended(state.id, state.phase))


def change_priority(state: ExperimentState, wanted: SetPriority) -> ExperimentStep:
    """Gives up the place it was moved to: within the new priority the order is by age."""
    settings = state.settings
    if settings.priority == wanted.priority:
        return ExperimentStep(state)
    return _step(state, replace(settings, priority=wanted.priority, queue_position=None))


def change_weight(state: ExperimentState, wanted: SetWeight) -> ExperimentStep:
    return _step(state, replace(state.settings, weight=wanted.weight))


def change_max_slots(state: ExperimentState, wanted: SetMaxSlots) -> ExperimentStep:
    """Fewer than one trial needs is allowed: its trials wait, and the queue says for what."""
    return _step(state, replace(state.settings, max_slots=wanted.max_slots))


def change_pool(state: ExperimentState, env: Env, wanted: SetPool) -> ExperimentStep:
    """Runs leave the old pool gracefully and ask again in the new one, with everything else as it was."""
    if state.settings.pool == wanted.pool:
        raise InvalidArgument(f"experiment {state.id} is in resource pool '{wanted.pool}' already")
    builder = StepBuilder(_with(state, replace(state.settings, pool=wanted.pool)), env)
    settle_trials(builder)
    return builder.done()


def change_place(state: ExperimentState, wanted: SetPlace) -> ExperimentStep:
    if not wanted.position.is_finite():
        raise InvalidArgument(f"a place in the queue must be finite, but is {wanted.position}")
    settings = replace(state.settings, queue_position=wanted.position)
    if wanted.priority is not None:
        settings = replace(settings, priority=wanted.priority)
    return _step(state, settings)


def _step(state: ExperimentState, settings: RunSettings) -> ExperimentStep:
    return ExperimentStep(state if settings == state.settings else _with(state, settings))


def _with(state: ExperimentState, settings: RunSettings) -> ExperimentState:
    """The config goes on saying what the settings do."""
    resources = state.config.resources.model_copy(
        update={
            "priority": settings.priority,
            "weight": settings.weight,
            "max_slots": settings.max_slots,
            "resource_pool": settings.pool,
        }
    )
    config = state.config.model_copy(update={"resources": resources})
    return replace(state, settings=settings, config=config)
