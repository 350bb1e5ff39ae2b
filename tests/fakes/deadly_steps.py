"""kill -9 at a chosen step: the process dies right before or right after one commit or call that is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class DeadlySteps:
    """Counts the steps of what it watches, and dies at one of them."""

    def __init__(self, at: int = 0, *, after: bool = False) -> None:
        self.steps = 0
        self.killed = asyncio.Event()
        self._at = at
        self._after = after

    def restart_at(self, step: int, *, after: bool) -> None:
        """Count anew, and die at that step; 0: never."""
        self.steps, self._at, self._after = 0, step, after
        self.killed = asyncio.Event()

    def watch(self, owner: Any, *names: str) -> None:
        """Each of these methods of `owner` is a step."""
        for name in names:
            setattr(owner, name, self._deadly(getattr(owner, name)))

    def _deadly(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def step(*args: Any, **more: Any) -> Any:
            self.steps += 1
            dies = self.steps == self._at
            if dies and not self._after:
                await self._die()
            result = await call(*args, **more)
            if dies:
                await self._die()
            return result

        return step

    async def _die(self) -> None:
        self.killed.set()
        await asyncio.Event().wait()  # whoever called is cancelled by the crash
