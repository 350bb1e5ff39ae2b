"""Allocations that end before they start: when the next try is, what is said meanwhile, and when it is enough."""

from __future__ import annotations

from datetime import datetime, timedelta

from master.allocations.outcome import Outcome
from master.core.reasons import Reason, ReasonKind

MAX_ABORTS = 10
"""Allocations of an interactive task in a row that end before they start. Of a trial: `max_lost_runs`."""
LONGEST_PAUSE_S = 60.0
"""Between allocations that could not be started: 1, 2, 4, ... seconds, up to this."""


def backoff_after(aborts: int) -> timedelta:
    """`aborts`: how many in a row, at least 1."""
    return timedelta(seconds=min(2.0 ** (aborts - 1), LONGEST_PAUSE_S))


def backoff_reason(aborts: int, last: Outcome, not_before: datetime) -> Reason:
    return Reason(
        kind=ReasonKind.STARTING,
        text=f"its last {aborts} allocations could not be started ({last.error or last.reason}); "
        f"the next try is at {not_before:%H:%M:%S} UTC",
        retry_at=not_before.timestamp(),
    )
