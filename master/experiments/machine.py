"""What happens to an experiment: pure steps over `ExperimentState`.

Every step takes the state, what happened, and an `Env` (time, fresh ids), and answers with the new state, the searcher
events to log, and the effects to run once all of it is committed. `_settle` is the one place that decides what each
trial's run should be doing, from the phases alone; the steps only change phases and facts and then settle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from master.allocations import machine as allocation
from master.allocations.machine import AllocationState, Effect, OutcomeKind
from master.core.searcher.search import Search
from master.core.searcher.types import (
    Action,
    Create,
    Event,
    ExitReason,
    InitialTrials,
    Shutdown,
    Stop,
    TrialCreated,
    TrialExited,
    TrialExitedEarly,
    TrialProgress,
    ValidationCompleted,
)
from master.experiments.state import (
    ALLOWED,
    TERMINAL_OF,
    ExperimentState,
    Phase,
    TrialMetrics,
    TrialState,
)
from windlass.base.errors import InvalidArgument, InvalidState

MAX_ABORTS = 10
"""Runs in a row that end before they start. More than that is not bad luck."""
INVALID_HP_GRACE = timedelta(seconds=10)
"""How long a task may take to leave after it reported invalid hyperparameters."""

AllocationStep: TypeAlias = Callable[[AllocationState], allocation.Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """What a pure step may not find out by itself."""

    now: datetime
    search: Search
    next_trial_id: Callable[[], int]


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One searcher event with the actions it caused."""

    seq: int
    event: Event
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Step:
    state: ExperimentState
    events: tuple[LoggedEvent, ...] = ()
    effects: tuple[Effect, ...] = ()
    replaced: Mapping[str, AllocationState] = field(default_factory=dict)
    """Request id -> the ended run whose place a new one took: the state does not show how it ended."""


@dataclass(slots=True)
class _Draft:
    """A step in the making. Lives only inside one step function."""

    state: ExperimentState
    env: Env
    events: list[LoggedEvent] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    replaced: dict[str, AllocationState] = field(default_factory=dict)

    def put(self, trial: TrialState) -> None:
        self.state = replace(self.state, trials={**self.state.trials, trial.request_id: trial})

    def done(self) -> Step:
        return Step(self.state, tuple(self.events), tuple(self.effects), self.replaced)


# --- what users do ------------------------------------------------------------------------------------------------


def begin(state: ExperimentState, env: Env) -> Step:
    """A new experiment: ask the searcher for its first trials. They run once the experiment is ACTIVE."""
    draft = _Draft(state, env)
    _feed(draft, InitialTrials())
    _settle(draft)
    return draft.done()


def settle(state: ExperimentState, env: Env) -> Step:
    """Make the runs match the phases: for a restarted master."""
    draft = _Draft(state, env)
    _settle(draft)
    return draft.done()


def activate(state: ExperimentState, env: Env) -> Step:
    return _change_phase(state, env, Phase.ACTIVE)


def pause(state: ExperimentState, env: Env) -> Step:
    return _change_phase(state, env, Phase.PAUSED)


def cancel(state: ExperimentState, env: Env) -> Step:
    """End gracefully: trials checkpoint and stop."""
    return _change_phase(state, env, Phase.STOPPING_CANCELED)


def kill(state: ExperimentState, env: Env) -> Step:
    return _change_phase(state, env, Phase.STOPPING_KILLED)


def fail(state: ExperimentState, env: Env, error: str) -> Step:
    """The search cannot go on; `error` says why."""
    draft = _Draft(state, env)
    _fail(draft, error)
    _settle(draft)
    return draft.done()


def kill_trial(state: ExperimentState, env: Env, trial_id: int) -> Step:
    draft = _Draft(state, env)
    trial = state.trial_by_id(trial_id)
    if not trial.phase.is_terminal:
        draft.put(replace(trial, phase=Phase.STOPPING_KILLED))
        _settle(draft, (trial.request_id,))
    return draft.done()


