"""When rare work is due: the words of cron and durations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from master.config.schedules import trigger_of

NOW = datetime(2026, 6, 3, 12, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        ("0 3 * * *", "2026-06-04T03:00"),
        ("*/15 * * * *", "2026-06-03T12:00"),
        ("0 0 * * 0", "2026-06-07T00:00"),
        ("0 0 * * 7", "2026-06-07T00:00"),
        ("0 0 * * fri-mon", "2026-06-05T00:00"),
        ("0 0 * * 1,2", "2026-06-08T00:00"),
        ("0 0 * * 0-6/2", "2026-06-04T00:00"),
        ("0 0 1 * *", "2026-07-01T00:00"),
        ("0 0 1 * 4", "2026-06-04T00:00"),
    ],
)
def test_the_next_time_of_a_schedule(schedule: str, due: str) -> None:
    found = trigger_of(schedule).get_next_fire_time(None, NOW)
    assert found.strftime("%Y-%m-%dT%H:%M") == due


def test_a_duration_counts_from_now() -> None:
    trigger = trigger_of("24h")
    first = trigger.get_next_fire_time(None, NOW)
    assert (trigger.get_next_fire_time(first, first) - first).total_seconds() == 86400


@pytest.mark.parametrize(
    "schedule", ["often", "0h", "-1h", "* * * *", "61 * * * *", "0 0 * * 8", "0 0 * * xyz"]
)
def test_anything_else_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match="neither a duration"):
        trigger_of(schedule)
