"""Times as people read them: local, with their zone, or UTC with `--utc`."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Annotated

import typer

_in_utc: ContextVar[bool] = ContextVar("in_utc", default=False)


def _choose(utc: bool) -> bool:
    _in_utc.set(utc)
    return utc


UtcOption = Annotated[
    bool, typer.Option("--utc", callback=_choose, help="Show times in UTC, not in the local zone.")
]
"""For each command that prints times. Its value needs no reading: `local_time` knows it."""


def local_time(timestamp: str | float | None) -> str:
    """A timestamp of the API (ISO 8601, or seconds since the epoch) to the second, with its zone."""
    if timestamp is None or timestamp == "":
        return ""
    try:
        moment = (
            datetime.fromisoformat(timestamp)
            if isinstance(timestamp, str)
            else datetime.fromtimestamp(timestamp, UTC)
        )
    except ValueError:
        return str(timestamp)
    shown = moment.astimezone(UTC if _in_utc.get() else None)
    return f"{shown.replace(tzinfo=None).isoformat(' ', 'seconds')} {shown.tzname()}"
