"""Calendar months and days, in UTC: what budgets and costs are counted by. Written `2026-11` and `2026-11-28`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

DAY_S = 86_400.0
"""Of every day: UTC as computers count it has no leap seconds."""


def month_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m")


def month_end(at: float) -> float:
    """When the month of that time is over."""
    now = datetime.fromtimestamp(at, UTC)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp()


def month_start(at: float) -> float:
    now = datetime.fromtimestamp(at, UTC)
    return datetime(now.year, now.month, 1, tzinfo=UTC).timestamp()


def by_month(start: float, end: float) -> Iterator[tuple[str, float, float]]:
    """The part of each month in that time: its name, from, until. Nothing if `end` is not after `start`."""
    while start < end:
        until = min(end, month_end(start))
        yield month_of(start), start, until
        start = until


def day_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def by_day(start: float, end: float) -> Iterator[tuple[str, float, float]]:
    """The part of each day in that time: its name, from, until. Nothing if `end` is not after `start`."""
    while start < end:
        until = min(end, (start // DAY_S + 1) * DAY_S)
        yield day_of(start), start, until
        start = until
