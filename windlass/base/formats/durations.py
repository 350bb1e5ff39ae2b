"""Durations as people write them in YAML: Go style ("90s", "1h30m", "1.5h", "250ms"). Standard library only."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)")


def parse_duration(text: str) -> timedelta:
    """Parse "1h30m", "90s", "-5m" or "0". Raises ValueError that says what is accepted."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return timedelta(0)
    parts = list(_PART.finditer(body))
    if not parts or "".join(p.group(0) for p in parts) != body:
        raise ValueError(f'"{text}" is not a duration: write "90s", "5m" or "1h30m"')
    return timedelta(seconds=sign * sum(float(p.group(1)) * _UNITS[p.group(2)] for p in parts))


def format_duration(value: timedelta) -> str:
    """The shortest Go-style text for a duration: "1h30m", "5s", "250ms"."""
    total_ms = round(value.total_seconds() * 1000)
    if total_ms == 0:
        return "0s"
    sign, total_ms = ("-", -total_ms) if total_ms < 0 else ("", total_ms)
    hours, rest = divmod(total_ms, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, millis = divmod(rest, 1000)
    text = (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")
    if seconds:
        text += f"{seconds}s"
    if millis:
        text += f"{millis}ms"
    return sign + text
