"""`disruption` of a pool: when it may disrupt work of its own will, and how much at once. Pure.

What makes a disruption worth it: `move_value`; what is done: `consolidation`.
"""

from __future__ import annotations

from math import floor
from typing import Annotated

from pydantic import Field

from master.core.expconf.models.schema import Number, Section
from provisioner.day_hours import DayHours, is_within


class Disruption(Section):
    """Work that can checkpoint may be moved so that machines can go. Nothing is while anything waits in the pool."""

    packing: bool = False
    """End machines whose work fits on others."""
    replacement: bool = False
    """Replace machines by cheaper ones, on-demand by spot too; the new one is up first."""
    drift: bool = False
    """Replace machines whose image or settings have changed since their launch."""
    share: Annotated[Number, Field(ge=0, le=1)] = 0.1
    """Of the pool's machines at most so many at once, and always one."""
    hours: DayHours = ()
    """Only then: "22:00-06:00", in UTC. None: at any time."""

    @property
    def is_on(self) -> bool:
        return self.packing or self.replacement or self.drift

    def is_open(self, now: float) -> bool:
        return is_within(self.hours, now)

    def most(self, machines: int) -> int:
        """How many machines may be disrupted at once."""
        return max(1, floor(self.share * machines))


NO_DISRUPTION = Disruption()