def _change_phase(state: ExperimentState, env: Env, phase: Phase) -> Step:
    if state.phase is phase:
        return Step(state)
    if phase not in ALLOWED[state.phase]:
        if phase.is_stopping and (state.phase.is_stopping or state.phase.is_terminal):
            return Step(state)  # it is ending or has ended: as asked
        raise InvalidState(f"experiment {state.id} is {state.phase}: it cannot become {phase}")
    draft = _Draft(replace(state, phase=phase), env)
    _settle(draft)
    return draft.done()


# --- what tasks report --------------------------------------------------------------------------------------------


def validation_completed(
    state: ExperimentState, env: Env, request_id: str, metrics: Mapping[str, object]
) -> Step:
    """The searcher hears of a validation. Its complaint ends the experiment, not the report."""
    draft = _Draft(state, env)
    if state.trials[request_id].phase is Phase.ACTIVE:
        _feed(draft, ValidationCompleted(request_id, dict(metrics)))
        _settle(draft, None if draft.state.phase is not state.phase else _named(draft.events))
    return draft.done()


def progress_reported(state: ExperimentState, env: Env, request_id: str, fraction: float) -> Step:
    draft = _Draft(state, env)
    trial = state.trials[request_id]
    if not trial.phase.is_terminal:
        draft.put(replace(trial, progress=fraction))
        _feed(draft, TrialProgress(request_id, fraction))
    return draft.done()


def early_exit_reported(
    state: ExperimentState, env: Env, request_id: str, reason: ExitReason
) -> Step:
    """The task says that it will leave for good, and why. Repeats by other ranks change nothing."""
    draft = _Draft(state, env)
    trial = state.trials[request_id]
    if trial.early_exit is None and not trial.phase.is_terminal:
        draft.put(replace(trial, early_exit=reason, early_exit_at=env.now))
    return draft.done()


def checkpoint_reported(
    state: ExperimentState, env: Env, request_id: str, uuid: str, steps: int
) -> Step:
    """A later checkpoint is where the next run starts; one at the same step replaces it."""
    draft = _Draft(state, env)
    trial = state.trials[request_id]
    if trial.latest_checkpoint is None or steps >= trial.latest_checkpoint_steps:
        draft.put(replace(trial, latest_checkpoint=uuid, latest_checkpoint_steps=steps))
    return draft.done()


def runner_state_reported(state: ExperimentState, env: Env, request_id: str, text: str) -> Step:
    draft = _Draft(state, env)
    draft.put(replace(state.trials[request_id], runner_state=text))
    return draft.done()


def with_metrics(
    state: ExperimentState, trial: TrialState, metrics: TrialMetrics
) -> ExperimentState:
    """The state with a trial's metrics replaced; no consequences by itself."""
    trials = {**state.trials, trial.request_id: replace(trial, metrics=metrics)}
    return replace(state, trials=trials)


# --- what allocations do ------------------------------------------------------------------------------------------


def allocation_event(
    state: ExperimentState, env: Env, allocation_id: str, step: AllocationStep
) -> Step:
    """Apply a step of `master.allocations.machine` to a trial's current run, then draw the consequences."""
    draft = _Draft(state, env)
    trial = state.trial_of_allocation(allocation_id)
    if (
        trial.allocation is None
    ):  # pragma: no cover - trial_of_allocation found it by its allocation
        return draft.done()
    new, effects = step(trial.allocation)
    draft.effects.extend(effects)
    if new is not trial.allocation:
        draft.put(replace(trial, allocation=new))
        if not new.is_open and trial.allocation.is_open:
            _run_ended(draft, trial.request_id)
        _settle(draft, _named(draft.events) | {trial.request_id})
    return draft.done()


