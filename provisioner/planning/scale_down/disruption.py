"""When a pool may disrupt work of its own will, and how much at once. Pure.

What makes a disruption worth it: `move_value`; what is done: `consolidation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from provisioner.day_hours import DayHours, is_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """What a pool may do to machines that work. Off by default."""

    packing: bool = False
    """End machines whose work fits on others."""
    replacement: bool = False
    """Replace machines by cheaper ones."""
    drift: bool = False
    """Replace machines whose image or settings have changed since their launch."""
    share: float = 0.1
    """Of the pool's machines at most so many at once, and always one."""
    hours: DayHours = ()
    """Only then."""

    @property
    def is_on(self) -> bool:
        return self.packing or self.replacement or self.drift

    def is_open(self, now: float) -> bool:
        return is_within(self.hours, now)

    def most(self, machines: int) -> int:
        """How many machines may be disrupted at once."""
        return max(1, floor(self.share * machines))


NO_DISRUPTION = Disruption()
