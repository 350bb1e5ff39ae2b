"""What SQLite and PostgreSQL say in different words, so that the same search finds the same rows in both.

Values inside of JSON columns are read by path; a missing one, and a JSON null, is NULL. Text compares by code points,
and letters are folded in ASCII only: that much both can do alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import (
    ARRAY,
    Boolean,
    ColumnElement,
    Float,
    FromClause,
    Integer,
    Numeric,
    SQLColumnExpression,
    String,
    and_,
    any_,
    case,
    cast,
    collate,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    type_coerce,
)

Json = SQLColumnExpression[Any]
"""A column with JSON, or a part of one."""
Keys = Sequence[str]

_PLAIN_KEY = re.compile(r"[ !#-\[\]-~]+")
"""Printable ASCII without quotes and backslashes: SQLite finds it by a path as it is stored."""
_PAIR = r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}"
"""Of surrogates: how JSON in ASCII writes what is beyond 16 bits."""
_LIKE_INDEX = re.compile(r"-?\d+")
_UPPER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A JSON value, seen as each of the kinds that it may be: NULL as all but one of them."""

    number: ColumnElement[Any]
    text: ColumnElement[Any]
    boolean: ColumnElement[Any]
    kind: ColumnElement[Any]
    """number, string, boolean, array, object."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What table-valued functions give."""

    tables: Sequence[FromClause]
    where: Sequence[ColumnElement[bool]]
    key: ColumnElement[Any]
    value: ColumnElement[Any]
    """JSON."""
    leaf: Leaf


class Portable(Protocol):
    """One database's words."""

    def leaf(self, document: Json, keys: Keys) -> Leaf:
        """The value at a path through objects."""
        ...

    def items(self, document: Json, keys: Keys) -> Rows:
        """The items of the array there; none if there is none."""
        ...

    def members(self, document: Json) -> Rows:
        """The members of an object; none of anything else."""
        ...

    def among(self, column: SQLColumnExpression[int], ids: Sequence[int]) -> ColumnElement[bool]:
        """Whether it is one of them, which may be tens of thousands: one parameter for all."""
        ...

    def number(self, value: float) -> ColumnElement[Any]:
        """To compare the number of a leaf with."""
        ...

    def by_code_points(self, text: SQLColumnExpression[Any]) -> ColumnElement[Any]: ...

    def contains(self, text: SQLColumnExpression[Any], part: str) -> ColumnElement[bool]: ...

    def folded(self, text: SQLColumnExpression[Any]) -> ColumnElement[Any]:
        """With small letters, as `fold` gives them."""
        ...

    def whole_seconds(
        self, start: SQLColumnExpression[Any], end: SQLColumnExpression[Any]
    ) -> ColumnElement[Any]: ...


def fold(text: str) -> str:
    return text.translate(_UPPER)


def portable(dialect: str) -> Portable:
    """By the name of SQLAlchemy's dialect."""
    return _Postgres() if dialect == "postgresql" else _Sqlite()


class _Sqlite:
    def leaf(self, document: Json, keys: Keys) -> Leaf:
        if _all_plain(keys):
            path = _sqlite_path(keys)
            return _sqlite_leaf(func.json_type(document, path), func.json_extract(document, path))
        chain = _Chain.to(document, keys)
        return _sqlite_leaf(*(chain.one(column) for column in ("type", "value")))

    def items(self, document: Json, keys: Keys) -> Rows:
        if _all_plain(keys):
            path = _sqlite_path(keys)
            is_array = func.json_type(document, path) == "array"
            return _Chain().then(case((is_array, func.json_extract(document, path)))).rows()
        chain = _Chain.to(document, keys)
        last = chain.each[-1].c
        return chain.then(case((last.type == "array", last.value))).rows()

    def members(self, document: Json) -> Rows:
        inside = case((func.json_type(document) == "object", type_coerce(document, String)))
        return _Chain().then(inside).rows()

    def among(self, column: SQLColumnExpression[int], ids: Sequence[int]) -> ColumnElement[bool]:
        text = json.dumps(list(ids))
        each = func.json_each(literal(text)).table_valued("value", joins_implicitly=True)
        return column.in_(select(each.c.value))

    def number(self, value: float) -> ColumnElement[Any]:
        return literal(value, Float)

    def by_code_points(self, text: SQLColumnExpression[Any]) -> ColumnElement[Any]:
        return type_coerce(text, String)

    def contains(self, text: SQLColumnExpression[Any], part: str) -> ColumnElement[bool]:
        return func.instr(text, part) > 0

    def folded(self, text: SQLColumnExpression[Any]) -> ColumnElement[Any]:
        return func.lower(text)

    def whole_seconds(
        self, start: SQLColumnExpression[Any], end: SQLColumnExpression[Any]
    ) -> ColumnElement[Any]:
        return (_sqlite_microseconds(end) - _sqlite_microseconds(start)) // 1_000_000


def _sqlite_microseconds(time: SQLColumnExpression[Any]) -> ColumnElement[Any]:
    """Times are stored as `2026-11-27 05:00:00.123456`; `strftime` would round the last digits up to a second."""
    text = type_coerce(time, String)
    seconds = cast(func.strftime("%s", func.substr(text, 1, 19)), Integer)
    return seconds * 1_000_000 + cast(func.substr(text, 21, 6), Integer)


