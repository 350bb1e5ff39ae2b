"""What happens to an interactive task: pure steps over `TaskState`, each with effects to run once it is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from master.allocations import backoff
from master.allocations import machine as allocation_machine
from master.allocations.backoff import MAX_ABORTS, backoff_after
from master.allocations.clock_jumps import shifted, since, until
from master.allocations.effects import AskResources, Effects
from master.allocations.machine import AllocationPhase, AllocationState
from master.allocations.outcome import Outcome, OutcomeKind
from master.allocations.start_failures import start_failure
from master.core.jobs import JobChange, SetPlace, SetPriority
from master.core.reasons import Reason
from master.tasks.kinds import Readiness
from master.tasks.state import Ending, TaskPhase, TaskState
from windlass.base.errors import InvalidArgument, InvalidState
from windlass.base.formats.durations import format_duration

SUCCESS = "success"
"""The exit status that the published clients know."""
ACTIVITY_WRITTEN_EVERY = timedelta(seconds=30)
"""At most: after a restart of the master an idle task may end so much too early."""

TOLD_AFTER_RESTART = timedelta(minutes=2)
"""Agents are back by then, and launchers have reported."""


@dataclass(frozen=True, slots=True)
class TaskStep:
    state: TaskState
    effects: Effects = ()


AllocationStep: TypeAlias = Callable[[AllocationState], allocation_machine.Step]


def launch(state: TaskState, now: datetime) -> TaskStep:
    """A new task: ask for its slots."""
    return _request_allocation(state, now)


def settle(state: TaskState, now: datetime) -> TaskStep:
    """Make the allocation match the phase: for a restarted master."""
    state = with_activity(state, _active_at_least(state, now))
    allocation = state.open_allocation
    if allocation is not None:
        return _allocation_stepped(state, now, (allocation, ()))
    return _request_allocation(state, now) if state.phase is TaskPhase.ACTIVE else TaskStep(state)


def kill(state: TaskState, now: datetime, reason: str) -> TaskStep:
    """End it now. What is over stays as it is."""
    if state.is_over:
        return TaskStep(state)
    allocation = state.open_allocation
    if allocation is None:
        when = "while it was paused" if state.phase is TaskPhase.PAUSED else "before it started"
        return TaskStep(_over(state, now, f"{_killed(reason)} {when}", Ending.CANCELED))
    stopping = replace(state, phase=TaskPhase.STOPPING)
    return _allocation_stepped(stopping, now, allocation_machine.kill(allocation, reason, now=now))


def pause(state: TaskState, now: datetime, reason: str) -> TaskStep:
    """Have it leave its slots and not ask for others. Raises InvalidState for what cannot be paused now."""
    if state.kind.can_pause and not state.may_leave:
        raise InvalidState(f"{state.name} cannot be paused: it was created with noPause")
    if state.is_over or state.phase in (TaskPhase.STOPPING, TaskPhase.PAUSING, TaskPhase.PAUSED):
        raise InvalidState(f"{state.name} cannot be paused: it is in state {generic_state(state)}")
    allocation = state.open_allocation
    if allocation is None:
        return TaskStep(replace(state, phase=TaskPhase.PAUSED, not_before=None))
    pausing = replace(state, phase=TaskPhase.PAUSING)
    return _allocation_stepped(
        pausing, now, allocation_machine.terminate(allocation, reason, now=now)
    )


def unpause(state: TaskState, now: datetime) -> TaskStep:
    """Run it again: at once, or when it has left. Raises InvalidState for one that is not paused."""
    if state.phase is TaskPhase.PAUSING:
        return TaskStep(replace(state, phase=TaskPhase.RESUMING))
    if state.phase is not TaskPhase.PAUSED:
        raise InvalidState(
            f"{state.name} cannot be unpaused: it is not paused, but in state {generic_state(state)}"
        )
    ran_before = state.allocation.run_id if state.allocation is not None else 0
    return _request_allocation(replace(state, phase=TaskPhase.ACTIVE, ran_before=ran_before), now)


def generic_state(state: TaskState) -> str:
    """The state of a generic task in the words of the published API."""
    if state.phase is TaskPhase.TERMINATED:
        return (state.ending or Ending.ERROR).value
    allocation = state.open_allocation
    if state.phase in (TaskPhase.ACTIVE, TaskPhase.RESUMING) and allocation is not None:
        if allocation.failure is not None:
            return "STOPPING_ERROR"
        if allocation.containers and all(c.ended or c.daemon for c in allocation.containers):
            return "STOPPING_COMPLETED"
    return _GENERIC_STATES[state.phase]


_GENERIC_STATES = {
    TaskPhase.ACTIVE: "ACTIVE",
    TaskPhase.PAUSING: "STOPPING_PAUSED",
    TaskPhase.PAUSED: "PAUSED",
    TaskPhase.RESUMING: "ACTIVE",
    TaskPhase.STOPPING: "STOPPING_CANCELED",
}


def allocation_event(
    state: TaskState, now: datetime, allocation_id: str, step: AllocationStep
) -> TaskStep:
    """Apply a step of `allocations.machine` to the current allocation. An earlier one is history: nothing changes."""
    allocation = state.allocation
    if allocation is None or allocation.id != allocation_id:
        return TaskStep(state)
    return _allocation_stepped(state, now, step(allocation))


def clock_ticked(state: TaskState, now: datetime, *, active_at: datetime | None = None) -> TaskStep:
    """The pause after an allocation that could not be started may be over; an idle task may have to end.

    `active_at`: its last activity, if any is known.
    """
    state = with_activity(state, active_at)
    due = next_deadline(state)
    if due is None or now < due:
        return TaskStep(state)
    allocation = state.open_allocation
    if allocation is None:
        return _request_allocation(state, now)
    leave_by = _leave_by(allocation)
    if leave_by is not None and now >= leave_by:
        return _allocation_stepped(state, now, allocation_machine.expired(allocation, now=now))
    limit = format_duration(state.idle_timeout or timedelta(0))
    return kill(state, now, f"idle for more than {limit}: service is inactive")


def clock_jumped(state: TaskState, now: datetime, *, by: timedelta) -> TaskStep:
    """The wall clock was set: everything is exactly as old as it was."""
    if state.is_over:
        return TaskStep(state)
    allocation = state.allocation
    return TaskStep(
        replace(
            state,
            not_before=until(state.not_before, by),
            active_at=since(state.active_at, by, now),
            allocation=None if allocation is None else shifted(allocation, by, now),
        )
    )


def next_deadline(state: TaskState) -> datetime | None:
    """When `clock_ticked` has something to do, if ever."""
    allocation = state.open_allocation
    is_active = state.phase is TaskPhase.ACTIVE
    if allocation is None:
        return state.not_before if is_active else None
    leave_by = _leave_by(allocation)
    idle_at = ends_idle_at(state)
    if not is_active or idle_at is None:
        return leave_by
    return idle_at if leave_by is None else min(leave_by, idle_at)


def ends_idle_at(state: TaskState) -> datetime | None:
    """When it is ended if nobody uses it until then; None: never, or it does not run."""
    if state.open_allocation is None or state.idle_timeout is None or state.active_at is None:
        return None
    return state.active_at + state.idle_timeout


def _leave_by(allocation: AllocationState) -> datetime | None:
    """When one that was asked to leave, or that goes on without what it needs, is killed."""
    if allocation.daemon_deadline is not None:
        return allocation.daemon_deadline
    is_asked = allocation.preemptible and allocation.kill_reason is None
    return allocation.preempt_deadline if is_asked else None


def is_activity_due(state: TaskState, active_at: datetime | None) -> bool:
    """Whether this activity is to be written down: a restart may not forget much of it."""
    limit = state.idle_timeout
    if state.is_over or active_at is None or limit is None or state.active_at is None:
        return False
    return active_at - state.active_at >= min(limit / 10, ACTIVITY_WRITTEN_EVERY)


def _active_at_least(state: TaskState, now: datetime) -> datetime | None:
    """While there was no master nobody could tell it: whoever is in use says so before the task is ended."""
    limit = state.idle_timeout
    return None if limit is None else now - limit + min(limit, TOLD_AFTER_RESTART)


def with_activity(state: TaskState, active_at: datetime | None) -> TaskState:
    """With a later activity than the one it knows."""
    if active_at is None or state.active_at is None or active_at <= state.active_at:
        return state
    return replace(state, active_at=active_at)


def backoff_reason(state: TaskState) -> Reason | None:
    """The reason of one whose allocations could not be started: it is tried again after a pause."""
    allocation = state.allocation
    if state.not_before is None or allocation is None or allocation.outcome is None:
        return None
    tries = allocation.run_id - state.ran_before
    if tries < 1:
        return None
    return backoff.backoff_reason(tries, allocation.outcome, state.not_before)


def change_job(state: TaskState, change: JobChange) -> TaskState:
    """What of a job can be changed here. The same value again changes nothing.

    What runs already goes on running, whatever its place.
    """
    if state.is_over:
        raise InvalidState(f"{state.name} has already ended ({state.exit_status})")
    match change:
        case SetPriority(priority) if priority == state.config.resources.priority:
            return state
        case SetPriority(priority):
            return replace(_with_priority(state, priority), position=None)
        case SetPlace(position, priority):
            return replace(_with_priority(state, priority), position=position)
        case _:
            raise InvalidArgument(
                f"{state.name} cannot be moved to another pool, and its weight and max_slots are fixed: "
                "only its priority and its place in the queue can be changed; kill it and start it again instead"
            )


def _with_priority(state: TaskState, priority: int | None) -> TaskState:
    resources = state.config.resources.model_copy(update={"priority": priority})
    return replace(state, config=state.config.model_copy(update={"resources": resources}))


def _request_allocation(state: TaskState, now: datetime) -> TaskStep:
    run_id = state.allocation.run_id + 1 if state.allocation is not None else 1
    allocation = AllocationState(
        id=f"{state.id}.{run_id}",
        task_id=state.id,
        run_id=run_id,
        pool=state.pool,
        slots=state.config.resources.slots,
        requested_at=now,
        preemptible=False,
        preemption_timeout_s=state.config.leaves_within_s,
    )
    return TaskStep(
        replace(state, allocation=allocation, not_before=None, active_at=None),
        (AskResources(allocation.id),),
    )


def _allocation_stepped(state: TaskState, now: datetime, step: allocation_machine.Step) -> TaskStep:
    allocation, effects = step
    was_open = state.open_allocation is not None
    runs = allocation.is_open and allocation.phase is AllocationPhase.RUNNING
    if runs and state.kind.readiness is Readiness.STARTED:
        allocation = allocation_machine.marked_ready(allocation)
    serves = allocation.ready and not (state.allocation is not None and state.allocation.ready)
    state = replace(state, allocation=allocation)
    if runs and (state.active_at is None or serves):
        state = replace(state, active_at=now)
    if was_open and allocation.outcome is not None:
        state = _allocation_ended(state, now, allocation, allocation.outcome)
    return TaskStep(state, effects)


def _allocation_ended(
    state: TaskState, now: datetime, allocation: AllocationState, outcome: Outcome
) -> TaskState:
    """So has the task, unless nothing of the user's ever ran, or it had to leave and may come back."""
    if state.phase is TaskPhase.STOPPING:
        return _over(
            state, now, exit_status(allocation, outcome), _ending(outcome, Ending.CANCELED)
        )
    if state.phase is TaskPhase.PAUSING and outcome.kind is not OutcomeKind.FAILED:
        return replace(state, phase=TaskPhase.PAUSED, start_failure=None)
    if _has_left(state, outcome):
        # Without a pause: it did not fail to start, and whoever wanted its slots has them.
        return replace(
            state,
            phase=TaskPhase.ACTIVE,
            start_failure=None,
            ran_before=allocation.run_id,
            not_before=now,
        )
    refused = allocation.never_ran and outcome.kind is not OutcomeKind.FAILED
    if not refused:
        return _over(state, now, exit_status(allocation, outcome), _ending(outcome, Ending.ERROR))
    failure = start_failure(state.start_failure, allocation)
    if failure is not None and failure.is_final:
        return _over(state, now, f"task failed: {failure.text}", Ending.ERROR)
    tries = allocation.run_id - state.ran_before
    if tries > MAX_ABORTS:
        status = f"task failed: it could not be started {tries} times in a row: "
        return _over(state, now, status + (outcome.error or outcome.reason), Ending.ERROR)
    not_before = now + backoff_after(tries)
    return replace(state, start_failure=failure, not_before=not_before)


