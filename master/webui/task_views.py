"""What somebody who waits for a task reads. Pure: from what is known of it to words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from master.api.enums import TaskState
from windlass.base.states import style_of

MAX_LINE = 400
"""Characters of a log line that are shown."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_SENTENCES: Mapping[TaskState, str] = {
    TaskState.QUEUED: "It waits to be placed on an agent.",
    TaskState.PULLING: "Its image is being pulled.",
    TaskState.STARTING: "Its container is being started.",
    TaskState.RUNNING: "It runs, but its service does not answer yet.",
    TaskState.WAITING: "It waits for its other containers.",
    TaskState.TERMINATING: "It is being ended.",
    TaskState.TERMINATED: "It has ended.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    state: str
    """One word."""
    symbol: str
    sentence: str
    lines: tuple[str, ...]
    """The last ones of its log."""
    next: str
    """Where its service is, from the master's root, once it is ready; before: nothing."""
    over: bool
    closed: bool
    """Whether it never opens for who looks: it is somebody else's."""
    end: str
    """When the time of its node is over, such as that of a batch job; nothing: not as far as is known."""


def task_view(
    state: TaskState,
    *,
    reason: str,
    exit_status: str,
    lines: Iterable[str],
    service: str,
    only_for: str = "",
    ends_at: datetime | None = None,
) -> TaskView:
    """`reason`: why it waits. `service`: the address of what is ready, empty while nothing is.

    `only_for`: its owner, if nobody else but administrators may open it, and who looks is neither.
    """
    over = state is TaskState.TERMINATED
    style = style_of(state.name)
    why = exit_status if over else reason
    sentence = f"It {_verb(state)}: {why}." if why else _SENTENCES.get(state, "")
    if only_for and not over:
        progress = "It runs." if state is TaskState.RUNNING else sentence
        owner = f"It is one of {only_for}, who alone, beside administrators, may open it."
        sentence = f"{progress} {owner}".lstrip()
    return TaskView(
        state=state.name.lower(),
        symbol=style.symbol if style is not None else "",
        sentence=sentence,
        lines=tuple(readable(line) for line in lines),
        next="" if only_for else service.removeprefix("/"),
        over=over,
        closed=bool(only_for),
        end="" if ends_at is None or over else _end(ends_at),
    )


def _end(moment: datetime) -> str:
    return (
        f"This task ends at {moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC, with the time of its node."
    )


def _verb(state: TaskState) -> str:
    return "has ended" if state is TaskState.TERMINATED else "waits"


def readable(line: str) -> str:
    """Without colours and what moves a cursor."""
    return _ESCAPES.sub("", line.rstrip("\r\n"))[:MAX_LINE]