def clock_ticked(state: ExperimentState, env: Env) -> Step:
    """Deadlines: preemption timeouts, and tasks that reported invalid hyperparameters but did not leave."""
    draft = _Draft(state, env)
    touched: set[str] = set()
    for trial in state.trials.values():
        run = trial.open_allocation
        if run is None:
            continue
        new, effects = allocation.expired(run, now=env.now)
        overdue = (
            trial.early_exit_at is not None and env.now >= trial.early_exit_at + INVALID_HP_GRACE
        )
        if overdue and new.kill_reason is None:
            new, effects = allocation.kill(
                run, "it reported invalid hyperparameters but did not exit", now=env.now
            )
        if new is not run:
            _end_run(draft, trial, (new, effects))
            touched.add(trial.request_id)
    if touched:
        _settle(draft, _named(draft.events) | touched)
    return draft.done()


def next_deadline(state: ExperimentState) -> datetime | None:
    """When `clock_ticked` has something to do, if ever."""
    times = []
    for trial in state.trials.values():
        run = trial.open_allocation
        if run is None or run.kill_reason is not None:
            continue
        if run.preempt_deadline is not None:
            times.append(run.preempt_deadline)
        if trial.early_exit_at is not None:
            times.append(trial.early_exit_at + INVALID_HP_GRACE)
    return min(times, default=None)


def _run_ended(draft: _Draft, request_id: str) -> None:
    """What a trial does when its run is over. First match wins (reference: the life of an allocation)."""
    trial = draft.state.trials[request_id]
    run = trial.allocation
    outcome = run.outcome if run is not None else None
    if run is None or outcome is None:
        return
    failed = outcome.kind is OutcomeKind.FAILED
    if trial.phase.is_stopping:
        phase = Phase.ERROR if failed else TERMINAL_OF[trial.phase]
        _close_trial(draft, trial, phase, outcome.error)
    elif trial.early_exit is not None:
        _close_trial(draft, trial, Phase.COMPLETED, outcome.error)
    elif outcome.kind is OutcomeKind.TRANSIENT:
        aborts = trial.aborts + 1 if run.never_ran else 0
        if aborts > MAX_ABORTS:
            error = f"its runs could not be started {aborts} times in a row: {outcome.error}"
            _close_trial(draft, trial, Phase.ERROR, error)
        else:
            draft.put(replace(trial, aborts=aborts))
    elif failed:
        if trial.restarts >= draft.state.settings.max_restarts:
            _close_trial(
                draft, replace(trial, restarts=trial.restarts + 1), Phase.ERROR, outcome.error
            )
        else:
            draft.put(replace(trial, restarts=trial.restarts + 1, aborts=0))
    elif outcome.kind is OutcomeKind.FINISHED:
        _close_trial(draft, trial, Phase.COMPLETED, "")
    # Preempted, killed or withdrawn: it runs again when its experiment is active.


def _close_trial(draft: _Draft, trial: TrialState, phase: Phase, error: str) -> None:
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
        _feed(draft, TrialExitedEarly(trial.request_id, ExitReason.ERRORED))
    elif phase is Phase.CANCELED:
        _feed(draft, TrialExitedEarly(trial.request_id, ExitReason.USER_CANCELED))
    elif trial.early_exit is not None and not trial.searcher_stopped:
        _feed(draft, TrialExitedEarly(trial.request_id, trial.early_exit))
    _feed(draft, TrialExited(trial.request_id))


# --- the search ---------------------------------------------------------------------------------------------------


def _feed(draft: _Draft, event: Event) -> None:
    """Tell the searcher, log it, carry out what it answers: creates in order, then stops, then the end."""
    if draft.state.phase.is_stopping or draft.state.phase.is_terminal:
        return
    search = draft.env.search
    try:
        searcher, actions = search.on(draft.state.searcher, event)
    except InvalidArgument as error:
        _fail(draft, error.message)
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
        _feed(draft, TrialCreated(action.request_id))
    for stop in actions:
        if isinstance(stop, Stop):
            _stop_trial(draft, stop.request_id)
    for end in actions:
        if isinstance(end, Shutdown):
            _shut_down(draft, end)


