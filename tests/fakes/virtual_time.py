"""An asyncio event loop whose time is virtual, so that hours of the real code pass in seconds, the same way every time.

Nothing ever waits: when no callback is ready, time jumps to the next timer. It does not jump while work outside the
loop is outstanding. Jobs for executors (`asyncio.to_thread`) are carried out one by one, in the order in which they
were submitted, at the moment when nothing else is ready: how fast a thread happens to be changes nothing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
CLOCK_RESOLUTION_S = 1e-6
"""Timers this close are due together: rounding must not leave one just out of reach of a jump."""
OUTSIDE_LIMIT_S = 60.0
"""Real seconds to wait for work outside the loop before a test is given up."""


class NothingLeftToHappen(RuntimeError):
    """Every task waits for something that nobody will do: a deadlock of the code under test."""


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for file descriptors, lets the loop decide what happens next."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self.loop.finish_one_job():
            return super().select(0)
        if self.loop.outside:
            events = super().select(OUTSIDE_LIMIT_S)
            if not events:
                raise NothingLeftToHappen("work outside the loop did not come back")
            return events
        if self.loop.sockets_s and (events := super().select(self.loop.sockets_s)):
            return events
        if timeout is None:
            raise NothingLeftToHappen("no timer, no job, nothing ready")
        self.loop.jump(timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0 and moves only by jumps to the next timer."""

    def __init__(self, *, limit_s: float = float("inf"), sockets_s: float = 0.0) -> None:
        """`sockets_s`: real seconds that what is on its way between sockets of this loop may take before a jump."""
        self._virtual_now = 0.0
        self.sockets_s = sockets_s
        self._limit_s = limit_s
        self.outside = 0
        self._jobs: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._worker = concurrent.futures.ThreadPoolExecutor(1, "virtual-time")
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = CLOCK_RESOLUTION_S

    def time(self) -> float:
        return self._virtual_now

    def jump(self, seconds: float) -> None:
        self._virtual_now += seconds
        if self._virtual_now > self._limit_s:
            raise NothingLeftToHappen(f"still busy after {self._limit_s:g} virtual seconds")

    @contextmanager
    def outside_work(self) -> Iterator[None]:
        """For threads that the loop does not know of: time stands still until they called back."""
        self.outside += 1
        try:
            yield
        finally:
            self.outside -= 1

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Every executor is the same single thread here."""
        future: asyncio.Future[T] = self.create_future()
        self._jobs.append((future, partial(func, *args)))
        return future

    def finish_one_job(self) -> bool:
        """Carry out the oldest job; False if there is none."""
        if not self._jobs:
            return False
        future, job = self._jobs.popleft()
        if future.cancelled():
            return True
        done = self._worker.submit(job)
        error = done.exception()
        if future.cancelled():
            return True
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())
        return True

    def close(self) -> None:
        self._worker.shutdown()
        super().close()


def run(
    main: Coroutine[Any, Any, T], *, limit_s: float = float("inf"), sockets_s: float = 0.0
) -> T:
    """Run `main` on virtual time. Raises NothingLeftToHappen on a deadlock, or after `limit_s` virtual seconds."""

    def new_loop() -> VirtualTimeLoop:
        return VirtualTimeLoop(limit_s=limit_s, sockets_s=sockets_s)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


class LoopClock:
    """A `windlass.base.clock.Clock` that follows the loop in which it was made, from any thread."""

    def __init__(self, start: datetime = START) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = start

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self._start += timedelta(seconds=seconds)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()
