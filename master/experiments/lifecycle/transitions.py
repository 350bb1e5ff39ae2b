"""What follows from a change: how an allocation's end moves its trial, what the search answers, what should run.

`settle_trials` is the one place that decides what each trial's allocation should be doing, from the phases alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from master.allocations import machine as allocation_machine
from master.allocations.effects import AskResources
from master.allocations.machine import AllocationState
from master.allocations.outcome import Outcome, OutcomeKind
from master.core.expconf.models.searchers import GridSearcher, RandomSearcher
from master.core.searcher.metrics import missing_metric
from master.core.searcher.types import (
    Create,
    Event,
    ExitReason,
    Shutdown,
    Stop,
    TrialCreated,
    TrialExited,
    TrialExitedEarly,
    TrialProgress,
)
from master.experiments.lifecycle import reruns
from master.experiments.lifecycle.releases import WHY, moved_to
from master.experiments.lifecycle.state import (
    ALLOWED,
    TERMINAL_OF,
    Phase,
    TrialState,
    task_id_of,
)
from master.experiments.lifecycle.step_builder import LoggedEvent, StepBuilder
from master.experiments.reports.metrics import VALIDATION, summary_key
from windlass.base.errors import InvalidArgument

NO_RETRY = "trial failed and matched logs to a don't retry policy"
"""In the published words."""


def allocation_ended(builder: StepBuilder, request_id: str) -> None:
    """What a trial does when its allocation is over. First match wins (reference: the life of an allocation)."""
    trial = builder.state.trials[request_id]
    allocation = trial.allocation
    outcome = allocation.outcome if allocation is not None else None
    if allocation is None or outcome is None:
        return
    failed = outcome.kind is OutcomeKind.FAILED
    if trial.phase.is_stopping:
        phase = Phase.ERROR if failed else TERMINAL_OF[trial.phase]
        close_trial(builder, trial, phase, outcome.error)
    elif trial.early_exit is not None:
        close_trial(builder, trial, Phase.COMPLETED, outcome.error)
    elif outcome.at_limit or outcome.kind in reruns.OTHERS:
        _run_again(builder, trial, allocation, outcome)
    elif failed:
        if outcome.final:
            close_trial(builder, trial, Phase.ERROR, outcome.error)
        elif trial.retries_cancelled:
            error = f"{NO_RETRY}: {outcome.error}"
            close_trial(builder, trial, Phase.ERROR, error)
        elif trial.restarts >= builder.state.settings.max_restarts:
            close_trial(
                builder, replace(trial, restarts=trial.restarts + 1), Phase.ERROR, outcome.error
            )
        else:
            builder.put(replace(trial, restarts=trial.restarts + 1, aborts=0))
    elif outcome.kind is OutcomeKind.FINISHED:
        close_trial(builder, trial, Phase.COMPLETED, "")
    # Withdrawn: it runs again when its experiment is active.


def _run_again(
    builder: StepBuilder, trial: TrialState, allocation: AllocationState, outcome: Outcome
) -> None:
    limits = reruns.RestartLimits(builder.state.settings.max_restarts, builder.env.max_lost_runs)
    paused = builder.state.phase is not Phase.ACTIVE
    trial, error = reruns.after(trial, allocation, outcome, limits, builder.env.now, paused=paused)
    if error:
        close_trial(builder, trial, Phase.ERROR, error)
    else:
        builder.put(trial)


def close_trial(builder: StepBuilder, trial: TrialState, phase: Phase, error: str) -> None:
    if phase is not Phase.ERROR:
        error = _unseen_metric(trial, builder.state.settings.metric)
    trial = replace(
        trial,
        phase=phase,
        error=error,
        ended_at=max(builder.env.now, trial.created_at),
        progress=1.0 if phase is Phase.COMPLETED else trial.progress,
    )
    builder.put(trial)
    if builder.state.phase.is_stopping:
        return  # a search that is being ended is asked nothing any more
    if phase is Phase.ERROR:
        feed(builder, TrialExitedEarly(trial.request_id, ExitReason.ERRORED))
    elif phase is Phase.CANCELED:
        feed(builder, TrialExitedEarly(trial.request_id, ExitReason.USER_CANCELED))
    elif trial.early_exit is not None and not trial.searcher_stopped:
        feed(builder, TrialExitedEarly(trial.request_id, trial.early_exit))
    feed(builder, TrialExited(trial.request_id))


def _unseen_metric(trial: TrialState, metric: str) -> str:
    """What a trial that has not failed should still say: it validated, but never with the searcher's metric."""
    reported = trial.metrics.summary.get(summary_key(VALIDATION), {})
    return missing_metric(metric, reported) if reported and metric not in reported else ""


