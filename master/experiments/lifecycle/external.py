"""What a client does to a search that it drives: pure steps over `ExperimentState`."""

from __future__ import annotations

from dataclasses import replace

from master.core.searcher.external import ExternalState, completed
from master.core.searcher.types import SearchClosed, StopAsked, TrialAdded
from master.experiments.lifecycle.state import ExperimentState, TrialState, already_ended
from master.experiments.lifecycle.step_builder import Env, ExperimentStep, StepBuilder
from master.experiments.lifecycle.transitions import feed, named, settle_trials
from windlass.base.errors import Conflict, InvalidState

MAX_OPEN_TRIALS = 20_000
"""As of the searches that make their trials themselves: twice what a master is built to keep alive."""


def added_trial(state: ExperimentState, key: str) -> TrialState:
    """The trial that was added with this key. Raises KeyError."""
    method = state.searcher.method
    if not isinstance(method, ExternalState):
        raise KeyError(key)
    return state.trials[method.request_ids[key]]


def add_trial(state: ExperimentState, env: Env, added: TrialAdded) -> ExperimentStep:
    """A trial that was added before changes nothing.

    Raises InvalidState, InvalidArgument for hyperparameters that are missing, Conflict for a key of another trial.
    """
    _require_open(state)
    method = state.searcher.method
    if isinstance(method, ExternalState):
        added = replace(added, hparams=completed(env.search.space, added.hparams))
        if added.key in method.request_ids:
            source = state.config.searcher.source_checkpoint_uuid
            _require_same(added_trial(state, added.key), added, source)
            return ExperimentStep(state)
    if state.open_trials >= MAX_OPEN_TRIALS:
        raise InvalidState(
            f"experiment {state.id} has {state.open_trials} trials that have not ended, which is the"
            " limit: add more when some have ended"
        )
    builder = StepBuilder(state, env)
    feed(builder, added)
    settle_trials(builder, named(builder.events))
    return builder.done()


def stop_trial(state: ExperimentState, env: Env, request_id: str) -> ExperimentStep:
    """End it gracefully: it is done. One that ends or has ended stays as it is."""
    builder = StepBuilder(state, env)
    trial = state.trials[request_id]
    if not (trial.phase.is_terminal or trial.phase.is_stopping):
        feed(builder, StopAsked(request_id))
        settle_trials(builder, named(builder.events))
    return builder.done()


def close_search(state: ExperimentState, env: Env) -> ExperimentStep:
    """No trial is added any more: the experiment ends when its last one does. Repeats change nothing."""
    builder = StepBuilder(state, env)
    method = state.searcher.method
    if not (isinstance(method, ExternalState) and method.closed):
        _require_open(state)
        feed(builder, SearchClosed())
        settle_trials(builder, named(builder.events))
    return builder.done()


def _require_open(state: ExperimentState) -> None:
    if state.phase.is_terminal:
        raise InvalidState(already_ended(state.id, state.phase))
    if state.phase.is_stopping:
        raise InvalidState(f"Experiment {state.id} is already ending ({state.phase})")


def _require_same(known: TrialState, added: TrialAdded, source: str | None) -> None:
    if known.hparams != added.hparams:
        what = "other hyperparameters"
    elif known.warm_start_checkpoint != (added.checkpoint or source):
        what = "another parent checkpoint"
    else:
        return
    raise Conflict(
        f"key: trial {known.id} was added with the key {added.key!r} and {what}: give each trial a"
        " key of its own"
    )
