"""Parts of the log of a task, with the numbers of their lines: around a line, a moment, or at the end.

Lines are numbered from 1 on in the order in which logs are read: by time, then as they were stored. A line that comes
late, with an earlier time than others, moves those behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from master.logs.counts import LineCounts
from master.logs.reading import Position, newest_id, page_of, to_row
from master.logs.rows import LogQuery, LogRow, to_microseconds
from master.logs.tables import MINUTE_US, LogEntry
from master.store.sql.rows import fetch
from windlass.base.errors import NotFound

MOST_NARROW = 200_000
"""Lines of all tasks, among which those of one are found by id rather than along its index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Which part: `before` lines, the one that is named, and `after` lines. At most one is named; none: the end."""

    before: int
    after: int
    line: int | None = None
    """A number; one behind the last is the last."""
    id: int | None = None
    time: datetime | None = None
    """The first line of then, or later."""


@dataclass(frozen=True, slots=True)
class NumberedRow:
    number: int
    row: LogRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    lines: Sequence[NumberedRow]
    total: int
    """Lines of the task."""
    newest_id: int
    """For `lines_since`."""


class Windows:
    """Work for reading connections."""

    def __init__(self, counts: LineCounts, dialect: str) -> None:
        self._counts = counts
        self._dialect = dialect

    def around(self, connection: Connection, query: LogQuery, part: Around) -> Window:
        """Raises NotFound if a line is named by an id that none has."""
        (task_id,) = query.task_ids
        newest = _newest(connection)
        total = self._counts.before(connection, task_id)
        here = self._position(connection, task_id, part)
        rows: list[LogRow] = []
        if part.before:
            backwards = replace(query, descending=True)
            rows = self._page(connection, backwards, (0, newest), part.before, past=here)
        if here is not None:
            just_before = (here[0], here[1] - 1)
            rows += self._page(connection, query, (0, newest), part.after + 1, past=just_before)
        return self._window(connection, task_id, rows, total, newest)

    def since(self, connection: Connection, query: LogQuery, id_: int, limit: int) -> Window:
        """The last of the lines that were stored after the one with this id."""
        (task_id,) = query.task_ids
        newest = _newest(connection)
        total = self._counts.before(connection, task_id)
        backwards, narrow = replace(query, descending=True), newest - id_ <= MOST_NARROW
        ids = (min(id_, newest) + 1, newest)
        rows = self._page(connection, backwards, ids, limit, narrow=narrow)
        return self._window(connection, task_id, rows, total, newest)

    def number(self, connection: Connection, task_id: str, position: Position) -> int:
        """Of the line there."""
        minute = position[0] // MINUTE_US
        before = self._counts.before(connection, task_id, minute)
        start = (minute * MINUTE_US, -1)
        return before + count_between(connection, task_id, start, position)

    def numbers(
        self, connection: Connection, task_id: str, positions: Sequence[Position]
    ) -> list[int]:
        """Of lines in order. Most stand together: then two are looked up."""
        if not positions:
            return []
        first = self.number(connection, task_id, positions[0])
        last = self.number(connection, task_id, positions[-1]) if len(positions) > 1 else first
        if last - first == len(positions) - 1:
            return list(range(first, last + 1))
        found, before = [first], self._counts.before_each(connection, task_id)
        for old, new in pairwise(positions):
            minute = new[0] // MINUTE_US
            if old[0] // MINUTE_US == minute:
                found.append(found[-1] + count_between(connection, task_id, old, new))
            else:
                start = (minute * MINUTE_US, -1)
                earlier = before.get(minute, 0)  # none: deleted meanwhile
                found.append(earlier + count_between(connection, task_id, start, new))
        return found

    def _window(
        self,
        connection: Connection,
        task_id: str,
        rows: Sequence[LogRow],
        total: int,
        newest: int,
    ) -> Window:
        positions = [(to_microseconds(row.timestamp), row.id) for row in rows]
        numbers = self.numbers(connection, task_id, positions)
        lines = [NumberedRow(n, row) for n, row in zip(numbers, rows, strict=True)]
        return Window(lines=lines, total=total, newest_id=newest)

    def _position(self, connection: Connection, task_id: str, part: Around) -> Position | None:
        """None: behind the last line."""
        if part.id is not None:
            of_task = select(LogEntry.timestamp, LogEntry.id).where(
                LogEntry.id == part.id, LogEntry.task_id == task_id
            )
            found = fetch(connection, of_task, lambda at, id_: (at, id_))
            if not found:
                raise NotFound("log line", part.id)
            return found[0]
        if part.time is not None:
            return to_microseconds(part.time), 0
        if part.line is None:
            return None
        return self._of_number(connection, task_id, max(1, part.line))

    def _of_number(self, connection: Connection, task_id: str, line: int) -> Position | None:
        span = self._counts.with_line(connection, task_id, line)
        index = (LogEntry.timestamp, LogEntry.id)
        statement = select(*index).where(LogEntry.task_id == task_id)
        if span is None:
            statement = statement.order_by(*(column.desc() for column in index)).limit(1)
        else:
            at, start = line - span.before - 1, span.minute * MINUTE_US
            statement = statement.where(LogEntry.timestamp.between(start, start + MINUTE_US - 1))
            if at <= span.lines // 2:
                statement = statement.order_by(*index).offset(at).limit(1)
            else:
                behind = span.lines - 1 - at
                last_first = (column.desc() for column in index)
                statement = statement.order_by(*last_first).offset(behind).limit(1)
        found = fetch(connection, statement, lambda at, id_: (at, id_))
        return found[0] if found else None

    def _page(
        self,
        connection: Connection,
        query: LogQuery,
        ids: tuple[int, int],
        limit: int,
        *,
        past: Position | None = None,
        narrow: bool = False,
    ) -> list[LogRow]:
        """In order, whichever end they are looked for from."""
        statement = page_of(
            query,
            query.task_ids[0],
            self._dialect,
            ids,
            past=past,
            limit=limit,
            narrow=narrow,
        )
        found = [to_row(row) for row in fetch(connection, statement)]
        return found[::-1] if query.descending else found


def between(task_id: str, after: Position, until: Position) -> list[ColumnElement[bool]]:
    """Conditions: lines of a task from behind one to another one."""
    here = tuple_(LogEntry.timestamp, LogEntry.id)
    return [LogEntry.task_id == task_id, here > after, here <= until]


def count_between(connection: Connection, task_id: str, after: Position, until: Position) -> int:
    (found,) = fetch(connection, select(func.count()).where(*between(task_id, after, until)))
    return found


def _newest(connection: Connection) -> int:
    (newest,) = fetch(connection, newest_id())
    return newest or 0
