"""From the operations of a unit of work to SQL. Statements are built once per shape: thousands run each second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Connection,
    Executable,
    Select,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from master.store import unit_of_work
from master.store.unit_of_work import (
    Add,
    Delete,
    Execute,
    Insert,
    Operation,
    UnitOfWork,
    Update,
    Upsert,
)
from windlass.base.errors import Conflict

SHAPES = 2048
"""How many statement shapes are remembered: the code base has some hundreds."""


def table_of(model: unit_of_work.Table) -> Table:
    table: Table = model.__table__  # type: ignore[attr-defined]
    return table


def count_rows(unit: UnitOfWork) -> int:
    """How much work a unit is: one for each row written or statement run, and one for itself."""
    return 1 + sum(len(op.rows) if isinstance(op, Insert) else 1 for op in unit.operations)


def apply_operation(connection: Connection, operation: Operation) -> None:
    match operation:
        case Insert(table, rows):
            connection.execute(_insert(table_of(table)), rows)
        case Upsert(table, row):
            upsert_row(connection, table, row)
        case Add(table, row, columns):
            statement = _add(table_of(table), columns, connection.dialect.name)
            connection.execute(statement, row)
        case Update(table, where, values, expect):
            statement = _update(table_of(table), _shape(where), tuple(values))
            parameters = _where(where) | {f"v_{key}": value for key, value in values.items()}
            changed = connection.execute(statement, parameters).rowcount
            if expect is not None and changed != expect:
                raise Conflict(
                    f"{table_of(table).name} {dict(where)}: {changed} rows match, not {expect}"
                )
        case Delete(table, where):
            connection.execute(_delete(table_of(table), _shape(where)), _where(where))
        case Execute(statement):
            connection.execute(statement)


def upsert_row(
    connection: Connection, table: unit_of_work.Table, row: Mapping[str, object]
) -> None:
    connection.execute(_upsert(table_of(table), tuple(row), connection.dialect.name), row)


def matching_ids(
    connection: Connection, table: unit_of_work.Table, where: Mapping[str, object]
) -> Sequence[int]:
    """Of the rows that an Update or a Delete with this condition would change."""
    return matching_values(connection, table, where, "id")


def matching_values(
    connection: Connection, table: unit_of_work.Table, where: Mapping[str, object], column: str
) -> Sequence[Any]:
    """Of one column in these rows."""
    found = _found(table_of(table), column, _shape(where))
    return connection.execute(found, _where(where)).scalars().all()


def upsert_rows(
    connection: Connection, table: unit_of_work.Table, rows: Sequence[Mapping[str, object]]
) -> None:
    """All with the same keys."""
    statement = _upsert(table_of(table), tuple(rows[0]), connection.dialect.name)
    connection.execute(statement, rows)


Shape = tuple[tuple[str, bool], ...]
"""Columns of a condition, each with whether it is compared with NULL."""


def _shape(where: Mapping[str, object]) -> Shape:
    return tuple((key, value is None) for key, value in where.items())


def _where(where: Mapping[str, object]) -> dict[str, object]:
    return {f"w_{key}": value for key, value in where.items() if value is not None}


def _conditions(table: Table, shape: Shape) -> list[Any]:
    return [
        table.c[key].is_(None) if is_null else table.c[key] == bindparam(f"w_{key}")
        for key, is_null in shape
    ]


@lru_cache(SHAPES)
def _found(table: Table, column: str, where: Shape) -> Select[Any]:
    return select(table.c[column]).where(*_conditions(table, where))


@lru_cache(SHAPES)
def _insert(table: Table) -> Executable:
    return insert(table)


@lru_cache(SHAPES)
def _upsert(table: Table, keys: tuple[str, ...], dialect: str) -> Executable:
    """Both dialects check NOT NULL before they look for a conflict: the row must be complete but for defaults."""
    new: Any = (postgresql if dialect == "postgresql" else sqlite).insert(table)
    primary = [column.name for column in table.primary_key.columns]
    changes = {key: new.excluded[key] for key in keys if key not in primary}
    statement: Executable = (
        new.on_conflict_do_update(index_elements=primary, set_=changes)
        if changes
        else new.on_conflict_do_nothing(index_elements=primary)
    )
    return statement


@lru_cache(SHAPES)
def _add(table: Table, columns: tuple[str, ...], dialect: str) -> Executable:
    new: Any = (postgresql if dialect == "postgresql" else sqlite).insert(table)
    sums = {key: table.c[key] + new.excluded[key] for key in columns}
    statement: Executable = new.on_conflict_do_update(
        index_elements=[column.name for column in table.primary_key.columns], set_=sums
    )
    return statement


@lru_cache(SHAPES)
def _update(table: Table, where: Shape, keys: tuple[str, ...]) -> Executable:
    return (
        update(table)
        .where(*_conditions(table, where))
        .values({key: bindparam(f"v_{key}", type_=table.c[key].type) for key in keys})
    )


@lru_cache(SHAPES)
def _delete(table: Table, where: Shape) -> Executable:
    return delete(table).where(*_conditions(table, where))
