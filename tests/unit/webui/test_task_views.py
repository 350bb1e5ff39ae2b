"""What the page of a task says."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from master.api.enums import TaskState
from master.webui.task_views import MAX_LINE, readable, task_view


@pytest.mark.parametrize("state", [s for s in TaskState if s is not TaskState.UNSPECIFIED])
def test_every_state_has_a_sentence_and_a_symbol(state: TaskState) -> None:
    view = task_view(state, reason="", exit_status="", lines=(), service="")
    assert view.sentence.endswith(".")
    assert view.symbol
    assert view.over is (state is TaskState.TERMINATED)


def test_what_waits_says_why_and_what_ended_too() -> None:
    waits = task_view(
        TaskState.QUEUED, reason="needs 2 slots, 1 free", exit_status="", lines=(), service=""
    )
    assert waits.sentence == "It waits: needs 2 slots, 1 free."
    ended = task_view(
        TaskState.TERMINATED, reason="", exit_status="exit code 3", lines=("x",), service=""
    )
    assert ended.sentence == "It has ended: exit code 3."


@pytest.mark.parametrize("state", [TaskState.QUEUED, TaskState.RUNNING, TaskState.TERMINATED])
def test_what_is_somebody_elses_alone_leads_nowhere(state: TaskState) -> None:
    view = task_view(
        state, reason="", exit_status="", lines=(), service="/proxy/x/", only_for="grace"
    )
    assert view.next == ""
    assert view.closed
    owner = "It is one of grace, who alone, beside administrators, may open it."
    assert view.sentence.endswith(owner) is (state is not TaskState.TERMINATED)
    assert "does not answer" not in view.sentence


def test_an_end_is_told_as_long_as_it_is_to_come() -> None:
    def end(state: TaskState) -> str:
        moment = datetime(2026, 11, 24, 19, tzinfo=timezone(timedelta(hours=1)))
        return task_view(state, reason="", exit_status="", lines=(), service="", ends_at=moment).end

    told = "This task ends at 2026-11-24 18:00 UTC, with the time of its node."
    assert end(TaskState.STARTING) == told
    assert end(TaskState.TERMINATED) == ""


def test_log_lines_are_text() -> None:
    assert readable("\x1b[31mred\x1b[0m\x07 \x1b[2Kend\r\n") == "red end"
    assert len(readable("x" * 1000)) == MAX_LINE
