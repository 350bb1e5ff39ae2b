"""Writing lines: what one transaction of the log writer does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import Connection, Executable, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from agent_bootstrap.protocol import LogBatch
from master.logs.reading import newest_id
from master.logs.rows import STORED_NUL, TaskLine, to_microseconds
from master.logs.tables import MINUTE_US, LogCount, LogEntry, LogOffset
from master.store.sql.rows import fetch
from master.store.sql.statements import table_of

MAX_LINE_BYTES = 64 * 1024
"""The supervisors of tasks break lines long before; this is for lines that are posted, and for other agents."""
DELETE_ROWS = 5_000
"""Rows that one transaction deletes: lines that arrive wait for no more than that."""


@dataclass(frozen=True, slots=True)
class DeleteSome:
    """Delete some lines of a task; the answer says how many, and fewer than DELETE_ROWS means that none is left."""

    task_id: str


Line: TypeAlias = tuple[int, str, int, *tuple[object, ...]]
"""A row to insert, in the order of `_COLUMNS`: its id, its task, its microseconds, ..."""
LogWork: TypeAlias = LogBatch | tuple[TaskLine, ...] | DeleteSome


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one piece of work. `first_id > last_id`: nothing was stored."""

    first_id: int = 1
    last_id: int = 0
    next_offset: int = 0
    """For a LogBatch: where the container's next batch must begin."""
    deleted: int = 0


def weigh(work: LogWork) -> int:
    match work:
        case LogBatch():
            return 1 + len(work.entries)
        case DeleteSome():
            return DELETE_ROWS
        case _:
            return 1 + len(work)


def tasks_of(work: LogWork) -> set[str]:
    if isinstance(work, tuple):
        return {entry.task_id for entry in work}
    return {work.task_id}


class LogWriting:
    """`apply` is for the writer, one transaction at a time.

    Ids count up and are never used twice while the process lives, even if the last lines are deleted.
    """

    def __init__(self, uncounted_to: int) -> None:
        """No line gets an id up to this one, whose lines count as older ones."""
        self._last_id = uncounted_to

    def apply(self, connection: Connection, works: Sequence[LogWork]) -> Sequence[Written]:
        (stored_last,) = fetch(connection, newest_id())
        self._last_id = max(self._last_id, stored_last or 0)
        offsets = _load_offsets(connection, works)
        moved: dict[str, Mapping[str, object]] = {}
        rows: list[Line] = []
        results: list[Written] = []
        for work in works:
            match work:
                case DeleteSome(task_id):
                    results.append(Written(deleted=_delete_some(connection, task_id)))
                case LogBatch():
                    wanted = offsets.get(work.container_id, 0)
                    if work.first_offset != wanted or work.next_offset <= wanted:
                        results.append(Written(next_offset=wanted))
                        continue
                    offsets[work.container_id] = work.next_offset
                    moved[work.container_id] = {
                        "container_id": work.container_id,
                        "task_id": work.task_id,
                        "next_offset": work.next_offset,
                    }
                    results.append(self._take_ids(len(work.entries), work.next_offset))
                    rows += _batch_rows(work, results[-1].first_id)
                case _:
                    results.append(self._take_ids(len(work)))
                    rows += _posted_rows(work, results[-1].first_id)
        if rows:
            _insert(connection, rows)
            _count(connection, rows)
        if moved:
            connection.execute(_upsert_offsets(connection), list(moved.values()))
        return results

    def _take_ids(self, count: int, next_offset: int = 0) -> Written:
        first = self._last_id + 1
        self._last_id += count
        return Written(first_id=first, last_id=self._last_id, next_offset=next_offset)


def clean(line: str) -> str:
    """One stored line: no newline at the end, nothing that a database cannot hold, and not too long."""
    line = line.removesuffix("\n")
    if len(line) > MAX_LINE_BYTES // 4:
        line = _cut(line)
    if not line.isascii():
        line = line.replace(STORED_NUL, "\ufffd")
        line = line.encode("utf-8", "replace").decode()
    return line.replace("\0", STORED_NUL)


