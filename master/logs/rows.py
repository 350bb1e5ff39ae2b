"""What a log line is: as it is posted, as it is stored, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

STORED_NUL = "\ufdd0"
"""How a NUL is stored, which PostgreSQL's text cannot hold: a code point that no text may contain."""
NO_RANK = -1
"""In `LogQuery.rank_ids`: lines without a rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLine:
    """A line that is not an agent's: posted over REST (source `task`) or written by the master (source `master`)."""

    task_id: str
    timestamp: datetime
    log: str
    """With or without a newline at the end."""
    allocation_id: str | None = None
    agent_id: str | None = None
    container_id: str | None = None
    rank_id: int | None = None
    level: str | None = None
    """TRACE, DEBUG, INFO, WARNING, ERROR or CRITICAL."""
    stdtype: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow(TaskLine):
    """A stored line. `log` has no newline at the end."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which lines. Filters hold together; an empty one is none.

    The lines of several tasks follow each other in the order of `task_ids`, those of one task by (timestamp, id).
    """

    task_ids: tuple[str, ...]
    limit: int = 0
    """0: all."""
    descending: bool = False
    """Newest first, and the last task first."""
    allocation_ids: tuple[str, ...] = ()
    agent_ids: tuple[str, ...] = ()
    container_ids: tuple[str, ...] = ()
    rank_ids: tuple[int, ...] = ()
    levels: tuple[str, ...] = ()
    stdtypes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    after: datetime | None = None
    """Strictly later than this."""
    before: datetime | None = None
    """At this time or earlier."""
    search_text: str = ""
    regex: bool = False
    """`search_text` is a regular expression (`master.core.patterns`) found anywhere in the line; else a substring."""
    by: int | None = None
    """The user who asks, whose CPU time an expression takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFields:
    """What filters can ask of the lines of some tasks: the values that are there."""

    allocation_ids: frozenset[str] = frozenset()
    agent_ids: frozenset[str] = frozenset()
    container_ids: frozenset[str] = frozenset()
    rank_ids: frozenset[int] = frozenset()
    sources: frozenset[str] = frozenset()
    stdtypes: frozenset[str] = frozenset()


def to_microseconds(time: datetime) -> int:
    """Since the epoch. A naive time, which only a broken sender sends, is taken as UTC rather than lost."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def format_message(row: TaskLine) -> str:
    """The line as clients print it, newline included: "[2026-01-01T00:00:00.000000Z] 0a1b2c3d [rank=0] || INFO: x"."""
    utc = row.timestamp.astimezone(UTC).replace(tzinfo=None)
    time = f"{utc.isoformat(timespec='microseconds')}Z"
    container = (row.container_id or "")[:8].ljust(8)
    rank = f" [rank={row.rank_id}]" if row.rank_id is not None else ""
    level = f"{row.level}: " if row.level else ""
    return f"[{time}] {container}{rank} || {level}{row.log}\n"
