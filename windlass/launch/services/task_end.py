"""When a task ends because the time of its machine is over: its users are told, and again whenever that moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from windlass.base.errors import WindlassError

FIRST_LOOK_S, LATER_LOOKS_S = 5.0, 60.0
DIFFERS = timedelta(seconds=30)
"""The rest is rounding of the batch system."""


def end_told(ends_at: str) -> str:
    """`ends_at`: as the API writes times."""
    when = datetime.fromisoformat(ends_at).astimezone(UTC)
    return (
        f"This task ends at {when:%Y-%m-%d %H:%M} UTC, with the time of its node. Then only what lies in mounted "
        "folders (bind_mounts) is kept: save files there"
    )


def looks() -> Iterator[float]:
    """The pauses between them. A batch system says the end of a job some seconds after its start at the earliest."""
    pause_s = FIRST_LOOK_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, LATER_LOOKS_S)


def follow_end(
    ends_at: str | None,
    ask: Callable[[], str | None],
    tell: Callable[[str], object],
    pauses: Iterable[float],
) -> None:
    """Ends with `pauses`. `ends_at`: as far as it is known now; `ask`: as it is then."""
    told: datetime | None = None
    for pause_s in pauses:
        if ends_at:
            end = datetime.fromisoformat(ends_at)
            if told is None or abs(end - told) > DIFFERS:
                told = end
                tell(end_told(ends_at))
        time.sleep(pause_s)
        with suppress(WindlassError):  # the master is away: the next look is soon
            ends_at = ask()
