"""Lists: one description of its columns serves the table, `--json`, `--csv`, `--columns` and `--sort`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.output.layout import TableLayout, print_columns, print_table
from windlass.cli.output.terminal import escaped
from windlass.cli.output.text import cell, percent, print_json, state_name, waiting_text
from windlass.cli.output.times import UtcOption, local_time

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
SHORTEST_ID = 8
"""Ids on a terminal are not shorter than this: what is unique today may not be tomorrow."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its header, what it shows of a row, and in which form."""

    name: str
    value: Any
    """A key of the row, with dots into what it holds, an index of a sequence, or a function of the row."""
    form: Callable[[Any], object] = cell
    """Of the value, which is sorted by as it is."""
    below: str = ""
    """Of long texts: the words that lead to them where they follow below a table too narrow for them."""
    is_id: bool = False
    """On a terminal only so much of it is shown as tells the rows apart."""

    def of(self, row: Any) -> Any:
        if callable(self.value):
            return self.value(row)
        if isinstance(self.value, int):
            return row[self.value]
        if "." not in self.value:
            return (row or {}).get(self.value)
        for key in self.value.split("."):
            row = (row or {}).get(key)
        return row

    def cells(self, rows: Iterable[Any]) -> list[str]:
        """As they are printed."""
        shown = map(self.form, map(self.of, rows))
        return [value if type(value) is str else cell(value) for value in shown]


STATE = Column("State", "state", state_name)
WAITING = Column("Waiting for", waiting_text, below="waits for")
STARTED = Column("Started", "startTime", local_time)
ENDED = Column("Ended", "endTime", local_time)
PROGRESS = Column("Progress", "progress", percent)


def decimals(digits: int, unknown: str = "") -> Callable[[float | None], str]:
    """The form of amounts in a column that says the unit."""
    return lambda amount: unknown if amount is None else f"{amount:.{digits}f}"


def joined(values: Iterable[object] | None) -> str:
    return ", ".join(map(str, values or ()))


class Table:
    """The columns of a list."""

    def __init__(self, *columns: Column, named_by: str = "", give_way: Sequence[str] = ()) -> None:
        """`named_by`: the column that names a row where its long texts follow below; empty: the first one.

        `give_way`: columns that a terminal without room for them does not show, the first one first; a line below
        names them.
        """
        self.columns = columns
        self._named_by = named_by
        self._give_way = give_way

    def with_columns(self, columns: Iterable[Column]) -> Table:
        """With these columns instead."""
        return Table(*columns, named_by=self._named_by, give_way=self._give_way)

    def only(self, names: str) -> Table:
        """With the columns of these names, separated by commas, in this order. Raises InvalidArgument."""
        return self.with_columns(self.column("--columns", name) for name in names.split(","))

    def column(self, option: str, name: str) -> Column:
        """However it is written: `waiting-for` is `Waiting for`. Raises InvalidArgument."""
        for column in self.columns:
            if _key(column.name) == _key(name):
                return column
        known = ", ".join(_key(column.name) for column in self.columns)
        raise InvalidArgument(f'{option}: there is no column "{name.strip()}"; use {known}')

    def sorted(self, rows: Iterable[Any], by: str) -> list[Any]:
        """By that column, descending after a `-`; rows without a value come last. Raises InvalidArgument."""
        down, name = by.startswith("-"), by.removeprefix("-")
        column = self.column("--sort", name)
        valued = [(column.of(row), row) for row in rows]
        known = [each for each in valued if each[0] not in (None, "")]
        known.sort(key=lambda each: _order(each[0]), reverse=down)
        return [row for _, row in known] + [row for value, row in valued if value in (None, "")]

    def documents(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        return [{_key(column.name): column.of(row) for column in self.columns} for row in rows]

    def print(self, rows: Iterable[Any], *, as_csv: bool = False) -> None:
        """A table that fits the terminal; without a terminal, aligned columns that are never cut."""
        headers = [column.name for column in self.columns]
        rows = list(rows)
        text = [list(row) for row in zip(*(c.cells(rows) for c in self.columns), strict=True)]
        if as_csv:
            csv.writer(sys.stdout, lineterminator="\n").writerows([headers, *text])
        elif not sys.stdout.isatty():
            print_columns(headers, text)
        else:
            for at in (at for at, column in enumerate(self.columns) if column.is_id):
                for row, short in zip(text, short_ids([row[at] for row in text]), strict=True):
                    row[at] = short
            print_table(headers, [[escaped(one) for one in row] for row in text], self._layout())

    def _layout(self) -> TableLayout:
        below = {column.name: column.below for column in self.columns if column.below}
        names = [column.name for column in self.columns]
        return TableLayout(
            below=below,
            named_by=self._named_by if self._named_by in names else names[0],
            give_way=self._give_way,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Of commands that print a table; `show` prints it as they say."""

    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Show at most this many rows.")
    ] = None
    as_json: JsonOption = False
    as_csv: CsvOption = False
    columns: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Show only these columns, also of --csv and --json."),
    ] = ""
    sort: Annotated[
        str, typer.Option(metavar="[-]NAME", help="Sort by this column, descending after a -.")
    ] = ""
    utc: UtcOption = False

    def show(self, table: Table, rows: Iterable[Any]) -> None:
        """`--json`: the rows as they are, unless columns are chosen."""
        shown = (table.sorted(rows, self.sort) if self.sort else list(rows))[: self.limit]
        if self.columns:
            table = table.only(self.columns)
        if self.as_json:
            print_json(table.documents(shown) if self.columns else shown)
        else:
            table.print(shown, as_csv=self.as_csv)


def print_rows(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table of values that are at hand."""
    Table(*(Column(name, at) for at, name in enumerate(headers))).print(rows)


def short_ids(ids: Sequence[str]) -> list[str]:
    """Their beginnings, of one length, as short as tells them apart and from numbers."""
    longest = max(map(len, ids), default=0)
    for length in range(SHORTEST_ID, longest):
        short = [id_[:length] for id_ in ids]
        if len(set(short)) == len(set(ids)) and not any(map(str.isdigit, short)):
            return short
    return list(ids)


def _key(name: str) -> str:
    return "_".join(name.lower().replace("-", " ").replace("_", " ").split())


def _order(value: Any) -> tuple[bool, Any]:
    """Numbers before texts."""
    is_number = isinstance(value, int | float)
    return not is_number, value if is_number else str(value)
