"""How many lines a task has in each minute: where line n is, which line something is, how many came when.

Ingest counts what it stores. Lines of before (up to the id `uncounted_to`) are counted once, when somebody asks, and
remembered: they only become fewer, by the deletion of all lines of a task.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from sqlalchemy import Connection, Select, func, select

from master.logs.tables import MINUTE_US, LogCount, LogEntry, LogMeta
from master.store.sql.rows import fetch

UNCOUNTED_TO = "uncounted_to"
MOST_REMEMBERED = 100
"""Tasks; a minute takes about a hundred bytes."""


def uncounted_to(connection: Connection) -> int:
    """Lines with this id, and smaller ones, are of a release that did not count."""
    found = fetch(connection, select(LogMeta.value).where(LogMeta.key == UNCOUNTED_TO))
    return int(found[0]) if found else 0


class Minute(NamedTuple):
    minute: int
    """Since the epoch."""
    lines: int


@dataclass(frozen=True, slots=True)
class Span:
    """A minute, and the lines before it."""

    minute: int
    before: int
    lines: int


class LineCounts:
    """Readers share it, each with a connection of its own, in any thread."""

    def __init__(self, uncounted_to: int) -> None:
        self._uncounted_to = uncounted_to
        self._old: OrderedDict[str, Mapping[int, int]] = OrderedDict()

    def forget(self, task_id: str) -> None:
        """Its lines are deleted."""
        self._old.pop(task_id, None)

    def before(self, connection: Connection, task_id: str, minute: int | None = None) -> int:
        """Lines in earlier minutes; without one, all."""
        statement = select(func.sum(LogCount.lines)).where(LogCount.task_id == task_id)
        if minute is not None:
            statement = statement.where(LogCount.minute < minute)
        (counted,) = fetch(connection, statement)
        old = self._of_before(connection, task_id)
        return int(counted or 0) + sum(
            lines for at, lines in old.items() if minute is None or at < minute
        )

    def by_minute(self, connection: Connection, task_id: str) -> list[Minute]:
        """All that have lines, in order."""
        counted = fetch(
            connection,
            select(LogCount.minute, LogCount.lines).where(LogCount.task_id == task_id),
            Minute,
        )
        found = Counter(self._of_before(connection, task_id))
        for minute, lines in counted:
            found[minute] += lines
        return [Minute(minute, found[minute]) for minute in sorted(found)]

    def before_each(self, connection: Connection, task_id: str) -> Mapping[int, int]:
        """Lines in earlier minutes, of each minute that has lines."""
        minutes = self.by_minute(connection, task_id)
        until = accumulate((lines for _, lines in minutes), initial=0)
        return {minute: before for (minute, _), before in zip(minutes, until, strict=False)}

    def with_line(self, connection: Connection, task_id: str, line: int) -> Span | None:
        """Where the line with this number is, from 1 on; None: there are fewer."""
        minutes = self.by_minute(connection, task_id)
        until = accumulate(lines for _, lines in minutes)
        for (minute, lines), after in zip(minutes, until, strict=True):
            if after >= line:
                return Span(minute, after - lines, lines)
        return None

    def _of_before(self, connection: Connection, task_id: str) -> Mapping[int, int]:
        if not self._uncounted_to:
            return {}
        found = self._old.get(task_id)
        if found is None:
            rows = fetch(connection, _count_old(task_id, self._uncounted_to), Minute)
            found = {row.minute: row.lines for row in rows}
            self._old[task_id] = found
            if len(self._old) > MOST_REMEMBERED:
                self._old.popitem(last=False)
        return found


def _count_old(task_id: str, last_id: int) -> Select[int, int]:
    at = LogEntry.timestamp
    # Databases divide towards zero, and there are times before 1970.
    rest = (at % MINUTE_US + MINUTE_US) % MINUTE_US
    minute = ((at - rest) // MINUTE_US).label("minute_of_line")
    return (
        select(minute, func.count())
        .where(LogEntry.task_id == task_id, LogEntry.id <= last_id)
        .group_by("minute_of_line")
    )
