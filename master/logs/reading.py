"""Reading lines: a LogQuery as SQL, in pages along the index of (task, timestamp, id)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, tuple_

from master.logs.rows import (
    NO_RANK,
    STORED_NUL,
    LogFields,
    LogQuery,
    LogRow,
    from_microseconds,
    to_microseconds,
)
from master.logs.tables import LogEntry

T = TypeVar("T")
PAGE_ROWS = 1_000
"""Rows read at once: a stream of a long log neither holds it in memory nor a connection for long."""

Position = tuple[int, int]
"""(timestamp, id) of the last line read of a task."""


def page_of(
    query: LogQuery,
    task_id: str,
    dialect: str,
    ids: tuple[int, int],
    *,
    past: Position | None,
    limit: int,
    narrow: bool,
) -> Select[LogEntry]:
    """The next lines of one task with ids in the range `ids` (both ends included).

    `narrow`: the range is small and new. The lines are then found by id; SQLite would else walk the whole task.
    """
    line = LogEntry
    task = line.task_id.concat("") if narrow else line.task_id
    statement = select(line).where(task == task_id, line.id.between(*ids), *filters(query, dialect))
    here = tuple_(line.timestamp, line.id)
    if past is not None:
        statement = statement.where(here < past if query.descending else here > past)
    if query.descending:
        return statement.order_by(line.timestamp.desc(), line.id.desc()).limit(limit)
    return statement.order_by(line.timestamp, line.id).limit(limit)


class Fields(NamedTuple):
    """Values that are together in some line."""

    allocation_id: str | None
    agent_id: str | None
    container_id: str | None
    rank_id: int | None
    source: str | None
    stdtype: str | None


def fields_of(
    task_ids: Sequence[str], ids: tuple[int, int]
) -> Select[str | None, str | None, str | None, int | None, str | None, str | None]:
    """Those of some tasks, in lines with ids in the range `ids` (both ends included)."""
    line = LogEntry
    return (
        select(
            line.allocation_id,
            line.agent_id,
            line.container_id,
            line.rank_id,
            line.source,
            line.stdtype,
        )
        .where(line.task_id.in_(task_ids), line.id.between(*ids))
        .distinct()
    )


def with_fields(known: LogFields, rows: Sequence[Fields]) -> LogFields:
    def values(old: frozenset[T], column: Callable[[Fields], T | None]) -> frozenset[T]:
        return old | {value for row in rows if (value := column(row)) is not None}

    return LogFields(
        allocation_ids=values(known.allocation_ids, lambda row: row.allocation_id),
        agent_ids=values(known.agent_ids, lambda row: row.agent_id),
        container_ids=values(known.container_ids, lambda row: row.container_id),
        rank_ids=values(known.rank_ids, lambda row: row.rank_id),
        sources=values(known.sources, lambda row: row.source),
        stdtypes=values(known.stdtypes, lambda row: row.stdtype),
    )


def newest_id() -> Select[int]:
    return select(func.max(LogEntry.id))


def to_row(row: LogEntry) -> LogRow:
    return LogRow(
        id=row.id,
        task_id=row.task_id,
        timestamp=from_microseconds(row.timestamp),
        allocation_id=row.allocation_id,
        agent_id=row.agent_id,
        container_id=row.container_id,
        rank_id=row.rank_id,
        level=row.level,
        stdtype=row.stdtype,
        source=row.source,
        log=row.log.replace(STORED_NUL, "\0"),
    )


def filters(query: LogQuery, dialect: str) -> Sequence[ColumnElement[bool]]:
    line = LogEntry
    found: list[ColumnElement[bool]] = [
        column.in_(values)
        for column, values in (
            (line.allocation_id, query.allocation_ids),
            (line.agent_id, query.agent_ids),
            (line.container_id, query.container_ids),
            (line.level, query.levels),
            (line.stdtype, query.stdtypes),
            (line.source, query.sources),
        )
        if values
    ]
    if query.rank_ids:
        ranked = line.rank_id.in_([rank for rank in query.rank_ids if rank != NO_RANK])
        found.append(or_(line.rank_id.is_(None), ranked) if NO_RANK in query.rank_ids else ranked)
    if query.after is not None:
        found.append(line.timestamp > to_microseconds(query.after))
    if query.before is not None:
        found.append(line.timestamp <= to_microseconds(query.before))
    if query.search_text and not query.regex:
        # Not LIKE: SQLite's ignores case, and both would need % and _ escaped.
        position = func.strpos if dialect == "postgresql" else func.instr
        searched = query.search_text.replace("\0", STORED_NUL)
        found.append(position(line.log, searched) > 0)
    return [and_(*found)] if found else []