def _ending(outcome: Outcome, by_us: Ending) -> Ending:
    """`by_us`: of one that did not end by itself."""
    if outcome.kind is OutcomeKind.FINISHED:
        return Ending.COMPLETED
    return Ending.ERROR if outcome.kind is OutcomeKind.FAILED else by_us


def _has_left(state: TaskState, outcome: Outcome) -> bool:
    """Whether what can be paused was stopped by us, and goes on with another allocation.

    Where the time of its batch job was over, only if it knew: what does not save its work would never end.
    """
    if not state.kind.can_pause or outcome.kind is OutcomeKind.FAILED:
        return False
    if state.phase is TaskPhase.RESUMING or outcome.kind is OutcomeKind.PREEMPTED:
        return True
    return outcome.kind is OutcomeKind.KILLED and not outcome.at_limit


def _over(state: TaskState, now: datetime, status: str, ending: Ending) -> TaskState:
    return replace(
        state,
        phase=TaskPhase.TERMINATED,
        ending=ending,
        exit_status=status,
        ended_at=max(now, state.created_at),
        not_before=None,
    )


def _killed(reason: str) -> str:
    """A kill that somebody asked for has the reason "by NAME"."""
    return f"killed {reason}" if reason.startswith("by ") else f"killed: {reason}"


def exit_status(allocation: AllocationState, outcome: Outcome) -> str:
    """One line for people, in the words that users of the published clients know."""
    if outcome.kind is OutcomeKind.FINISHED:
        return SUCCESS
    if outcome.kind is OutcomeKind.WITHDRAWN:
        return f"{_killed(outcome.reason)} before it started"
    if outcome.kind is OutcomeKind.KILLED:
        return _killed(allocation.kill_reason or "")
    if outcome.kind is OutcomeKind.FAILED and outcome.exit_code is not None:
        message = allocation.failure.message if allocation.failure is not None else ""
        return f"task failed with exit code {outcome.exit_code}" + (
            f": {message}" if message else ""
        )
    if outcome.final:
        return f"task failed: {outcome.error}"
    return f"task failed without an exit code: {outcome.error or outcome.reason}"
