"""What happens to a command: pure steps over `CommandState`, each with the effects to run once it is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from master.allocations import machine as allocation
from master.allocations import pauses
from master.allocations.machine import AllocationState, Effects, Outcome, OutcomeKind
from master.allocations.pauses import MAX_ABORTS, pause_after
from master.core.jobs import JobChange, SetPlace, SetPriority
from master.core.reasons import Reason
from master.tasks.state import CommandPhase, CommandState
from windlass.base.errors import InvalidArgument, InvalidState

SUCCESS = "success"
"""The exit status that the published clients know."""


@dataclass(frozen=True, slots=True)
class Step:
    state: CommandState
    effects: Effects = ()


AllocationStep: TypeAlias = Callable[[AllocationState], allocation.Step]


def launch(state: CommandState, now: datetime) -> Step:
    """A new command: ask for its slots."""
    return _request_run(state, now)


def settle(state: CommandState, now: datetime) -> Step:
    """Make the run match the phase: for a restarted master."""
    run = state.open_allocation
    if state.phase is CommandPhase.ACTIVE and run is None:
        return _request_run(state, now)
    return Step(state)


def kill(state: CommandState, now: datetime, reason: str) -> Step:
    """End it now. What is over stays as it is."""
    if state.is_over:
        return Step(state)
    run = state.open_allocation
    if run is None:
        return Step(_over(state, now, f"killed before it started: {reason}"))
    stopping = replace(state, phase=CommandPhase.STOPPING)
    return _run_stepped(stopping, now, allocation.kill(run, reason, now=now))


def allocation_event(
    state: CommandState, now: datetime, allocation_id: str, step: AllocationStep
) -> Step:
    """Apply a step of `master.allocations.machine` to the current run. An earlier run is history: nothing changes."""
    run = state.allocation
    if run is None or run.id != allocation_id:
        return Step(state)
    return _run_stepped(state, now, step(run))


def clock_ticked(state: CommandState, now: datetime) -> Step:
    """The pause after a run that could not be started may be over."""
    due = next_deadline(state)
    return _request_run(state, now) if due is not None and now >= due else Step(state)


def next_deadline(state: CommandState) -> datetime | None:
    """When `clock_ticked` has something to do, if ever."""
    return state.not_before if state.phase is CommandPhase.ACTIVE else None


def why_it_pauses(state: CommandState) -> Reason | None:
    """The reason of one whose runs could not be started: it is tried again after a pause."""
    run = state.allocation
    if state.not_before is None or run is None or run.outcome is None:
        return None
    return pauses.why_it_pauses(run.run_id, run.outcome, state.not_before)


def change_job(state: CommandState, change: JobChange) -> CommandState:
    """What of a job can be changed here. The same value again changes nothing.

    What runs already goes on running, whatever its place.
    """
    if state.is_over:
        raise InvalidState(f"command {state.id} is over ({state.exit_status})")
    match change:
        case SetPriority(priority) if priority == state.config.resources.priority:
            return state
        case SetPriority(priority):
            return replace(_with_priority(state, priority), position=None)
        case SetPlace(position, priority):
            return replace(_with_priority(state, priority), position=position)
        case _:
            raise InvalidArgument(
                f"command {state.id} cannot be moved to another pool, and its weight and max_slots are fixed: "
                "only its priority and its place in the queue can be changed; kill it and start it again instead"
            )


def _with_priority(state: CommandState, priority: int | None) -> CommandState:
    resources = state.config.resources.model_copy(update={"priority": priority})
    return replace(state, config=state.config.model_copy(update={"resources": resources}))


# --- runs ---------------------------------------------------------------------------------------------------------


def _request_run(state: CommandState, now: datetime) -> Step:
    run_id = state.allocation.run_id + 1 if state.allocation is not None else 1
    run = AllocationState(
        id=f"{state.id}.{run_id}",
        task_id=state.id,
        run_id=run_id,
        pool=state.pool,
        slots=state.config.resources.slots,
        requested_at=now,
        preemptible=False,
    )
    return Step(replace(state, allocation=run, not_before=None), (allocation.AskResources(run.id),))


def _run_stepped(state: CommandState, now: datetime, step: allocation.Step) -> Step:
    run, effects = step
    was_open = state.open_allocation is not None
    state = replace(state, allocation=run)
    if was_open and run.outcome is not None:
        state = _run_ended(state, now, run, run.outcome)
    return Step(state, effects)


def _run_ended(
    state: CommandState, now: datetime, run: AllocationState, outcome: Outcome
) -> CommandState:
    """So has the command, unless nothing of the user's ever ran."""
    refused = run.never_ran and outcome.kind is not OutcomeKind.FAILED
    if not refused or state.phase is CommandPhase.STOPPING:
        return _over(state, now, exit_status(run, outcome))
    if run.run_id > MAX_ABORTS:
        status = f"task failed: it could not be started {run.run_id} times in a row: "
        return _over(state, now, status + (outcome.error or outcome.reason))
    return replace(state, not_before=now + pause_after(run.run_id))


def _over(state: CommandState, now: datetime, status: str) -> CommandState:
    return replace(
        state,
        phase=CommandPhase.TERMINATED,
        exit_status=status,
        ended_at=now,
        not_before=None,
    )


def exit_status(run: AllocationState, outcome: Outcome) -> str:
    """One line for people, in the words that users of the published clients know."""
    if outcome.kind is OutcomeKind.FINISHED:
        return SUCCESS
    if outcome.kind is OutcomeKind.WITHDRAWN:
        return f"killed before it started: {outcome.reason}"
    if outcome.kind is OutcomeKind.KILLED:
        return f"killed: {run.kill_reason}"
    if outcome.kind is OutcomeKind.FAILED and outcome.exit_code is not None:
        message = run.failure.message if run.failure is not None else ""
        return f"task failed with exit code {outcome.exit_code}" + (
            f": {message}" if message else ""
        )
    return f"task failed without an exit code: {outcome.error or outcome.reason}"
