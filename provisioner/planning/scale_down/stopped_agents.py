"""Whether machines without work are stopped instead of ended, as a pool sets it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedAgents:
    """The keys of `stopped_agents` of a pool. Off unless some may be kept."""

    max: int = 0
    """So many stopped machines are kept at the most."""
    max_age_s: float = 3 * 86_400.0
    """One that was stopped for longer is ended."""
    expected_gap_s: float = 8 * 3600.0
    """How long a machine is probably stopped until work needs it again, until the pool knows better."""

    @property
    def is_on(self) -> bool:
        return self.max > 0


NO_STOPPED_AGENTS = StoppedAgents()
