"""Searching the whole log of a task: hits as they are found, how far it is, and how many there are when.

The log is read in pieces along its index, each by a short read of its own: intake, other readers and the write-ahead
log never wait for a search, and one that nobody waits for any more ends after its piece. A text is found by SQL. For
an expression, the lines of a piece come as one text, on which RE2 is tried first; only where it may match are they
read one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from master.logs.reading import Position, filters, to_row
from master.logs.rows import STORED_NUL, LogQuery, LogRow, to_microseconds
from master.logs.tables import LogEntry
from master.logs.windows import NumberedRow, between, count_between
from master.store.sql.rows import fetch

TEXT_LINES = 50_000
"""Lines of a piece that SQL searches: some 20 ms."""
REGEX_LINES = 2_000
"""Lines of a piece that is handed over."""
BEFORE_ALL: Position = (-(2**63), -1)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Parts of time of the same length in which hits are counted."""

    first_us: int
    width_us: int

    def of(self, timestamp_us: int) -> int:
        return max(0, (timestamp_us - self.first_us) // self.width_us)


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines that follow each other."""

    after: Position
    until: Position
    lines: int
    before: int
    """Lines before it."""


@dataclass(slots=True)
class Step:
    """What a piece brought, or some of them."""

    looked_at: int = 0
    """Lines so far, of all pieces."""
    total: int = 0
    found: int = 0
    """Hits so far."""
    hits: list[NumberedRow] = field(default_factory=list)
    """New ones. Beyond the limit they are counted only."""
    counts: Counter[int] = field(default_factory=Counter)
    """New ones by bucket."""

    def add(self, piece: Piece, hits: Sequence[NumberedRow], counts: Counter[int]) -> None:
        self.looked_at = piece.before + piece.lines
        self.total = max(self.total, self.looked_at)
        self.found += counts.total()
        self.hits += hits
        self.counts += counts


class _Place(NamedTuple):
    timestamp: int
    id: int


class _Count(NamedTuple):
    bucket: int
    lines: int


class Pieces:
    """Work for reading connections: of one query, whose regular expression is not looked at here."""

    def __init__(self, query: LogQuery, dialect: str, newest_id: int, buckets: Buckets) -> None:
        (self._task_id,) = query.task_ids
        self._filters = [*filters(query, dialect), LogEntry.id <= newest_id]
        self._buckets = buckets

    def next(self, connection: Connection, last: Piece | None, lines: int) -> Piece | None:
        """None: the log is over."""
        after = last.until if last else BEFORE_ALL
        before = last.before + last.lines if last else 0
        here = tuple_(LogEntry.timestamp, LogEntry.id)
        behind = (
            select(LogEntry.timestamp, LogEntry.id)
            .where(LogEntry.task_id == self._task_id, here > after)
            .order_by(LogEntry.timestamp, LogEntry.id)
        )
        full = fetch(connection, behind.offset(lines - 1).limit(1), _Place)
        if full:
            return Piece(after, full[0], lines, before)
        newest_first = (
            select(LogEntry.timestamp, LogEntry.id)
            .where(LogEntry.task_id == self._task_id, here > after)
            .order_by(LogEntry.timestamp.desc(), LogEntry.id.desc())
            .limit(1)
        )
        rest = fetch(connection, newest_first, _Place)
        if not rest:
            return None
        count = count_between(connection, self._task_id, after, rest[0])
        return Piece(after, rest[0], count, before)

    def text(self, connection: Connection, piece: Piece) -> str | None:
        """All its lines that the filters leave; None: they leave none."""
        statement = select(func.aggregate_strings(LogEntry.log, "\n")).where(*self._where(piece))
        (found,) = fetch(connection, statement)
        return None if found is None else found.replace(STORED_NUL, "\0")

    def containing(
        self, connection: Connection, piece: Piece, limit: int
    ) -> tuple[list[NumberedRow], Counter[int]]:
        """Its lines that the filters leave, a text among them: some, and how many there are by bucket."""
        rows = self.rows(connection, piece, limit) if limit else []
        counts = self.counted(rows)
        if len(rows) == limit:
            last = (to_microseconds(rows[-1].timestamp), rows[-1].id) if rows else piece.after
            counts += self._count(connection, piece, last)
        return self.numbered(connection, piece, rows), counts

    def rows(self, connection: Connection, piece: Piece, limit: int | None = None) -> list[LogRow]:
        statement = (
            select(LogEntry)
            .where(*self._where(piece))
            .order_by(LogEntry.timestamp, LogEntry.id)
            .limit(limit)
        )
        return [to_row(row) for row in fetch(connection, statement)]

    def numbered(
        self, connection: Connection, piece: Piece, rows: Sequence[LogRow]
    ) -> list[NumberedRow]:
        """Rows of it, in order."""
        found: list[NumberedRow] = []
        past, number = piece.after, piece.before
        for row in rows:
            here = (to_microseconds(row.timestamp), row.id)
            number += count_between(connection, self._task_id, past, here)
            found.append(NumberedRow(number, row))
            past = here
        return found

    def _count(self, connection: Connection, piece: Piece, after: Position) -> Counter[int]:
        """Its lines behind one, by bucket."""
        first, width = self._buckets.first_us, self._buckets.width_us
        bucket = ((LogEntry.timestamp - first) // width).label("bucket_of_line")
        statement = (
            select(bucket, func.count())
            .where(*self._where(piece, after))
            .group_by("bucket_of_line")
        )
        return Counter(
            {max(0, one.bucket): one.lines for one in fetch(connection, statement, _Count)}
        )

    def counted(self, rows: Sequence[LogRow]) -> Counter[int]:
        return Counter(self._buckets.of(to_microseconds(row.timestamp)) for row in rows)

    def _where(self, piece: Piece, after: Position | None = None) -> list[ColumnElement[bool]]:
        return [*between(self._task_id, after or piece.after, piece.until), *self._filters]
