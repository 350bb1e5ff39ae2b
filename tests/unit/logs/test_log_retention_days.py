"""How long a task's log is still kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from master.logs.retention import remaining_days

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "ended_ago", "left"),
    [
        (None, timedelta(days=9), None),
        (-1, timedelta(days=9), None),
        (7, None, 7),
        (7, timedelta(0), 7),
        (7, timedelta(hours=1), 7),
        (7, timedelta(days=6, hours=1), 1),
        (7, timedelta(days=7), 0),
        (7, timedelta(days=90), 0),
        (0, timedelta(0), 0),
        (7, timedelta(hours=-5), 7),
    ],
)
def test_remaining_days(days: int | None, ended_ago: timedelta | None, left: int | None) -> None:
    assert remaining_days(days, None if ended_ago is None else NOW - ended_ago, NOW) == left