def feed(builder: StepBuilder, event: Event) -> None:
    """Tell the searcher, log it, carry out what it answers: creates in order, then stops, then the end."""
    if builder.state.unmanaged:
        return
    if builder.state.phase.is_stopping or builder.state.phase.is_terminal:
        return
    search = builder.env.search
    try:
        searcher, actions = search.on(builder.state.searcher, event)
    except InvalidArgument as error:
        fail_search(builder, error.message)
        return
    if isinstance(event, TrialProgress) and not actions:
        # Progress alone is not worth a log entry: it changes no decision and is reported again.
        builder.state = replace(
            builder.state, searcher=searcher, progress=min(1.0, search.progress(searcher))
        )
        return
    seq = builder.state.searcher_seq + 1
    builder.events.append(LoggedEvent(seq, event, actions, builder.env.now))
    builder.state = replace(
        builder.state,
        searcher=searcher,
        searcher_seq=seq,
        progress=min(1.0, search.progress(searcher)),
    )
    created = [a for a in actions if isinstance(a, Create)]
    for action in created:
        _create_trial(builder, action)
    for action in created:
        feed(builder, TrialCreated(action.request_id))
    for stop in actions:
        if isinstance(stop, Stop):
            _stop_trial(builder, stop.request_id)
    for end in actions:
        if isinstance(end, Shutdown):
            _shut_down(builder, end)


def _create_trial(builder: StepBuilder, action: Create) -> None:
    if action.request_id in builder.state.trials:
        return
    experiment = builder.state
    builder.put(
        TrialState(
            id=builder.env.next_trial_id(),
            request_id=action.request_id,
            task_id=task_id_of(experiment.id, action.request_id),
            hparams=action.hparams,
            seed=action.trial_seed,
            created_at=builder.env.now,
            awaits_point=bool(builder.env.search.sampler),
            warm_start_checkpoint=action.checkpoint
            or experiment.config.searcher.source_checkpoint_uuid,
        )
    )


def _stop_trial(builder: StepBuilder, request_id: str) -> None:
    trial = builder.state.trials[request_id]
    if trial.phase is Phase.ACTIVE:
        builder.put(replace(trial, phase=Phase.STOPPING_COMPLETED, searcher_stopped=True))


def _shut_down(builder: StepBuilder, action: Shutdown) -> None:
    phase = Phase.STOPPING_COMPLETED
    if action.failure:
        phase = Phase.STOPPING_ERROR
    elif action.cancel:
        phase = Phase.STOPPING_CANCELED
    error = _all_failed(builder) if action.failure else _nothing_to_compare(builder)
    builder.state = replace(builder.state, phase=phase, error=error)


def _all_failed(builder: StepBuilder) -> str:
    """With the error of the first: the others mostly failed in the same way."""
    why = next((trial.error for trial in builder.state.trials.values() if trial.error), "")
    return f"every trial of the search failed: {why}" if why else "every trial of the search failed"


def _nothing_to_compare(builder: StepBuilder) -> str:
    """The complaint of the first trial about the searcher's metric, if no trial has it."""
    trials = builder.state.trials.values()
    if any(trial.metrics.best is not None for trial in trials):
        return ""
    complaints = (trial.error for trial in trials if trial.phase is Phase.COMPLETED and trial.error)
    return next(complaints, "")


def fail_search(builder: StepBuilder, error: str) -> None:
    if Phase.STOPPING_ERROR in ALLOWED[builder.state.phase]:
        builder.state = replace(builder.state, phase=Phase.STOPPING_ERROR, error=error)


def named(events: Iterable[LoggedEvent]) -> set[str]:
    """Trials that searcher actions created or stopped."""
    return {a.request_id for e in events for a in e.actions if isinstance(a, Create | Stop)}


def settle_trials(builder: StepBuilder, touched: Iterable[str] | None = None) -> None:
    """Make every touched trial's allocation (all trials: None) what the phases ask for, then see if all is over.

    Closing a trial may create or stop others, or end the search: those are settled in the next round.
    """
    if builder.state.unmanaged:
        return
    while True:
        phase, logged = builder.state.phase, len(builder.events)
        room = _room(builder)
        everyone = touched is None or phase is not builder.settled or room is not None
        builder.settled = phase
        trials = builder.state.trials
        # In the order of their creation, so that their allocations queue in it too.
        named_ones = sorted(touched or (), key=lambda request_id: trials[request_id].id)
        for request_id in list(trials) if everyone else named_ones:
            requested = _settle_trial(builder, request_id, has_turn=room is None or room > 0)
            if room is not None:
                room -= requested
        fresh = named(builder.events[logged:])
        if builder.state.phase is phase and not fresh:
            break
        touched = fresh if builder.state.phase is phase else None
    if phase.is_stopping and not builder.state.open_trials:
        end = TERMINAL_OF[phase]
        builder.state = replace(
            builder.state,
            phase=end,
            ended_at=max(builder.env.now, builder.state.created_at),
            progress=1.0 if end is Phase.COMPLETED else builder.state.progress,
        )


