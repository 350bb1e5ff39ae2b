"""How fast a peer may go on: a token bucket that delays instead of refusing."""

from __future__ import annotations

import asyncio


class Pace:
    """`burst` at once, then `rate` a second. Whoever goes faster is waited for, and nobody else."""

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at: float | None = None

    async def spend(self, cost: float) -> None:
        """Return once it is paid for. Always lets others run first."""
        await asyncio.sleep(self._debt_s(cost, asyncio.get_running_loop().time()))

    def _debt_s(self, cost: float, now: float) -> float:
        earned = 0.0 if self._at is None else (now - self._at) * self._rate
        self._at = now
        self._left = min(self._burst, self._left + earned) - cost
        return max(0.0, -self._left / self._rate)
