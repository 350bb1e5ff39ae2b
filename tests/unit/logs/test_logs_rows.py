"""The form in which lines are shown, and what is stored of odd ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.logs.ingest import clean
from master.logs.rows import TaskLine, format_message, from_microseconds, to_microseconds
from master.logs.store import logs_url

TIME = datetime(2025, 3, 20, 10, 0, 0, 123456, tzinfo=UTC)
CONTAINER = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            TaskLine(
                task_id="t", timestamp=TIME, container_id=CONTAINER, level="INFO", log="line 1"
            ),
            "[2025-03-20T10:00:00.123456Z] 0a1b2c3d || INFO: line 1\n",
        ),
        (
            TaskLine(task_id="t", timestamp=TIME, container_id=CONTAINER, rank_id=3, log="x"),
            "[2025-03-20T10:00:00.123456Z] 0a1b2c3d [rank=3] || x\n",
        ),
        (
            TaskLine(
                task_id="t", timestamp=TIME, container_id="c", rank_id=0, level="ERROR", log=""
            ),
            "[2025-03-20T10:00:00.123456Z] c        [rank=0] || ERROR: \n",
        ),
        (
            TaskLine(
                task_id="t",
                timestamp=TIME.replace(microsecond=0).astimezone(timezone(timedelta(hours=-5))),
                log="master says",
            ),
            "[2025-03-20T10:00:00.000000Z]          || master says\n",
        ),
    ],
)
def test_messages_have_the_published_form(row: TaskLine, message: str) -> None:
    assert format_message(row) == message


@given(st.datetimes(timezones=st.timezones()))
def test_microseconds_are_exact(time: datetime) -> None:
    assert from_microseconds(to_microseconds(time)) == time.astimezone(UTC)


def test_a_naive_time_is_utc() -> None:
    assert to_microseconds(TIME.replace(tzinfo=None)) == to_microseconds(TIME)


@given(st.text(st.characters(exclude_categories=[])))
def test_every_line_becomes_storable(text: str) -> None:
    line = clean(text)
    line.encode()
    assert "\0" not in line
    assert clean(text + "\n") == line or text.endswith("\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n", "a"),
        ("a", "a"),
        ("\n", ""),
        ("a\n\n", "a\n"),
        ("a\0b", "a\ufdd0b"),
        ("a\ufdd0", "a\ufffd"),
        ("ä\ud800", "ä?"),
    ],
)
def test_odd_lines(text: str, line: str) -> None:
    assert clean(text) == line


@pytest.mark.parametrize(
    ("db_url", "expected"),
    [
        ("sqlite:////var/lib/windlass/windlass.db", "sqlite:////var/lib/windlass/logs.db"),
        ("sqlite:///windlass.db", "sqlite:///logs.db"),
        ("sqlite://", "sqlite://"),
        ("postgres://u:p%40@db:5432/w", "postgresql://u:p%40@db:5432/w"),
    ],
)
def test_logs_live_beside_the_state(db_url: str, expected: str) -> None:
    assert logs_url(db_url) == expected