def _room(builder: StepBuilder) -> int | None:
    """How many more trials may run at once; None: the search itself sees to it.

    One that is continued has more trials that have not ended than it would have at once: also those that had failed.
    """
    state, searcher = builder.state, builder.state.config.searcher
    if not isinstance(searcher, RandomSearcher | GridSearcher):
        return None
    limit = searcher.max_concurrent_trials
    if not limit or builder.most_open <= limit:
        return None
    return limit - sum(trial.open_allocation is not None for trial in state.trials.values())


def _settle_trial(builder: StepBuilder, request_id: str, *, has_turn: bool) -> bool:
    """Whether it asks for slots from now on."""
    trial = builder.state.trials[request_id]
    if trial.phase.is_terminal:
        return False
    experiment = builder.state.phase
    if (
        experiment.is_stopping
        and experiment in ALLOWED[trial.phase]
        and trial.phase is not experiment
    ):
        trial = replace(trial, phase=experiment)
        builder.put(trial)
    allocation = trial.open_allocation
    if allocation is None:
        if trial.phase.is_stopping:
            close_trial(builder, trial, TERMINAL_OF[trial.phase], trial.error)
        elif experiment is Phase.ACTIVE and is_due(trial, builder.env.now):
            if has_turn:
                _request_allocation(builder, trial)
                return True
            _await_turn(builder, trial, True)
        else:
            _await_turn(builder, trial, False)
        return False
    if trial.phase in (Phase.STOPPING_KILLED, Phase.STOPPING_ERROR):
        step_allocation(
            builder,
            trial,
            allocation_machine.kill(allocation, WHY[trial.phase], now=builder.env.now),
        )
    elif trial.phase.is_stopping or experiment is Phase.PAUSED:
        why = WHY[trial.phase if trial.phase.is_stopping else Phase.PAUSED]
        step_allocation(
            builder, trial, allocation_machine.terminate(allocation, why, now=builder.env.now)
        )
    elif allocation.pool != builder.state.settings.pool:
        if allocation.granted_pool == builder.state.settings.pool:
            step_allocation(builder, trial, allocation_machine.made_home(allocation))
        else:
            _move_allocation(builder, trial, allocation)
    return False


def _await_turn(builder: StepBuilder, trial: TrialState, awaits: bool) -> None:
    if trial.awaits_turn != awaits:
        builder.put(replace(trial, awaits_turn=awaits))


def _move_allocation(builder: StepBuilder, trial: TrialState, allocation: AllocationState) -> None:
    """Out of a pool that is not the experiment's any more: what waits asks in the right one at once."""
    why = moved_to(builder.state.settings.pool)
    step_allocation(
        builder, trial, allocation_machine.terminate(allocation, why, now=builder.env.now)
    )
    trial = builder.state.trials[trial.request_id]
    if trial.open_allocation is None and not trial.phase.is_terminal:
        _request_allocation(builder, trial)


def step_allocation(builder: StepBuilder, trial: TrialState, step: allocation_machine.Step) -> None:
    new, effects = step
    if new is trial.allocation:
        return
    builder.put(replace(trial, allocation=new))
    builder.effects.extend(effects)
    if not new.is_open:
        allocation_ended(builder, trial.request_id)


def is_due(trial: TrialState, now: datetime) -> bool:
    """Whether a new allocation may be asked for."""
    return not trial.awaits_point and (trial.not_before is None or now >= trial.not_before)


def _request_allocation(builder: StepBuilder, trial: TrialState) -> None:
    settings = builder.state.settings
    run_id = trial.run_id + 1
    allocation = AllocationState(
        id=f"{trial.task_id}.{run_id}",
        task_id=trial.task_id,
        run_id=run_id,
        pool=settings.pool,
        slots=settings.slots_per_trial,
        requested_at=builder.request_time(),
        preemption_timeout_s=settings.preemption_timeout_s,
        leave_took_s=_leave_took_s(trial),
    )
    if trial.allocation is not None:
        builder.replaced[trial.request_id] = trial.allocation
    builder.put(
        replace(trial, run_id=run_id, allocation=allocation, not_before=None, awaits_turn=False)
    )
    builder.effects.append(AskResources(allocation.id))


def _leave_took_s(trial: TrialState) -> float | None:
    """How long its last run that was asked took to leave."""
    last = trial.allocation
    if last is None:
        return None
    return last.leave_took_s if last.leaving_s is None else last.leaving_s
