"""Slot seconds by day or month: of each label, user and pool, and all together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum

from master.usage.allocations import Interval, UsedAllocation


class Period(StrEnum):
    DAILY = "DAILY"
    MONTHLY = "MONTHLY"

    def first(self, day: date) -> date:
        """Of the period that has this day."""
        return day if self is Period.DAILY else day.replace(day=1)

    def next(self, first: date) -> date:
        """Raises OverflowError at the end of all days."""
        length = timedelta(days=1 if self is Period.DAILY else 31)
        return self.first(first + length)

    def text(self, first: date) -> str:
        return first.isoformat() if self is Period.DAILY else first.isoformat()[:7]


class Kind(StrEnum):
    LABEL = "experiment_label"
    USER = "username"
    POOL = "resource_pool"
    TOTAL = "total"


@dataclass(slots=True)
class Sums:
    """Of one period."""

    first: date
    by: dict[Kind, dict[str, float]] = field(
        default_factory=lambda: {kind: defaultdict(float) for kind in Kind}
    )

    def add(self, one: UsedAllocation, seconds: float) -> None:
        self.by[Kind.TOTAL]["total"] += seconds
        self.by[Kind.USER][one.username] += seconds
        self.by[Kind.POOL][one.pool] += seconds
        for label in set(one.labels or ()):
            self.by[Kind.LABEL][label] += seconds

    def lines(self) -> Iterator[tuple[Kind, str, float]]:
        for kind, sums in self.by.items():
            for key in sorted(sums):
                yield kind, key, sums[key]


def days(first: date, last: date) -> Interval:
    """Both included. Raises OverflowError at the end of all days."""
    return Interval(_start(first), _start(last + timedelta(days=1)))


class Adder:
    """Adds up allocations, a page at a time."""

    def __init__(self, interval: Interval, period: Period, now: datetime) -> None:
        self._interval = interval
        self._period = period
        self._now = now
        self._found: dict[date, Sums] = {}

    def add(self, page: Sequence[UsedAllocation]) -> None:
        for one in page:
            self._add(one)

    def sums(self) -> list[Sums]:
        """In order of time; periods in which nothing ran are left out."""
        return [self._found[first] for first in sorted(self._found)]

    def _add(self, one: UsedAllocation) -> None:
        start = max(one.started_at, self._interval.start)
        end = min(one.until(self._now), self._interval.end)
        first = self._period.first(start.astimezone(UTC).date())
        while one.slots and start < end:
            following = self._period.next(first)
            until = min(end, _start(following))
            seconds = one.slots * (until - start).total_seconds()
            self._found.setdefault(first, Sums(first)).add(one, seconds)
            start, first = until, following


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
