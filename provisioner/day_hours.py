"""Hours of the day, UTC, in which something holds. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from master.core.expconf.models.schema import Items

DAY_S = 86400.0
_HOURS = re.compile(r"(\d\d?):(\d\d)-(\d\d?):(\d\d)")


def _hours(value: Any) -> Any:
    found = _HOURS.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f'{value!r} is no time of the day: write "22:00-06:00", in UTC')
    hours, minutes, until_hours, until_minutes = map(int, found.groups())
    since, until = hours * 60 + minutes, until_hours * 60 + until_minutes
    if minutes > 59 or until_minutes > 59 or max(since, until) * 60 > DAY_S or since == until:
        raise ValueError(f'"{value}" is no time of the day: write "22:00-06:00", in UTC')
    return value


DayHours: TypeAlias = Items[Annotated[str, BeforeValidator(_hours)]]
"""Such as "08:00-18:00"; until before from: past midnight. Empty: at any time."""


@lru_cache
def _seconds_of_day(hours: str) -> tuple[float, float]:
    """From and until, of a value that was checked."""
    since, until = (part.split(":") for part in hours.split("-"))
    return (
        int(since[0]) * 3600.0 + int(since[1]) * 60.0,
        int(until[0]) * 3600.0 + int(until[1]) * 60.0,
    )


def is_within(hours: DayHours, now: float) -> bool:
    at = now % DAY_S
    return not hours or any(
        since <= at < until if since < until else at >= since or at < until
        for since, until in map(_seconds_of_day, hours)
    )


def next_change(hours: DayHours, now: float) -> float:
    """When one of them begins or ends next; infinite if they never do."""
    at = now % DAY_S
    edges = {edge % DAY_S for each in hours for edge in _seconds_of_day(each)}
    return min(
        (now + (edge - at if edge > at else edge - at + DAY_S) for edge in edges), default=inf
    )
