"""`stopped_agents` of a pool: whether machines without work are stopped instead of ended."""

from __future__ import annotations

from datetime import timedelta

from master.core.expconf.models.durations import PositiveDuration
from master.core.expconf.models.schema import NonNegative, Section


class StoppedAgents(Section):
    """A stopped machine costs its disk only, and starts faster than a new one boots. Idle on-demand machines are
    stopped instead of ended where that is cheaper; work that waits starts them before anything is bought."""

    max: NonNegative = 0
    """So many stopped machines at the most. 0: none, and machines that somebody stopped are ended."""
    max_age: PositiveDuration = timedelta(days=3)
    """One that was stopped for longer is ended."""
    expected_gap: PositiveDuration = timedelta(hours=8)
    """How long a machine probably stays stopped: the more, the cheaper its disk has to be. What is seen in the pool
    replaces this by and by."""

    @property
    def is_on(self) -> bool:
        return self.max > 0


NO_STOPPED_AGENTS = StoppedAgents()
