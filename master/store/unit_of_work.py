"""One atomic change, collected by a pure step and committed by the writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlalchemy import Executable
from sqlmodel import SQLModel

Table: TypeAlias = type[SQLModel]


@dataclass(frozen=True, slots=True)
class Insert:
    """New rows. All rows of one Insert have the same keys."""

    table: Table
    rows: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Upsert:
    """Insert the row, or replace the given columns of the one with the same primary key."""

    table: Table
    row: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Add:
    """Insert the row, or add these columns of it to those of the one with the same primary key."""

    table: Table
    row: Mapping[str, object]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """Set columns where all of `where` hold. `expect` rows must match (None: any number), else the unit fails."""

    table: Table
    where: Mapping[str, object]
    values: Mapping[str, object]
    expect: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    table: Table
    where: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Execute:
    """Any other Core statement, for what the plain operations cannot say (ranges)."""

    statement: Executable


Operation: TypeAlias = Insert | Upsert | Add | Update | Delete | Execute


@dataclass(slots=True)
class UnitOfWork:
    """Operations in order. Committed whole or not at all."""

    operations: list[Operation] = field(default_factory=list)

    def insert(self, table: Table, *rows: Mapping[str, object]) -> None:
        if rows:
            self.operations.append(Insert(table, rows))

    def upsert(self, table: Table, row: Mapping[str, object]) -> None:
        self.operations.append(Upsert(table, row))

    def add(self, table: Table, row: Mapping[str, object], *columns: str) -> None:
        self.operations.append(Add(table, row, columns))

    def update(
        self,
        table: Table,
        where: Mapping[str, object],
        values: Mapping[str, object],
        *,
        expect: int | None = None,
    ) -> None:
        self.operations.append(Update(table, where, values, expect))

    def delete(self, table: Table, where: Mapping[str, object]) -> None:
        self.operations.append(Delete(table, where))

    def execute(self, statement: Executable) -> None:
        self.operations.append(Execute(statement))

    def extend(self, other: UnitOfWork) -> None:
        self.operations.extend(other.operations)

    def __bool__(self) -> bool:
        return bool(self.operations)


def changed_values(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """The columns of `new` that differ; both have the same ones."""
    return {key: value for key, value in new.items() if old[key] != value}
