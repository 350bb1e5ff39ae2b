"""The states of a generic task: a table of what each thing that happens makes of each state, and what always holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeAlias

import pytest
from command_steps import (
    BAD,
    KILLED,
    LATER,
    NOW,
    OK,
    exited,
    granted,
    lost,
    new,
    reported,
    run_of,
    stepped,
)
from hypothesis import given
from hypothesis import strategies as st

from master.allocations import machine as allocation
from master.allocations.effects import AskResources, KillContainers, SignalPreemption
from master.core.expconf import ClusterDefaults
from master.core.expconf.interactive import complete_task
from master.core.expconf.kinds import GenericConfig
from master.core.jobs import JobType
from master.tasks import machine
from master.tasks.machine import TaskStep, generic_state
from master.tasks.persistence import changes
from master.tasks.state import NO_PAUSE, TaskPhase, TaskState
from rm_backends.base import Container, ContainerExit, ContainerPhase, LossKind
from windlass.base.errors import InvalidState

Act: TypeAlias = Callable[[TaskState], TaskStep]


def generic(**config: object) -> TaskState:
    raw = {"entrypoint": ["./run"], **config}
    made = complete_task(GenericConfig, raw, defaults=ClusterDefaults(), description="g")
    return replace(new(), type=JobType.GENERIC, config=made)


def queued() -> TaskState:
    return machine.launch(generic(), NOW).state


def deaf() -> TaskState:
    """It runs, and never asks whether to leave."""
    return reported(granted(queued()), ContainerPhase.RUNNING).state


def listening() -> TaskState:
    return listens(deaf()).state


def leaving() -> TaskState:
    return acts("pause")(listening()).state


def listens(state: TaskState) -> TaskStep:
    return stepped(state, lambda run: (allocation.made_preemptible(run), ()))


def acknowledges(state: TaskState) -> TaskStep:
    return stepped(state, lambda run: (allocation.acknowledged(run), ()))


def leaves(state: TaskState) -> TaskStep:
    return exited(acknowledges(state).state, OK)


def preempted(state: TaskState) -> TaskStep:
    """By the scheduler."""
    return stepped(state, partial(allocation.terminate, reason="others need it", now=NOW))


ACTS: Mapping[str, Act] = {
    "pause": lambda state: machine.pause(state, NOW, "paused by me"),
    "unpause": lambda state: machine.unpause(state, NOW),
    "kill": lambda state: machine.kill(state, NOW, "by me"),
    "leaves": leaves,
    "exit 0": lambda state: exited(state, OK),
    "exit 3": lambda state: exited(state, BAD),
    "exit 137": lambda state: exited(state, KILLED),
    "lost": lost,
}


def acts(name: str) -> Act:
    return ACTS[name]


STATES: Mapping[str, Callable[[], TaskState]] = {
    "queued": queued,
    "deaf": deaf,
    "deaf, paused": lambda: acts("pause")(deaf()).state,
    "listening": listening,
    "leaving": leaving,
    "paused": lambda: leaves(leaving()).state,
    "resuming": lambda: acts("unpause")(leaving()).state,
    "unpaused": lambda: acts("unpause")(leaves(leaving()).state).state,
    "preempted": lambda: preempted(listening()).state,
    "preempted, deaf": lambda: preempted(deaf()).state,
    "killed": lambda: acts("kill")(listening()).state,
    "COMPLETED": lambda: exited(deaf(), OK).state,
    "CANCELED": lambda: acts("kill")(queued()).state,
    "ERROR": lambda: exited(deaf(), BAD).state,
}
TABLE = """
                | pause           | unpause | kill              | leaves    | exit 0    | exit 3 | exit 137  | lost
