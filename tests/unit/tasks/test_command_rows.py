"""What a step of a command writes, and that rows become the same command again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from command_steps import NOW, OK, exited, new, run_of, running, waiting

from master.core.jobs import SetPlace
from master.store import tables
from master.store.unit_of_work import Delete, Insert, Update
from master.tasks import machine
from master.tasks.persistence import changes, task_from_row
from master.tasks.state import TaskState


def test_a_new_command_is_one_unit_of_command_task_and_run() -> None:
    operations = changes(None, waiting()).operations
    inserts = [o.table for o in operations if isinstance(o, Insert)]
    assert inserts == [tables.Task, tables.Command, tables.Allocation]
    assert len(operations) == len(inserts)


def test_what_does_not_change_is_not_written() -> None:
    state = running()
    assert not changes(state, replace(state))


def test_the_end_is_written_for_command_task_and_run_together() -> None:
    old = running()
    operations = changes(old, exited(old, OK).state).operations
    written = {o.table: o.values for o in operations if isinstance(o, Update)}
    assert written[tables.Command] == {
        "state": "TERMINATED",
        "ending": "COMPLETED",
        "exit_status": "success",
        "ended_at": NOW,
    }
    assert written[tables.Task] == {"ended_at": NOW}
    run = written[tables.Allocation]
    assert (run["is_open"], run["token_hash"], run["status_code"]) == (False, None, 0)
    assert Delete(tables.Port, {"allocation_id": "cmd.1"}) in operations


@pytest.mark.parametrize(
    "state",
    [
        new(description="mine", resources={"slots": 0, "weight": 2}, work_dir="/w"),
        waiting(
            idle_timeout="30s", entrypoint="echo hi", environment={"environment_variables": ["A=1"]}
        ),
        machine.change_job(running(), SetPlace(Decimal("1767225600.0000001"), 7)),
        exited(running(), OK).state,
    ],
    ids=["new", "waiting", "moved", "over"],
)
def test_rows_become_the_same_command_again(state: TaskState) -> None:
    [row] = [
        o.rows[0]
        for o in changes(None, state).operations
        if isinstance(o, Insert) and o.table is tables.Command
    ]
    assert task_from_row(tables.Command(**row), state.allocation) == state


def test_a_moved_command_keeps_its_exact_place() -> None:
    place = Decimal("1767225600.123456789012345678901")
    values: dict[str, Any] = {}
    for operation in changes(
        waiting(), machine.change_job(waiting(), SetPlace(place, 7))
    ).operations:
        assert isinstance(operation, Update)
        values |= operation.values
    assert values["queue_position"] == str(place)
    assert values["config"]["resources"]["priority"] == 7
    assert run_of(waiting()).slots == 1
