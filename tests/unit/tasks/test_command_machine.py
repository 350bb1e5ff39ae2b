"""The life of a command: the table of ends, what is tried again, and long random walks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest
from command_steps import (
    AGENT_DIED,
    BAD,
    BAD_MOUNT,
    KILLED,
    LATER,
    NOW,
    OK,
    REFUSED,
    exited,
    granted,
    lost,
    new,
    reported,
    reserved,
    run_of,
    running,
    stepped,
    waiting,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from master.allocations import machine as allocation
from master.allocations.backoff import MAX_ABORTS
from master.allocations.effects import AskResources, Closed, KillContainers, Withdraw
from master.allocations.machine import AllocationPhase
from master.core.jobs import JobChange, SetMaxSlots, SetPlace, SetPool, SetPriority, SetWeight
from master.tasks import machine
from master.tasks.state import TaskPhase, TaskState
from rm_backends.base import ContainerExit, ContainerPhase
from tests.examples import examples
from windlass.base.errors import InvalidArgument, InvalidState


def test_a_new_command_asks_for_its_slots_once() -> None:
    step = machine.launch(new(resources={"slots": 3}), NOW)
    run = run_of(step.state)
    assert step.effects == (AskResources("cmd.1"),)
    assert (run.id, run.task_id, run.slots, run.preemptible) == ("cmd.1", "cmd", 3, False)
    assert machine.settle(step.state, NOW) == machine.TaskStep(step.state)


@pytest.mark.parametrize(
    ("exit_", "status"),
    [
        (OK, "success"),
        (BAD, "task failed with exit code 3"),
        (
            ContainerExit(exit_code=3, message="it said no"),
            "task failed with exit code 3: it said no",
        ),
        (BAD_MOUNT, "task failed without an exit code: no /x here"),
        (AGENT_DIED, "task failed without an exit code: agent died"),
        (KILLED, "task failed with exit code 137"),
    ],
)
def test_the_end_of_its_run_is_its_end(exit_: ContainerExit, status: str) -> None:
    step = exited(running(), exit_)
    assert step.state.phase is TaskPhase.TERMINATED
    assert (step.state.exit_status, step.state.ended_at) == (status, NOW)
    assert step.effects == (Closed("cmd.1"),)


def test_a_lost_agent_ends_what_ran_there() -> None:
    state = lost(running()).state
    assert state.exit_status == "task failed without an exit code: agent a is gone"
    assert machine.settle(state, LATER).effects == ()


@pytest.mark.parametrize(
    "fail", [lost, partial(exited, exit_=REFUSED)], ids=["lost while reserved", "refused"]
)
def test_what_never_started_asks_again_after_a_pause(
    fail: Callable[[TaskState], machine.TaskStep],
) -> None:
    state = fail(reserved()).state
    assert state.phase is TaskPhase.ACTIVE
    assert machine.next_deadline(state) == NOW + timedelta(seconds=1)
    assert machine.clock_ticked(state, NOW).state is state, "not before the pause is over"
    reason = machine.backoff_reason(state)
    assert reason is not None
    assert "could not be started" in reason.text
    again = machine.clock_ticked(state, NOW + timedelta(seconds=1))
    assert again.effects == (AskResources("cmd.2"),)
    assert machine.next_deadline(again.state) is None
    assert machine.backoff_reason(again.state) is None
    assert machine.settle(state, NOW).effects == (AskResources("cmd.2"),), "a restart tries at once"


def test_what_can_never_be_started_ends_after_some_tries() -> None:
    """Each time for another reason."""
    state = waiting()
    reasons = [replace(REFUSED, message=f"no {letter}") for letter in "abcdefghijk"]
    for reason in reasons[:MAX_ABORTS]:
        state = exited(granted(state), reason).state
        assert not state.is_over
        state = machine.clock_ticked(state, LATER).state
    state = exited(granted(state), reasons[-1]).state
    assert state.is_over
    assert state.exit_status == "task failed: it could not be started 11 times in a row: no k"


def test_what_a_node_refuses_three_times_for_one_reason_ends_with_it() -> None:
    state = waiting()
    for _ in range(2):
        state = exited(granted(state), REFUSED).state
        assert not state.is_over
        state = machine.clock_ticked(state, LATER).state
    state = exited(granted(state), REFUSED).state
    assert state.is_over
    why = "it could not be started 3 times in a row on a: disk full"
    assert state.exit_status == f"task failed: {why}"


def test_a_scheduler_that_takes_a_reservation_back_does_not_end_the_command() -> None:
    release = partial(allocation.terminate, reason="the agent is drained", now=NOW)
    asked = stepped(waiting(), release).state
    assert not asked.is_over
    assert machine.clock_ticked(asked, LATER).effects == (AskResources("cmd.2"),)


@pytest.mark.parametrize(
    ("state", "effects"),
    [
        (waiting(), (Withdraw("cmd.1"), Closed("cmd.1"))),
        (lost(reserved()).state, ()),
    ],
    ids=["in the queue", "between two runs"],
)
def test_a_kill_of_what_waits_ends_it_at_once(
    state: TaskState, effects: tuple[object, ...]
) -> None:
    step = machine.kill(state, NOW, "by eve")
    assert step.effects == effects
    assert step.state.phase is TaskPhase.TERMINATED
    assert step.state.exit_status.endswith(" before it started")
    assert "eve" in step.state.exit_status
    assert machine.next_deadline(step.state) is None


def test_a_killed_command_ends_with_its_run_and_is_killed_once() -> None:
    step = machine.kill(running(), NOW, "by eve")
    assert (step.state.phase, step.effects) == (TaskPhase.STOPPING, (KillContainers("cmd.1"),))
    assert machine.kill(step.state, LATER, "by bob").state == step.state
    over = exited(step.state, KILLED).state
    assert over.exit_status == "killed by eve"
    assert machine.kill(over, LATER, "again") == machine.TaskStep(over)


@pytest.mark.parametrize("end", [lost, partial(exited, exit_=REFUSED)])
def test_a_killed_command_is_not_tried_again(end: Callable[[TaskState], machine.TaskStep]) -> None:
    state = end(machine.kill(reserved(), NOW, "by eve").state).state
    assert state.exit_status == "killed by eve"


def test_events_of_an_earlier_run_change_nothing() -> None:
    state = machine.clock_ticked(lost(reserved()).state, LATER).state
    late = partial(allocation.lost, reason="late news", now=NOW)
    assert machine.allocation_event(state, NOW, "cmd.1", late) == machine.TaskStep(state)


def test_priority_and_place_can_be_changed_even_while_it_runs() -> None:
    state = machine.change_job(running(), SetPlace(Decimal("12.5"), 7))
    assert (state.position, state.config.resources.priority) == (Decimal("12.5"), 7)
    state = machine.change_job(state, SetPriority(3))
    assert (state.position, state.config.resources.priority) == (None, 3), "the place is given up"
    assert state.allocation == running().allocation


def test_the_priority_that_it_has_already_changes_nothing() -> None:
    state = machine.change_job(waiting(), SetPlace(Decimal("12.5"), 7))
    assert machine.change_job(state, SetPriority(7)) is state


@pytest.mark.parametrize("change", [SetWeight(2.0), SetPool("other"), SetMaxSlots(1)])
def test_a_command_cannot_be_moved(change: JobChange) -> None:
    with pytest.raises(InvalidArgument, match="cannot be moved"):
        machine.change_job(waiting(), change)


def test_a_job_that_is_over_cannot_be_changed() -> None:
    with pytest.raises(InvalidState, match=r"has already ended \(success\)"):
        machine.change_job(exited(running(), OK).state, SetPriority(3))


EXITS = (OK, BAD, KILLED, REFUSED, BAD_MOUNT, AGENT_DIED)
REFUSAL = f"exit {EXITS.index(REFUSED)}"


def _report(phase: ContainerPhase, exit_: ContainerExit | None = None) -> Callable[..., TaskState]:
    return lambda state: reported(state, phase, exit_).state


EVENTS: dict[str, Callable[[TaskState], TaskState]] = {
    "granted": granted,
    "pulling": _report(ContainerPhase.PULLING),
    "running": _report(ContainerPhase.RUNNING),
    "lost": lambda state: lost(state).state,
    "tick": lambda state: machine.clock_ticked(state, LATER).state,
    "settle": lambda state: machine.settle(state, LATER).state,
    "kill": lambda state: machine.kill(state, NOW, "asked").state,
    "release": lambda state: (
        stepped(state, partial(allocation.terminate, reason="drained", now=NOW)).state
    ),
    **{f"exit {n}": _report(ContainerPhase.TERMINATED, exit_) for n, exit_ in enumerate(EXITS)},
}


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=40))
def test_whatever_happens_nothing_of_the_users_runs_twice(names: list[str]) -> None:
    state, began = waiting(), set[int]()
    for name in names:
        before = state
        if name == REFUSAL and run_of(before).phase is AllocationPhase.RUNNING:
            continue  # an agent refuses only what it has not begun
        state = EVENTS[name](state)
        run = run_of(state)
        assert run.run_id - run_of(before).run_id in (0, 1)
        assert run.run_id <= MAX_ABORTS + 1
        if run.phase is AllocationPhase.RUNNING:
            began.add(run.run_id)
        assert len(began) <= 1
        assert state.is_over == bool(state.exit_status) == (state.ended_at is not None)
        if state.is_over:
            assert state.open_allocation is None
        else:
            assert state.open_allocation is not None or state.not_before is not None
        if before.is_over:
            assert state == before
