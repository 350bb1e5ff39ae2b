"""Durations in configuration models."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from windlass.base.formats.durations import format_duration, parse_duration


def _validate(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, str):
        raise ValueError(f'{value!r} is not a duration: write "90s", "5m" or "1h30m"')
    return parse_duration(value)


Duration = Annotated[timedelta, BeforeValidator(_validate), PlainSerializer(format_duration)]
"""A pydantic field that accepts Go-style durations only; plain numbers are refused, as in master.yaml."""
