"""Hours of the day, UTC, in which something holds. Pure."""

from __future__ import annotations

from math import inf
from typing import TypeAlias

DAY_S = 86400.0

DayHours: TypeAlias = tuple[tuple[float, float], ...]
"""From and until, in seconds of the day; until before from: past midnight. Empty: at any time."""


def is_within(hours: DayHours, now: float) -> bool:
    at = now % DAY_S
    return not hours or any(
        since <= at < until if since < until else at >= since or at < until
        for since, until in hours
    )


def next_change(hours: DayHours, now: float) -> float:
    """When one of them begins or ends next; infinite if they never do."""
    at = now % DAY_S
    edges = {edge % DAY_S for both in hours for edge in both}
    return min(
        (now + (edge - at if edge > at else edge - at + DAY_S) for edge in edges), default=inf
    )
