"""Durations of master.yaml with their bounds."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from windlass.base.formats.duration_field import Duration
from windlass.base.formats.durations import format_duration, parse_duration


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError(f"must be > 0s but found {format_duration(value)}")
    return value


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta(0):
        raise ValueError(f"must be >= 0s but found {format_duration(value)}")
    return value


PositiveDuration: TypeAlias = Annotated[Duration, AfterValidator(_positive)]
NonNegativeDuration: TypeAlias = Annotated[Duration, AfterValidator(_not_negative)]

AUTO: Final = "auto"


def _off_is_none(value: Any) -> Any:
    """YAML reads a bare `off` as false."""
    if value is False or value == "off":
        return None
    if value is None or isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, str):
            return parse_duration(value)
    except ValueError:
        pass
    shown = f'"{value}"' if isinstance(value, str) else str(value).lower()
    raise ValueError(f'{shown} is not a duration: write "90s", "30m" or "2h", or off')


DurationOrOff: TypeAlias = Annotated[NonNegativeDuration | None, BeforeValidator(_off_is_none)]


def _idle_period(value: Any) -> Any:
    if value == AUTO:
        return AUTO
    if not isinstance(value, str):
        raise ValueError(f'{value!r} is neither a duration such as "5m" nor {AUTO}')
    return _positive(parse_duration(value))


def _shown_period(value: timedelta | str) -> str:
    return value if isinstance(value, str) else format_duration(value)


# A union by itself would report a bad duration once for each of its members.
IdlePeriod: TypeAlias = Annotated[
    timedelta | Literal["auto"], BeforeValidator(_idle_period), PlainSerializer(_shown_period)
]
