"""Times of day and intervals at which rare work is due, as master.yaml says them."""

from __future__ import annotations

import re
from datetime import UTC, timedelta

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from windlass.base.formats.durations import parse_duration

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PART = re.compile(
    r"(?P<first>\*|[0-7]|[a-z]{3})(?:-(?P<last>[0-7]|[a-z]{3}))?(?:/(?P<step>[1-7]))?"
)


def trigger_of(schedule: str) -> BaseTrigger:
    """Of a duration ("24h") or five cron fields, in UTC. Raises ValueError with a sentence."""
    fields = schedule.split()
    try:
        if len(fields) == 5:
            return _cron(*fields)
        every = parse_duration(schedule)
    except ValueError:
        every = timedelta()
    if every < timedelta(seconds=1):
        raise ValueError(f'"{schedule}" is neither a duration such as "24h" nor five cron fields')
    return IntervalTrigger(seconds=int(every.total_seconds()), timezone=UTC)


def _cron(minute: str, hour: str, day: str, month: str, weekday: str) -> BaseTrigger:
    def trigger(day: str, weekday: str) -> BaseTrigger:
        return CronTrigger(
            minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, timezone=UTC
        )

    days = _weekdays(weekday)
    if "*" in (day[:1], weekday[:1]):
        return trigger(day, days)
    # Of two restrictions cron takes either, the scheduler both.
    return OrTrigger([trigger(day, "*"), trigger("*", days)])


def _weekdays(field: str) -> str:
    """By name: cron counts from Sunday, the scheduler from Monday. Raises ValueError."""
    if field == "*":
        return field
    found: set[str] = set()
    for part in field.lower().split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(part)
        first, last = (0, 6) if match["first"] == "*" else (_number(match["first"]), None)
        if match["last"]:
            last = _number(match["last"])
        elif match["step"]:
            last = 6
        last = first if last is None else last + 7 * (last < first)
        found.update(_DAYS[n % 7] for n in range(first, last + 1, int(match["step"] or 1)))
    return ",".join(day for day in _DAYS[1:] if day in found)


def _number(day: str) -> int:
    return int(day) if day.isdigit() else _DAYS.index(day)
