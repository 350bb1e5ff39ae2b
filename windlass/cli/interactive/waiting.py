"""Waiting for a task until it serves: what it waits for, where its launch is, and how it ended if it never served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import typer

from windlass.base.errors import WindlassError
from windlass.cli.interactive.kinds import CliKind
from windlass.cli.job.words import in_names
from windlass.cli.output.follow import follow, patiently, status_line
from windlass.cli.output.text import notice, state_name, waiting_text
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

DETACHED = 130
"""The exit code of a program that was interrupted, as shells have it."""
LAST_LINES = 20
"""Of the log of a task that ended before it served."""
LINE_LIMIT = 100
"""Characters of a log line that are shown while it starts."""


def until_ready(client: Client, kind: CliKind, task_id: str) -> Json:
    """The task as it is once it serves. Raises typer.Exit if it has ended, or for an interrupt, and says so."""
    how = f"Open it: `det {kind.word} open {task_id}`"
    with going_on(f"{kind.name} {task_id}", how, f"det {kind.word} kill {task_id}") as watched:
        with status_line() as show:
            seen = follow(
                lambda: watched.see(_look(client, kind, task_id)),
                lambda one: has_ended(one) or one["ready"],
                lambda one: (
                    None if one["ready"] or has_ended(one) else show(_summary(client, kind, one))
                ),
            )
        if not has_ended(seen):
            return seen
        for entry in client.task_logs(task_id, tail=LAST_LINES):
            notice(str(entry.get("message", "")).rstrip("\n"))
    notice(f"{kind.title} {task_id} has ended: {seen.get('exitStatus') or 'no exit status'}")
    raise typer.Exit(1)


@dataclass(slots=True)
class Watched:
    """What was last seen of a task."""

    is_queued: bool = False

    def see(self, task: Json) -> Json:
        self.is_queued = task.get("state") == "STATE_QUEUED"
        return task


@contextmanager
def going_on(task: str, how: str, stop: str) -> Iterator[Watched]:
    """An interrupt leaves the task as it is, says how to come back, and raises typer.Exit.

    `task`: its kind and id; `how` to come back, a sentence; `stop`: the command that ends it.
    """
    watched = Watched()
    try:
        yield watched
    except KeyboardInterrupt:
        what = "stays in the queue" if watched.is_queued else "keeps running"
        notice(f"\nDetached; {task} {what}. {how}. Stop it: `{stop}`")
        raise typer.Exit(DETACHED) from None


def has_ended(one: Json) -> bool:
    return one.get("state") == "STATE_TERMINATED"


def reasons(client: Client) -> Callable[[Json], None]:
    """Says what a task waits for once that has lasted for two looks: most start at once."""
    last = said = ""

    def tell(one: Json) -> None:
        nonlocal last, said
        reason = waiting_text(one) if one.get("state") == "STATE_QUEUED" else ""
        if reason and reason == last and reason != said:
            notice(f"Waiting: {_named(client, reason)}")
            said = reason
        last = reason

    return tell


def _look(client: Client, kind: CliKind, task_id: str) -> Json:
    """With `ready`, and the last `line` of its log."""
    one = kind.of(client).one(task_id)
    ready, line = False, ""
    if one.get("state") == "STATE_RUNNING":
        allocations = client.task(task_id).get("allocations") or [{}]
        ready = bool(allocations[0].get("isReady"))
    if not ready and one.get("state") not in ("STATE_QUEUED", "STATE_TERMINATED"):
        with suppress(WindlassError):
            line = "".join(str(x.get("log", "")) for x in client.task_logs(task_id, tail=1))
    return {**one, "ready": ready, "line": " ".join(line.split())[:LINE_LIMIT]}


def _summary(client: Client, kind: CliKind, one: Json) -> str:
    waiting = waiting_text(one)
    news = f"waiting: {_named(client, waiting)}" if waiting else one["line"]
    return "  ".join(filter(None, (kind.title, state_name(one.get("state")), news)))


def _named(client: Client, reason: str) -> str:
    (text,) = patiently(lambda: in_names(client, [reason]))
    return text
