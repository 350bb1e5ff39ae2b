"""The one loop class: a step that runs when woken or when its interval is over, and survives a failing step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from windlass.base.errors import LeaseLost

log = logging.getLogger(__name__)


class Loop:
    """Runs `step` at once, then whenever `wake()` is called, and at least every `interval_s` seconds.

    Wakes during a step are remembered: the step runs once more. An exception of a step is logged and the loop goes
    on, except `LeaseLost`, which ends the process. Cancellation passes through. A task group owns `run()`.
    """

    def __init__(
        self, name: str, step: Callable[[], Awaitable[None]], *, interval_s: float
    ) -> None:
        self.name = name
        self._step = step
        self._interval_s = interval_s
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._step()
            except LeaseLost:
                raise
            except Exception:
                log.exception("loop step failed: %s", self.name)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._woken.wait()