def _cut(line: str) -> str:
    data = line.encode("utf-8", "replace")
    if len(data) <= MAX_LINE_BYTES:
        return line
    kept = data[:MAX_LINE_BYTES].decode(errors="ignore")
    return f"{kept} [{len(data) - MAX_LINE_BYTES} more bytes were cut]"


def _insert(connection: Connection, rows: Sequence[Line]) -> None:
    """PostgreSQL by COPY, SQLite by its driver: half the time, and much less of the event loop's."""
    if connection.dialect.name != "postgresql":
        connection.exec_driver_sql(_INSERT, list(rows))
        return
    # The adapter of SQLAlchemy's dialect; the transaction has begun on its connection long before.
    driver: Any = connection.connection.dbapi_connection
    driver.run_async(
        lambda asyncpg: asyncpg.copy_records_to_table(_LINES.name, records=rows, columns=_COLUMNS)
    )


def _count(connection: Connection, rows: Sequence[Line]) -> None:
    found = Counter([(row[1], row[2] // MINUTE_US) for row in rows])
    connection.execute(
        _add_counts(connection.dialect.name),
        [
            {"task_id": task_id, "minute": minute, "lines": lines}
            for (task_id, minute), lines in found.items()
        ],
    )


@cache
def _add_counts(dialect_name: str) -> Executable:
    dialect: Any = postgresql if dialect_name == "postgresql" else sqlite
    new = dialect.insert(LogCount)
    added: Executable = new.on_conflict_do_update(
        index_elements=["task_id", "minute"], set_={"lines": LogCount.lines + new.excluded.lines}
    )
    return added


_LINES = table_of(LogEntry)
_COLUMNS = (
    "id",
    "task_id",
    "timestamp",
    "allocation_id",
    "agent_id",
    "container_id",
    "rank_id",
    "level",
    "stdtype",
    "source",
    "log",
)
_INSERT = str(insert(_LINES).values(dict.fromkeys(_COLUMNS)).compile(dialect=sqlite.dialect()))


def _load_offsets(connection: Connection, works: Iterable[LogWork]) -> dict[str, int]:
    containers = {work.container_id for work in works if isinstance(work, LogBatch)}
    if not containers:
        return {}
    found = fetch(
        connection, select(LogOffset).where(LogOffset.container_id.in_(sorted(containers)))
    )
    return {row.container_id: row.next_offset for row in found}


def _upsert_offsets(connection: Connection) -> Any:
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    new = dialect.insert(LogOffset)
    return new.on_conflict_do_update(
        index_elements=["container_id"], set_={"next_offset": new.excluded.next_offset}
    )


def _batch_rows(batch: LogBatch, first_id: int) -> Iterable[Line]:
    for id_, entry in enumerate(batch.entries, first_id):
        yield (
            id_,
            batch.task_id,
            to_microseconds(entry.timestamp),
            batch.allocation_id,
            batch.agent_id,
            batch.container_id,
            entry.rank_id,
            entry.level,
            entry.stdtype,
            "task",
            clean(entry.log),
        )


def _posted_rows(entries: Iterable[TaskLine], first_id: int) -> Iterable[Line]:
    for id_, entry in enumerate(entries, first_id):
        yield (
            id_,
            entry.task_id,
            to_microseconds(entry.timestamp),
            entry.allocation_id,
            entry.agent_id,
            entry.container_id,
            entry.rank_id,
            entry.level,
            entry.stdtype,
            entry.source,
            clean(entry.log),
        )


def _delete_some(connection: Connection, task_id: str) -> int:
    some = select(LogEntry.id).where(LogEntry.task_id == task_id).limit(DELETE_ROWS)
    # There are not more of them than lines, so that the last lines go with the last of them.
    minutes = select(LogCount.minute).where(LogCount.task_id == task_id).limit(DELETE_ROWS)
    connection.execute(
        delete(LogCount).where(LogCount.task_id == task_id, LogCount.minute.in_(minutes))
    )
    deleted = connection.execute(delete(LogEntry).where(LogEntry.id.in_(some))).rowcount
    if deleted < DELETE_ROWS:
        connection.execute(delete(LogOffset).where(LogOffset.task_id == task_id))
    return deleted
