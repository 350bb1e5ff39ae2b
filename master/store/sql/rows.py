"""What a SELECT finds, as typed rows: the one way to read tables, of the state and of the logs.

    fetch(connection, select(Trial).where(Trial.experiment_id == 3))        list[Trial]
    fetch(connection, select(Trial.id).where(...))                          list[int]
    fetch(connection, select(Trial, Experiment.name).join(...), Named)      list[Named], a NamedTuple of both

Statements run in Core: SQLAlchemy's ORM takes four times as long to load the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar, TypeVarTuple, cast, overload

from sqlalchemy import Connection, Select
from sqlmodel import SQLModel

from master.store.unit_of_work import Table

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")
Build = Callable[[Sequence[Any]], Any]
"""From the values of one row of a result."""


@overload
def fetch(connection: Connection, statement: Select[T], /) -> list[T]: ...


@overload
def fetch(
    connection: Connection, statement: Select[*Ts], row: Callable[[*Ts], R], /
) -> list[R]: ...


def fetch(connection: Connection, statement: Any, row: Any = None, /) -> list[Any]:
    """The rows of a SELECT of one table or column, or of several as arguments of `row`."""
    selected = [described["expr"] for described in statement.column_descriptions]
    if row is None and len(selected) != 1:
        raise TypeError(f"{len(selected)} things are selected: which class are their rows?")
    found = connection.execute(statement)
    if (width := sum(map(_width, selected))) != len(found.keys()):
        raise TypeError(f"{len(found.keys())} columns instead of {width}: is one selected twice?")
    build = _build_one(selected[0]) if row is None else _build_all(selected, row)
    return [build(values) for values in found]


def _build_one(selected: object) -> Build:
    if not _is_table(selected):
        return lambda values: values[0]
    new, set_, class_, names = object.__new__, object.__setattr__, *_row_class(selected)
    fields = frozenset(names)

    def build(values: Sequence[Any]) -> Any:
        row = new(class_)
        set_(row, "__dict__", dict(zip(names, values, strict=True)))
        set_(row, "__pydantic_fields_set__", fields)
        set_(row, "__pydantic_extra__", None)
        set_(row, "__pydantic_private__", None)
        return row

    return build


def _build_all(selected: Sequence[object], row: Callable[..., Any]) -> Build:
    if not any(map(_is_table, selected)):
        return lambda values: row(*values)
    parts = [(_build_one(item), _width(item)) for item in selected]

    def build(values: Sequence[Any]) -> Any:
        rest = iter(values)
        return row(*[build_part(tuple(islice(rest, width))) for build_part, width in parts])

    return build


def _width(selected: object) -> int:
    return len(_row_class(selected)[1]) if _is_table(selected) else 1


def _is_table(selected: object) -> bool:
    return isinstance(selected, type) and issubclass(selected, SQLModel)


@cache
def _row_class(table: Any) -> tuple[Table, tuple[str, ...]]:
    """A class for rows that were read, and the names of their values.

    It hides SQLAlchemy's attributes, which track changes and take ten times as long to read, behind plain ones. Not
    made by SQLModel's metaclass: that would map it to a table of its own.
    """
    names = tuple(table.__table__.c.keys())
    body = {**dict.fromkeys(names), "__setattr__": _refuse, "__module__": table.__module__}
    return cast("Table", type.__new__(type(table), table.__name__, (table,), body)), names


def _refuse(row: object, name: str, value: object) -> None:
    raise AttributeError(f"{name}: a row that was read is not changed; commit a unit of work")
