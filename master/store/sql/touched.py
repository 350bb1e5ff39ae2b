"""Which touches an operation makes, found right before it is applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select
from sqlalchemy import Delete as DeleteStatement
from sqlalchemy import Update as UpdateStatement

from master.store import unit_of_work
from master.store.sql.changes import UNSHOWN
from master.store.sql.statements import matching_values, table_of
from master.store.touches import SOURCES, Source, Touch
from master.store.unit_of_work import Delete, Execute, Insert, Operation, Update

_TABLES = {table_of(table): table for table in SOURCES}


def touches(connection: Connection, operation: Operation) -> Iterable[Touch]:
    """Before the operation is applied. May name one several times."""
    table = _written(operation)
    for source in SOURCES.get(table, ()) if table is not None else ():
        if source.column is None:
            yield Touch(source.subject)
            continue
        values = _values(connection, operation, source, source.column)
        if source.parent is not None:
            values = _workspaces(connection, source.parent, values)
        for value in values:
            if value is not None or not source.required:
                yield Touch(source.subject, source.key(value))


def _written(operation: Operation) -> unit_of_work.Table | None:
    if not isinstance(operation, Execute):
        return operation.table
    statement = operation.statement
    if statement.get_execution_options().get(UNSHOWN):
        return None
    return _TABLES.get(getattr(statement, "table", None))  # type: ignore[arg-type]


def _values(
    connection: Connection, operation: Operation, source: Source, column: str
) -> set[object]:
    """Of the column in the rows that are written: before and after."""
    match operation:
        case Insert(_, rows):
            return set() if source.leaves else {row.get(column) for row in rows}
        case Update(table, where, values):
            if source.leaves and column not in values:
                return set()
            before = _before(connection, table, where, column)
            return before | ({values[column]} if column in values else set())
        case Delete(table, where):
            return _before(connection, table, where, column)
        case Execute(statement):
            if not isinstance(statement, DeleteStatement | UpdateStatement):
                return set()
            if source.leaves and isinstance(statement, UpdateStatement):
                return set()
            written = statement.table
            found = select(written.c[column]).distinct()
            if statement.whereclause is not None:
                found = found.where(statement.whereclause)
            return set(connection.execute(found).scalars())
        case _:
            return set() if source.leaves else {operation.row.get(column)}


def _before(
    connection: Connection, table: unit_of_work.Table, where: Mapping[str, object], column: str
) -> set[object]:
    if column in where:
        return {where[column]}
    return set(matching_values(connection, table, where, column))


def _workspaces(
    connection: Connection, parent: unit_of_work.Table, ids: Iterable[object]
) -> set[object]:
    found: set[object] = set()
    for id_ in ids:
        found.update(matching_values(connection, parent, {"id": id_}, "workspace_id"))
    return found
