"""Which steps of the event loop take long, told by the CPU time of the loop's own thread.

Wall time would name whatever the machine was busy with. A step is one callback, or what a task does between two awaits.
"""

from __future__ import annotations

import asyncio
import time
from asyncio.events import Handle
from collections import deque
from collections.abc import Callable
from typing import Any

import structlog

log = structlog.get_logger(__name__)

SLOW_S = 0.05
"""Of CPU time, in one step."""
HELD = "the event loop was held"
Report = Callable[[str, float], None]
"""(what ran, seconds of CPU)"""


class WatchedLoop(asyncio.SelectorEventLoop):
    """Reports each slow step when the next one begins. Costs a reading of the thread's clock a step."""

    def __init__(self, report: Report | None = None) -> None:
        super().__init__()
        self._ready: deque[Handle] = _Steps(report or log_slow)


class _Steps(deque[Handle]):
    """The queue of what is ready: asyncio takes a step from it, runs it, and takes the next."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report
        self._running: Handle | None = None
        self._began = 0.0

    def popleft(self) -> Handle:
        now = time.thread_time()
        if now - self._began > SLOW_S and self._running is not None:
            self._report(name_of(self._running), now - self._began)
            now = time.thread_time()
        self._running = super().popleft()
        self._began = now
        return self._running


def log_slow(name: str, seconds: float) -> None:
    log.warning(HELD, step=name, cpu_ms=round(seconds * 1000))


def name_of(handle: Handle) -> str:
    """A task by its coroutine and where it waits now, after the step; a callback by its name."""
    callback: Any = handle._callback  # type: ignore[attr-defined]
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", callback))
    names: list[str] = []
    step: Any = task.get_coro()
    while step is not None and (code := getattr(step, "cr_code", None)) is not None:
        frame = step.cr_frame
        names.append(f"{code.co_qualname}:{frame.f_lineno}" if frame else code.co_qualname)
        step = step.cr_await
    return " > ".join(names[-3:])
