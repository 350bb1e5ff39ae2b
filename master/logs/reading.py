"""Reading lines: a LogQuery as SQL, in pages along the index of (task, timestamp, id)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, tuple_

from master.logs.rows import (
    NO_RANK,
    STORED_NUL,
    LogQuery,
    LogRow,
    from_microseconds,
    to_microseconds,
)
from master.logs.tables import LogEntry

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
    statement = select(line).where(
        task == task_id, line.id.between(*ids), *_filters(query, dialect)
    )
    here = tuple_(line.timestamp, line.id)
    if past is not None:
        statement = statement.where(here < past if query.descending else here > past)
    if query.descending:
        return statement.order_by(line.timestamp.desc(), line.id.desc()).limit(limit)
    return statement.order_by(line.timestamp, line.id).limit(limit)


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


def _filters(query: LogQuery, dialect: str) -> Sequence[ColumnElement[bool]]:
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