def _create_trial(draft: _Draft, action: Create) -> None:
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


def _stop_trial(draft: _Draft, request_id: str) -> None:
    trial = draft.state.trials[request_id]
    if trial.phase is Phase.ACTIVE:
        draft.put(replace(trial, phase=Phase.STOPPING_COMPLETED, searcher_stopped=True))


def _shut_down(draft: _Draft, action: Shutdown) -> None:
    phase = Phase.STOPPING_COMPLETED
    if action.failure:
        phase = Phase.STOPPING_ERROR
    elif action.cancel:
        phase = Phase.STOPPING_CANCELED
    error = "every trial of the search failed" if action.failure else ""
    draft.state = replace(draft.state, phase=phase, error=error)


def _fail(draft: _Draft, error: str) -> None:
    if Phase.STOPPING_ERROR in ALLOWED[draft.state.phase]:
        draft.state = replace(draft.state, phase=Phase.STOPPING_ERROR, error=error)


# --- from phases to runs ------------------------------------------------------------------------------------------


def _named(events: Iterable[LoggedEvent]) -> set[str]:
    """Trials that searcher actions created or stopped."""
    return {a.request_id for e in events for a in e.actions if isinstance(a, Create | Stop)}


def _settle(draft: _Draft, touched: Iterable[str] | None = None) -> None:
    """Make every touched trial's run (all trials: None) what the phases ask for, then see if all is over.

    Closing a trial may create or stop others, or end the search: those are settled in the next round.
    """
    while True:
        phase, logged = draft.state.phase, len(draft.events)
        everyone = touched is None or phase.is_stopping
        for request_id in list(draft.state.trials) if everyone else list(touched or ()):
            _settle_trial(draft, request_id)
        fresh = _named(draft.events[logged:])
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


def _settle_trial(draft: _Draft, request_id: str) -> None:
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
            _close_trial(draft, trial, TERMINAL_OF[trial.phase], trial.error)
        elif experiment is Phase.ACTIVE:
            _request_run(draft, trial)
        return
    if trial.phase in (Phase.STOPPING_KILLED, Phase.STOPPING_ERROR):
        _end_run(draft, trial, allocation.kill(run, _WHY[trial.phase], now=draft.env.now))
    elif trial.phase.is_stopping or experiment is Phase.PAUSED:
        why = _WHY[trial.phase if trial.phase.is_stopping else Phase.PAUSED]
        _end_run(draft, trial, allocation.terminate(run, why, now=draft.env.now))


_WHY = {
    Phase.PAUSED: "the experiment was paused",
    Phase.STOPPING_COMPLETED: "the searcher stopped the trial",
    Phase.STOPPING_CANCELED: "it was canceled",
    Phase.STOPPING_KILLED: "it was killed",
    Phase.STOPPING_ERROR: "the experiment failed",
}


def _end_run(draft: _Draft, trial: TrialState, step: allocation.Step) -> None:
    new, effects = step
    if new is trial.allocation:
        return
    draft.put(replace(trial, allocation=new))
    draft.effects.extend(effects)
    if not new.is_open:
        _run_ended(draft, trial.request_id)


def _request_run(draft: _Draft, trial: TrialState) -> None:
    settings = draft.state.settings
    run_id = trial.run_id + 1
    run = AllocationState(
        id=f"{trial.task_id}.{run_id}",
        task_id=trial.task_id,
        run_id=run_id,
        pool=settings.pool,
        slots=settings.slots_per_trial,
        requested_at=draft.env.now,
        preemption_timeout_s=settings.preemption_timeout_s,
    )
    if trial.allocation is not None:
        draft.replaced[trial.request_id] = trial.allocation
    draft.put(replace(trial, run_id=run_id, allocation=run))
    draft.effects.append(allocation.AskResources(run.id))
