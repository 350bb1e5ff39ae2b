"""What happens to an unmanaged experiment, whose processes run outside of the cluster: pure steps.

    trial        PAUSED -start-> ACTIVE -reported-> COMPLETED | CANCELED | ERROR -start-> ACTIVE
                                 ACTIVE -silent for too long-> ERROR -heartbeat-> ACTIVE
    experiment   what its most progressed trial is: PAUSED < ERROR < CANCELED < COMPLETED < ACTIVE

Nothing is asked of the processes: they say what they do, and may come back whenever they like.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from master.experiments.lifecycle.deadlines import deadline_of
from master.experiments.lifecycle.state import ExperimentState, Phase, TrialState, task_id_of
from master.experiments.lifecycle.step_builder import Env, ExperimentStep, StepBuilder
from windlass.base.errors import InvalidState
from windlass.base.formats.json_types import JsonMapping

REPORTED = frozenset({Phase.ACTIVE, Phase.COMPLETED, Phase.CANCELED, Phase.ERROR})
"""What a process may say of its trial."""
LOST = "lost heartbeat: nothing was heard of its process since"
FAILED = "its process reported an error"
_ORDER = (Phase.PAUSED, Phase.ERROR, Phase.CANCELED, Phase.COMPLETED, Phase.ACTIVE)


def begin(state: ExperimentState, env: Env) -> ExperimentStep:
    """It has no trials until a process creates one."""
    return ExperimentStep(state)


def trial_created(
    state: ExperimentState,
    env: Env,
    request_id: str,
    hparams: JsonMapping,
    external_id: str | None,
) -> ExperimentStep:
    builder = StepBuilder(state, env)
    builder.put(
        TrialState(
            id=env.next_trial_id(),
            request_id=request_id,
            task_id=task_id_of(state.id, request_id),
            hparams=hparams,
            seed=0,
            created_at=env.now,
            phase=Phase.PAUSED,
            external_id=external_id,
        )
    )
    return builder.done()


def started(state: ExperimentState, env: Env, request_id: str, resume: bool) -> ExperimentStep:
    """One more run of the trial, wherever: reports of the runs before it are refused from now on."""
    trial = state.trials[request_id]
    if trial.run_id > 0 and not resume:
        raise InvalidState(f"trial {trial.id} has started before: it needs resume: true")
    return _changed(state, env, replace(_at_work(trial, env.now), run_id=trial.run_id + 1))


def heard(
    state: ExperimentState, env: Env, request_id: str, phase: Phase | None = None
) -> ExperimentStep:
    """A heartbeat, or what the process says that its trial is: one of `REPORTED`."""
    trial = state.trials[request_id]
    if phase is None:
        # Late, after it has reported its end: that stays. One that only seemed lost goes on.
        over = trial.phase in (Phase.COMPLETED, Phase.CANCELED)
        new = trial if over else _at_work(trial, env.now)
    elif phase is Phase.ACTIVE:
        new = _at_work(trial, env.now)
    else:
        new = replace(
            trial,
            phase=phase,
            last_activity=env.now,
            ended_at=max(env.now, trial.created_at),
            error=FAILED if phase is Phase.ERROR else "",
            progress=1.0 if phase is Phase.COMPLETED else trial.progress,
        )
    return _changed(state, env, new)


def fell_silent(state: ExperimentState, env: Env, due: Iterable[str]) -> ExperimentStep:
    """The deadlines of these trials (request ids) are over: see `deadlines`."""
    builder = StepBuilder(state, env)
    for request_id in due:
        trial = builder.state.trials[request_id]
        deadline = deadline_of(trial)
        if deadline is None or trial.last_activity is None or env.now < deadline:
            continue
        since = f"{trial.last_activity:%Y-%m-%d %H:%M:%S} UTC"
        builder.put(
            replace(
                trial,
                phase=Phase.ERROR,
                error=f"{LOST} {since}",
                ended_at=max(trial.last_activity, trial.created_at),
            )
        )
    _follow_trials(builder)
    return builder.done()


def _at_work(trial: TrialState, now: datetime) -> TrialState:
    return replace(trial, phase=Phase.ACTIVE, last_activity=now, ended_at=None, error="")


def _changed(state: ExperimentState, env: Env, trial: TrialState) -> ExperimentStep:
    builder = StepBuilder(state, env)
    builder.put(trial)
    if trial.phase is not state.trials[trial.request_id].phase:
        _follow_trials(builder)
    return builder.done()


def _follow_trials(builder: StepBuilder) -> None:
    state = builder.state
    trials = list(state.trials.values())
    phase = max((trial.phase for trial in trials), key=_ORDER.index, default=Phase.PAUSED)
    ends = [trial.ended_at for trial in trials if trial.ended_at is not None]
    errors = (trial.error for trial in trials if trial.phase is Phase.ERROR)
    builder.state = replace(
        state,
        phase=phase,
        ended_at=max(*ends, state.created_at) if phase.is_terminal else None,
        error=next(errors, "") if phase is Phase.ERROR else "",
        progress=1.0 if phase is Phase.COMPLETED else state.progress,
    )