queued          | PAUSED          | -       | CANCELED          |           |           |        |           |
deaf            | STOPPING_PAUSED | -       | STOPPING_CANCELED |           | COMPLETED | ERROR  | ERROR     | ERROR
deaf, paused    | -               | ACTIVE  | STOPPING_CANCELED |           | PAUSED    | PAUSED | PAUSED    | PAUSED
listening       | STOPPING_PAUSED | -       | STOPPING_CANCELED |           | COMPLETED | ERROR  | ERROR     | ERROR
leaving         | -               | ACTIVE  | STOPPING_CANCELED | PAUSED    | PAUSED    | ERROR  | ERROR     | PAUSED
paused          | -               | ACTIVE  | CANCELED          |           |           |        |           |
resuming        | STOPPING_PAUSED | -       | STOPPING_CANCELED | ACTIVE    | ACTIVE    | ERROR  | ERROR     | ACTIVE
unpaused        | PAUSED          | -       | CANCELED          |           |           |        |           |
preempted       | STOPPING_PAUSED | -       | STOPPING_CANCELED | ACTIVE    | COMPLETED | ERROR  | ERROR     | ERROR
preempted, deaf | STOPPING_PAUSED | -       | STOPPING_CANCELED |           | ACTIVE    | ACTIVE | ACTIVE    | ACTIVE
killed          | -               | -       | STOPPING_CANCELED |           | CANCELED  | CANCELED | CANCELED | CANCELED
COMPLETED       | -               | -       | COMPLETED         |           |           |        |           |
CANCELED        | -               | -       | CANCELED          |           |           |        |           |
ERROR           | -               | -       | ERROR             |           |           |        |           |
"""
"""In the words of the API; "-": refused; empty: cannot happen."""


def cells() -> list[tuple[str, str, str]]:
    head, *lines = [
        [cell.strip() for cell in line.split("|")] for line in TABLE.strip("\n").splitlines()
    ]
    return [
        (line[0], act, cell)
        for line in lines
        for act, cell in zip(head[1:], line[1:], strict=True)
        if cell
    ]


@pytest.mark.parametrize(("state", "act", "becomes"), cells())
def test_what_happens_in_each_state(state: str, act: str, becomes: str) -> None:
    if becomes == "-":
        with pytest.raises(InvalidState):
            acts(act)(STATES[state]())
        return
    assert generic_state(acts(act)(STATES[state]()).state) == becomes


def test_the_names_of_states_in_the_table_are_what_they_are() -> None:
    shown = {name: generic_state(make()) for name, make in STATES.items()}
    assert shown == {
        **dict.fromkeys(STATES, "ACTIVE"),
        "deaf, paused": "STOPPING_PAUSED",
        "leaving": "STOPPING_PAUSED",
        "paused": "PAUSED",
        "killed": "STOPPING_CANCELED",
        **{end: end for end in ("COMPLETED", "CANCELED", "ERROR")},
    }


def test_only_what_listens_is_asked_to_leave() -> None:
    assert acts("pause")(deaf()).effects == (KillContainers("cmd.1"),)
    assert acts("pause")(listening()).effects == (SignalPreemption("cmd.1"),)


def test_what_does_not_leave_in_time_is_killed_and_is_paused_then() -> None:
    state = acts("pause")(
        listens(
            reported(
                granted(machine.launch(generic(preemption_timeout=60), NOW).state),
                ContainerPhase.RUNNING,
            ).state
        ).state
    ).state
    assert machine.next_deadline(state) == NOW + timedelta(seconds=60)
    late = machine.clock_ticked(state, NOW + timedelta(seconds=60))
    assert late.effects == (KillContainers("cmd.1"),)
    assert machine.next_deadline(late.state) is None
    assert generic_state(exited(late.state, KILLED).state) == "PAUSED"


def test_an_unpaused_task_asks_with_the_next_number() -> None:
    step = acts("unpause")(STATES["paused"]())
    assert step.effects == (AskResources("cmd.2"),)
    assert run_of(step.state).run_id == 2


@pytest.mark.parametrize("state", ["preempted", "resuming"])
def test_one_that_has_left_asks_again_at_the_next_tick(state: str) -> None:
    left = leaves(STATES[state]()).state
    assert machine.next_deadline(left) == NOW
    assert machine.clock_ticked(left, NOW).effects == (AskResources("cmd.2"),)
    assert machine.settle(left, LATER).effects == (AskResources("cmd.2"),), "after a restart"


def test_what_cannot_be_paused_says_so() -> None:
    state = replace(listening(), details={NO_PAUSE: True})
    with pytest.raises(InvalidState, match="cannot be paused: it was created with noPause"):
        acts("pause")(state)


def test_a_batch_job_whose_time_is_over_is_no_reason_to_begin_again() -> None:
    """What does not listen has saved nothing: it would run for ever, an allocation at a time."""
    end = partial(
        allocation.terminate,
        reason="its time is over",
        now=NOW,
        deadline=NOW + timedelta(minutes=1),
        kind=LossKind.TIME_LIMIT,
    )
    told = stepped(listening(), end).state
    assert generic_state(leaves(told).state) == "ACTIVE"
    late = machine.clock_ticked(told, NOW + timedelta(minutes=1)).state
    assert generic_state(exited(late, KILLED).state) == "ERROR"


def test_pauses_do_not_count_as_failed_starts() -> None:
    state = STATES["paused"]()
    for _ in range(20):
        state = leaves(
            acts("pause")(
                listens(
                    reported(granted(acts("unpause")(state).state), ContainerPhase.RUNNING).state
                ).state
            ).state
        ).state
    again = granted(acts("unpause")(state).state)
    assert run_of(again).run_id == 22
    refused = lost(again).state
    assert generic_state(refused) == "ACTIVE"
    assert refused.not_before == NOW + timedelta(seconds=1)


def test_parts_on_several_agents_stop_together() -> None:
    """The first that fails takes the others with it; until they are gone it is stopping."""
    boxes = tuple(
        Container(container_id=f"c{n}", agent_id=f"a{n}", rank=n, slot_ids=(0,)) for n in range(2)
    )
    grant = partial(allocation.granted, containers=boxes, token_hash="h", ports={})
    state = stepped(queued(), grant).state

    def ends(state: TaskState, box: str, exit_: ContainerExit) -> TaskState:
        return stepped(
            state,
            lambda run: allocation.container_changed(
                run, box, ContainerPhase.TERMINATED, exit_, now=NOW
            ),
        ).state

    assert generic_state(ends(state, "c1", OK)) == "ACTIVE", "the other works on"
    assert generic_state(ends(state, "c1", BAD)) == "STOPPING_ERROR"
    assert generic_state(ends(ends(state, "c1", BAD), "c0", KILLED)) == "ERROR"
    daemon = stepped(state, partial(allocation.marked_daemon, container_id="c1", now=NOW)).state
    assert generic_state(ends(daemon, "c0", OK)) == "STOPPING_COMPLETED"
    assert generic_state(ends(ends(daemon, "c0", OK), "c1", KILLED)) == "COMPLETED"


WALK: Mapping[str, Act] = {
    **ACTS,
    "preempted": preempted,
    "listens": listens,
    "granted": lambda state: TaskStep(granted(state)),
    "running": lambda state: reported(state, ContainerPhase.RUNNING),
    "tick": lambda state: machine.clock_ticked(state, LATER),
    "restart": lambda state: machine.settle(state, LATER),
}


@given(st.lists(st.sampled_from(sorted(WALK)), max_size=40))
def test_whatever_happens(names: list[str]) -> None:
    state = queued()
    for name in names:
        before = state
        try:
            state = WALK[name](state).state
        except InvalidState:
            continue
        allocation_ = state.allocation
        assert allocation_ is not None
        assert run_of(before).run_id <= allocation_.run_id <= run_of(before).run_id + 1
        assert run_of(before).outcome or allocation_.id == run_of(before).id, "one at a time"
        if state.phase in (TaskPhase.PAUSING, TaskPhase.RESUMING, TaskPhase.STOPPING):
            assert allocation_.is_open, "it ends with its allocation, in the same commit"
        if state.phase is TaskPhase.PAUSED or state.is_over:
            assert not allocation_.is_open
        if state.phase is TaskPhase.ACTIVE and not allocation_.is_open:
            assert machine.next_deadline(state) is not None, "nobody would ever run it again"
        assert (state.ending is not None) == state.is_over
        assert not before.is_over or state == before
        changes(before, state)
