"""Telling how far a transfer is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Is told the bytes done and the bytes in all, from any thread, one call at a time."""
LINE_EVERY_S = 10.0


class Counter:
    """Adds up what several threads have done, and tells it."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        if self._progress is not None:
            with self._lock:
                self._done += count
                self._progress(self._done, self._total)


def progress_lines(
    say: Callable[[str], None], what: str, *, clock: Callable[[], float] = time.monotonic
) -> Progress:
    """A line now and then for transfers that take long: `Uploading checkpoint x: 1.5 of 4.0 GB`."""
    due = clock() + LINE_EVERY_S

    def report(done: int, total: int) -> None:
        nonlocal due
        if done < total and clock() >= due:
            due = clock() + LINE_EVERY_S
            say(f"{what}: {done / 1e9:.1f} of {total / 1e9:.1f} GB")

    return report
