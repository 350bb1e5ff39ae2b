"""Telling that the wall clock was set: the steady one was not.

Who keeps deadlines as wall times, for people and restarts, moves them by as much: all is exactly as old as it was.
"""

from __future__ import annotations

from windlass.base.clock import Clock

JUMP_S = 2.0
"""Smaller differences between the clocks are drift, and harmless."""


class Clocks:
    """Compares the wall clock with the steady one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = self._difference()

    def jump_s(self) -> float:
        """How far the wall clock has jumped since `settle`, or 0."""
        jump = self._difference() - self._ahead_s
        return jump if abs(jump) > JUMP_S else 0.0

    def settle(self) -> None:
        """What has jumped so far is taken in."""
        self._ahead_s = self._difference()

    def _difference(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()
