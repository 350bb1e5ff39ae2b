"""A progress bar for transfers that take long enough to wonder. Only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from windlass.sdk.session import OnProgress, Session

SHOWN_AFTER_S = 1.0


class _Bar:
    """Appears with the first report after SHOWN_AFTER_S."""

    def __init__(self, what: str, console: Console, clock: Callable[[], float]) -> None:
        self._what = what
        self._console = console
        self._clock = clock
        self._due = clock() + SHOWN_AFTER_S
        self._shown: tuple[Progress, TaskID] | None = None

    def report(self, done: int, total: int) -> None:
        if self._shown is None and self._clock() >= self._due:
            self._shown = self._show(total)
        if self._shown is not None:
            progress, task = self._shown
            progress.update(task, completed=done)

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()

    def _show(self, total: int) -> tuple[Progress, TaskID]:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        progress = Progress(
            *columns, TransferSpeedColumn(), TimeRemainingColumn(), console=self._console
        )
        progress.start()
        return progress, progress.add_task(self._what, total=total)


@contextmanager
def transfer(
    what: str, *, console: Console | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[OnProgress]:
    """Yields a function that is told (bytes done, bytes in all)."""
    if console is None and not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console

    bar = _Bar(what, console or Console(stderr=True), clock)
    try:
        yield bar.report
    finally:
        bar.close()


@contextmanager
def upload(session: Session, what: str) -> Iterator[None]:
    """Shows how much of the bodies that `session` sends meanwhile is on its way."""
    with transfer(what) as report:
        session.on_sent = report
        try:
            yield
        finally:
            session.on_sent = None
