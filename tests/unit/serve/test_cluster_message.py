"""The message to everybody: which may be set, and when it is shown."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from master.cluster_message import MAX_CHARACTERS, ClusterMessages, new_message
from master.core.actor import Actor
from master.store.store import Store
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument

NOW = ManualClock().now()
HOUR = timedelta(hours=1)
ROOT = Actor(user_id=1, name="admin")


@pytest.mark.parametrize(
    ("duration", "end"),
    [("", None), ("24h", 24 * HOUR), ("5d", 120 * HOUR), ("2w", 336 * HOUR), ("1w1h", 169 * HOUR)],
)
def test_how_long_it_lasts(duration: str, end: timedelta | None) -> None:
    message = new_message("x" * MAX_CHARACTERS, NOW, duration=duration, now=NOW)
    assert message.ends_at == (None if end is None else NOW + end)


@pytest.mark.parametrize(
    ("text", "ends_at", "duration", "named"),
    [
        ("", None, "", "message"),
        ("x" * (MAX_CHARACTERS + 1), None, "", "message"),
        ("x", NOW - HOUR, "", "endTime"),
        ("x", NOW - 2 * HOUR, "", "endTime"),
        ("x", NOW + HOUR, "1h", "duration"),
        ("x", None, "0s", "duration"),
        ("x", None, "-1h", "duration"),
        ("x", None, "soon", "duration"),
        ("x", None, "99999999999w", "duration"),
    ],
)
def test_what_is_refused(text: str, ends_at: datetime | None, duration: str, named: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{named}: "):
        new_message(text, NOW - 2 * HOUR, ends_at=ends_at, duration=duration, now=NOW)


async def test_it_is_shown_in_its_time_and_outlives_the_master(
    memory_store: Store, clock: ManualClock
) -> None:
    messages = ClusterMessages(memory_store, clock)
    now = clock.now()
    message = new_message("down at noon", now + HOUR, duration="1h", now=now)
    await messages.set(message, by=ROOT)
    assert (messages.current(), messages.active()) == (message, None)
    clock.advance(HOUR.total_seconds())
    again = ClusterMessages(memory_store, clock)
    await again.load()
    assert again.active() == again.current() == message
    clock.advance(HOUR.total_seconds())
    assert again.active() is again.current() is None
    await again.clear(by=ROOT)
    await again.load()
    assert again.current() is None
