"""One message at a time for each root, in order of arrival: read, decide, commit and swap are safe without locks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")


class SerialQueue:
    """The mailbox of one root. Its owner calls `drain()` before it goes away."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running: asyncio.Task[Any] | None = None

    @property
    def pending(self) -> int:
        """Handlers waiting or running."""
        return len(self._tasks)

    async def run(self, handler: Callable[[], Awaitable[T]]) -> T:
        """Run `handler` when its turn comes.

        A caller cancelled before that takes its handler away; one cancelled later leaves it running to its end.
        """
        if asyncio.current_task() is self._running is not None:
            raise RuntimeError(f"a handler of mailbox {self.name!r} waits for its own mailbox")
        begun = False

        async def turn() -> T:
            nonlocal begun
            async with self._turn:
                begun = True
                self._running = asyncio.current_task()
                try:
                    return await handler()
                finally:
                    self._running = None

        task = asyncio.create_task(turn(), name=f"mailbox {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if begun:
                task.add_done_callback(self._report)
            else:
                task.cancel()
            raise

    async def drain(self) -> None:
        """Wait until everything that was asked for is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _report(self, task: asyncio.Task[Any]) -> None:
        """Nobody else will look at how it ended."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a handler of mailbox %s failed unseen", self.name, exc_info=error)
