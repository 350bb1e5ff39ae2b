"""What follows from a change: how a run's end moves its trial, what the search answers, which runs there should be.

`settle_trials` is the one place that decides what each trial's run should be doing, from the phases alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from master.allocations import machine as allocation
from master.allocations.machine import AllocationState, OutcomeKind
from master.allocations.pauses import MAX_ABORTS, pause_after
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
from master.experiments.draft import Draft, LoggedEvent
from master.experiments.releases import WHY, moved_to
from master.experiments.state import ALLOWED, TERMINAL_OF, Phase, TrialState
from windlass.base.errors import InvalidArgument

# --- the end of a run ---------------------------------------------------------------------------------------------


def run_ended(draft: Draft, request_id: str) -> None:
    """What a trial does when its run is over. First match wins (reference: the life of an allocation)."""
    trial = draft.state.trials[request_id]
    run = trial.allocation
    outcome = run.outcome if run is not None else None
    if run is None or outcome is None:
        return
    failed = outcome.kind is OutcomeKind.FAILED
    if trial.phase.is_stopping:
        phase = Phase.ERROR if failed else TERMINAL_OF[trial.phase]
        close_trial(draft, trial, phase, outcome.error)
    elif trial.early_exit is not None:
        close_trial(draft, trial, Phase.COMPLETED, outcome.error)
    elif outcome.kind is OutcomeKind.TRANSIENT:
        aborts = trial.aborts + 1 if run.never_ran else 0
        if aborts > MAX_ABORTS:
            error = f"its runs could not be started {aborts} times in a row: {outcome.error}"
            close_trial(draft, trial, Phase.ERROR, error)
        else:
            not_before = draft.env.now + pause_after(aborts) if aborts else None
            draft.put(replace(trial, aborts=aborts, not_before=not_before))
    elif failed:
        if trial.restarts >= draft.state.settings.max_restarts:
            close_trial(
                draft, replace(trial, restarts=trial.restarts + 1), Phase.ERROR, outcome.error
            )
        else:
            draft.put(replace(trial, restarts=trial.restarts + 1, aborts=0))
    elif outcome.kind is OutcomeKind.FINISHED:
        close_trial(draft, trial, Phase.COMPLETED, "")
    # Preempted, killed or withdrawn: it runs again when its experiment is active.


def close_trial(draft: Draft, trial: TrialState, phase: Phase, error: str) -> None:
    trial = replace(
        trial,
        phase=phase,
        error=error if phase is Phase.ERROR else "",
        ended_at=draft.env.now,
        progress=1.0 if phase is Phase.COMPLETED else trial.progress,
    )
    draft.put(trial)
    if draft.state.phase.is_stopping:
        return  # a search that is being ended is asked nothing any more
    if phase is Phase.ERROR:
        feed(draft, TrialExitedEarly(trial.request_id, ExitReason.ERRORED))
    elif phase is Phase.CANCELED:
        feed(draft, TrialExitedEarly(trial.request_id, ExitReason.USER_CANCELED))
    elif trial.early_exit is not None and not trial.searcher_stopped:
        feed(draft, TrialExitedEarly(trial.request_id, trial.early_exit))
    feed(draft, TrialExited(trial.request_id))


# --- the search ---------------------------------------------------------------------------------------------------


def feed(draft: Draft, event: Event) -> None:
    """Tell the searcher, log it, carry out what it answers: creates in order, then stops, then the end."""
    if draft.state.phase.is_stopping or draft.state.phase.is_terminal:
        return
    search = draft.env.search
    try:
        searcher, actions = search.on(draft.state.searcher, event)
    except InvalidArgument as error:
        fail_search(draft, error.message)
        return
    if isinstance(event, TrialProgress) and not actions:
        # Progress alone is not worth a log entry: it changes no decision and is reported again.
        draft.state = replace(
            draft.state, searcher=searcher, progress=min(1.0, search.progress(searcher))
        )
        return
    seq = draft.state.searcher_seq + 1
    draft.events.append(LoggedEvent(seq, event, actions))
    draft.state = replace(
        draft.state,
        searcher=searcher,
        searcher_seq=seq,
        progress=min(1.0, search.progress(searcher)),
    )
    created = [a for a in actions if isinstance(a, Create)]
    for action in created:
        _create_trial(draft, action)
    for action in created:
        feed(draft, TrialCreated(action.request_id))
    for stop in actions:
        if isinstance(stop, Stop):
            _stop_trial(draft, stop.request_id)
    for end in actions:
        if isinstance(end, Shutdown):
            _shut_down(draft, end)


def _create_trial(draft: Draft, action: Create) -> None:
    if action.request_id in draft.state.trials:
        return
    experiment = draft.state
    draft.put(
        TrialState(
            id=draft.env.next_trial_id(),
            request_id=action.request_id,
            task_id=f"{experiment.id}.{action.request_id}",
            hparams=action.hparams,
            seed=action.trial_seed,
            created_at=draft.env.now,
        )
    )


def _stop_trial(draft: Draft, request_id: str) -> None:
    trial = draft.state.trials[request_id]
    if trial.phase is Phase.ACTIVE:
        draft.put(replace(trial, phase=Phase.STOPPING_COMPLETED, searcher_stopped=True))


def _shut_down(draft: Draft, action: Shutdown) -> None:
    phase = Phase.STOPPING_COMPLETED
    if action.failure:
        phase = Phase.STOPPING_ERROR
    elif action.cancel:
        phase = Phase.STOPPING_CANCELED
    error = "every trial of the search failed" if action.failure else ""
    draft.state = replace(draft.state, phase=phase, error=error)


def fail_search(draft: Draft, error: str) -> None:
    if Phase.STOPPING_ERROR in ALLOWED[draft.state.phase]:
        draft.state = replace(draft.state, phase=Phase.STOPPING_ERROR, error=error)


# --- from phases to runs ------------------------------------------------------------------------------------------


def named(events: Iterable[LoggedEvent]) -> set[str]:
    """Trials that searcher actions created or stopped."""
    return {a.request_id for e in events for a in e.actions if isinstance(a, Create | Stop)}


def settle_trials(draft: Draft, touched: Iterable[str] | None = None) -> None:
    """Make every touched trial's run (all trials: None) what the phases ask for, then see if all is over.

    Closing a trial may create or stop others, or end the search: those are settled in the next round.
    """
    while True:
        phase, logged = draft.state.phase, len(draft.events)
        everyone = touched is None or phase.is_stopping
        trials = draft.state.trials
        # In the order of their creation, so that their runs queue in it too.
        named_ones = sorted(touched or (), key=lambda request_id: trials[request_id].id)
        for request_id in list(trials) if everyone else named_ones:
            _settle_trial(draft, request_id)
        fresh = named(draft.events[logged:])
        if draft.state.phase is phase and not fresh:
            break
        touched = fresh if draft.state.phase is phase else None
    if phase.is_stopping and all(t.phase.is_terminal for t in draft.state.trials.values()):
        end = TERMINAL_OF[phase]
        draft.state = replace(
            draft.state,
            phase=end,
            ended_at=draft.env.now,
            progress=1.0 if end is Phase.COMPLETED else draft.state.progress,
        )


def _settle_trial(draft: Draft, request_id: str) -> None:
    trial = draft.state.trials[request_id]
    if trial.phase.is_terminal:
        return
    experiment = draft.state.phase
    if (
        experiment.is_stopping
        and experiment in ALLOWED[trial.phase]
        and trial.phase is not experiment
    ):
        trial = replace(trial, phase=experiment)
        draft.put(trial)
    run = trial.open_allocation
    if run is None:
        if trial.phase.is_stopping:
            close_trial(draft, trial, TERMINAL_OF[trial.phase], trial.error)
        elif experiment is Phase.ACTIVE and is_due(trial, draft.env.now):
            _request_run(draft, trial)
        return
    if trial.phase in (Phase.STOPPING_KILLED, Phase.STOPPING_ERROR):
        end_run(draft, trial, allocation.kill(run, WHY[trial.phase], now=draft.env.now))
    elif trial.phase.is_stopping or experiment is Phase.PAUSED:
        why = WHY[trial.phase if trial.phase.is_stopping else Phase.PAUSED]
        end_run(draft, trial, allocation.terminate(run, why, now=draft.env.now))
    elif run.pool != draft.state.settings.pool:
        _move_run(draft, trial, run)


def _move_run(draft: Draft, trial: TrialState, run: AllocationState) -> None:
    """Out of a pool that is not the experiment's any more: what waits asks in the right one at once."""
    why = moved_to(draft.state.settings.pool)
    end_run(draft, trial, allocation.terminate(run, why, now=draft.env.now))
    trial = draft.state.trials[trial.request_id]
    if trial.open_allocation is None and not trial.phase.is_terminal:
        _request_run(draft, trial)


def end_run(draft: Draft, trial: TrialState, step: allocation.Step) -> None:
    new, effects = step
    if new is trial.allocation:
        return
    draft.put(replace(trial, allocation=new))
    draft.effects.extend(effects)
    if not new.is_open:
        run_ended(draft, trial.request_id)


def is_due(trial: TrialState, now: datetime) -> bool:
    """Whether a new run may be asked for."""
    return trial.not_before is None or now >= trial.not_before


def _request_run(draft: Draft, trial: TrialState) -> None:
    settings = draft.state.settings
    run_id = trial.run_id + 1
    run = AllocationState(
        id=f"{trial.task_id}.{run_id}",
        task_id=trial.task_id,
        run_id=run_id,
        pool=settings.pool,
        slots=settings.slots_per_trial,
        requested_at=draft.request_time(),
        preemption_timeout_s=settings.preemption_timeout_s,
    )
    if trial.allocation is not None:
        draft.replaced[trial.request_id] = trial.allocation
    draft.put(replace(trial, run_id=run_id, allocation=run, not_before=None))
    draft.effects.append(allocation.AskResources(run.id))