def _sqlite_path(keys: Keys) -> str:
    return "$" + "".join(f'."{key}"' for key in keys)


def _all_plain(keys: Keys) -> bool:
    return all(_PLAIN_KEY.fullmatch(key) for key in keys)


@dataclass(frozen=True)
class _Chain:
    """One `json_each` after the other: keys are compared as they are, not as they are written in JSON."""

    each: tuple[Any, ...] = ()
    where: tuple[ColumnElement[bool], ...] = ()

    @classmethod
    def to(cls, document: Json, keys: Keys) -> _Chain:
        """Down to the member at a path."""
        chain: _Chain = cls()
        value: ColumnElement[Any] = type_coerce(document, String)
        for key in keys:
            chain = chain.then(value)
            here = chain.each[-1].c
            chain = _Chain(chain.each, (*chain.where, here.key == key))
            value = case((here.type == "object", here.value))
        return chain

    def then(self, value: Any) -> _Chain:
        each = func.json_each(value).table_valued("key", "value", "type", joins_implicitly=True)
        return _Chain((*self.each, each), self.where)

    def one(self, column: str) -> ColumnElement[Any]:
        found = select(self.each[-1].c[column]).select_from(*self.each).where(*self.where)
        return found.scalar_subquery()

    def rows(self) -> Rows:
        last = self.each[-1].c
        return Rows(
            self.each, self.where, last.key, last.value, _sqlite_leaf(last.type, last.value)
        )


def _sqlite_leaf(type_: ColumnElement[Any], value: ColumnElement[Any]) -> Leaf:
    return Leaf(
        number=case((type_.in_(("integer", "real")), value)),
        text=case((type_ == "text", value)),
        boolean=case((type_ == "true", literal(True)), (type_ == "false", literal(False))),
        kind=case(
            (type_.in_(("integer", "real")), "number"),
            (type_ == "text", "string"),
            (type_.in_(("true", "false")), "boolean"),
            (type_ == "null", null()),
            else_=type_,
        ),
    )


class _Postgres:
    def leaf(self, document: Json, keys: Keys) -> Leaf:
        return _postgres_leaf(_postgres_at(document, keys))

    def items(self, document: Json, keys: Keys) -> Rows:
        value = _postgres_at(document, keys)
        array = case((func.json_typeof(value) == "array", value))
        each: Any = func.json_array_elements(array).table_valued("value", joins_implicitly=True)
        return Rows((each,), (), literal_column("NULL"), each.c.value, _postgres_leaf(each.c.value))

    def members(self, document: Json) -> Rows:
        whole = _readable(document)
        inside = case((func.json_typeof(whole) == "object", whole))
        each: Any = func.json_each(inside).table_valued("key", "value", joins_implicitly=True)
        return Rows((each,), (), each.c.key, each.c.value, _postgres_leaf(each.c.value))

    def among(self, column: SQLColumnExpression[int], ids: Sequence[int]) -> ColumnElement[bool]:
        return column == any_(literal(list(ids), ARRAY(Integer)))

    def number(self, value: float) -> ColumnElement[Any]:
        return cast(literal(repr(float(value)), String), Numeric)

    def by_code_points(self, text: SQLColumnExpression[Any]) -> ColumnElement[Any]:
        return collate(text, "C")

    def contains(self, text: SQLColumnExpression[Any], part: str) -> ColumnElement[bool]:
        return func.strpos(text, part) > 0

    def folded(self, text: SQLColumnExpression[Any]) -> ColumnElement[Any]:
        return func.lower(collate(text, "C"))

    def whole_seconds(
        self, start: SQLColumnExpression[Any], end: SQLColumnExpression[Any]
    ) -> ColumnElement[Any]:
        return cast(func.floor(func.extract("epoch", end - start)), Integer)


def _readable(document: Json) -> ColumnElement[Any]:
    """Without documents with NUL or half of a surrogate pair: it stores them, but fails to read any part."""
    text = cast(document, String)
    halves = func.regexp_replace(text, _PAIR, "", "g").op("~", is_comparison=True)(r"\\ud[89a-f]")
    broken = or_(func.strpos(text, r"\u0000") > 0, and_(func.strpos(text, r"\ud") > 0, halves))
    return case((broken, null()), else_=type_coerce(document, String))


def _postgres_at(document: Json, keys: Keys) -> ColumnElement[Any]:
    whole = _readable(document)
    if not keys:
        return whole
    found: ColumnElement[Any] = func.json_extract_path(whole, *keys)
    for number, key in enumerate(keys):
        if number and _LIKE_INDEX.fullmatch(key):
            # It would also be the place in an array.
            above = func.json_extract_path(whole, *keys[:number])
            found = case((func.json_typeof(above) == "object", found))
    return found


def _postgres_leaf(value: ColumnElement[Any]) -> Leaf:
    kind = func.json_typeof(value)
    text = value.op("#>>")(literal_column("'{}'"))
    return Leaf(
        number=case((kind == "number", cast(text, Numeric))),
        text=case((kind == "string", text)),
        boolean=case((kind == "boolean", cast(text, Boolean))),
        kind=func.nullif(kind, "null"),
    )
