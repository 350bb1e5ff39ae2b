"""The language of filters: from the JSON text that clients send to a typed tree. Pure.

A condition on a value that is missing does not hold, except the negative ones (`!=`, `notContains`), which hold exactly
where their positive forms do not, and `isEmpty`. A condition whose value is null is none: it always holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeAlias

import orjson

from master.experiments.finding import sources
from master.experiments.finding.columns import Kind, Table
from master.experiments.finding.sources import MAX_NAME_CHARS, Column, Source, short
from windlass.base.errors import InvalidArgument

MAX_DEPTH = 32
"""Groups inside of groups: nobody writes more, and databases have limits of their own."""
MAX_CONDITIONS = 200
MAX_TEXT_CHARS = 1_000_000


class Operator(StrEnum):
    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    CONTAINS = "contains"
    NOT_CONTAINS = "notContains"
    IS_EMPTY = "isEmpty"
    NOT_EMPTY = "notEmpty"


ORDERING = frozenset({Operator.LESS, Operator.AT_MOST, Operator.GREATER, Operator.AT_LEAST})
CONTAINING = frozenset({Operator.CONTAINS, Operator.NOT_CONTAINS})
EMPTINESS = frozenset({Operator.IS_EMPTY, Operator.NOT_EMPTY})
POSITIVE: Mapping[Operator, Operator] = {
    Operator.UNEQUAL: Operator.EQUAL,
    Operator.NOT_CONTAINS: Operator.CONTAINS,
    Operator.NOT_EMPTY: Operator.IS_EMPTY,
}
"""Of each negative operator."""
Value: TypeAlias = float | str | bool | datetime


@dataclass(frozen=True, slots=True)
class Condition:
    source: Source
    operator: Operator
    value: Value | None = None
    """None with `isEmpty` and `notEmpty` only."""


@dataclass(frozen=True, slots=True)
class Group:
    """All of its children hold, or any of them. It has some."""

    any_of: bool
    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Holds exactly where its child does not."""

    child: Node


Node: TypeAlias = Group | Not | Condition


@dataclass(frozen=True, slots=True)
class Filter:
    root: Node | None = None
    """None: everything."""
    show_archived: bool = False


LOCATIONS: Mapping[str, Callable[[Table, str], Source]] = {
    "EXPERIMENT": sources.column,
    "RUN": sources.column,
    "HYPERPARAMETERS": sources.hyperparameter,
    "RUN_HYPERPARAMETERS": sources.hyperparameter,
    "TRAINING": lambda table, name: sources.metric(name),
    "VALIDATIONS": lambda table, name: sources.metric(name),
    "CUSTOM_METRIC": lambda table, name: sources.metric(name),
    "RUN_METADATA": sources.metadata,
}
_LOCATION = "LOCATION_TYPE_"
_UNSAID = (None, "", f"{_LOCATION}UNSPECIFIED")
_TYPES = ("UNSPECIFIED", "TEXT", "NUMBER", "DATE", "ARRAY")
ALLOWED: Mapping[Kind, frozenset[Operator]] = {
    Kind.NUMBER: frozenset(Operator) - CONTAINING,
    Kind.DATE: frozenset(Operator) - CONTAINING,
    Kind.TEXT: frozenset(Operator),
    Kind.TAGS: frozenset(Operator) - ORDERING,
    Kind.BOOLEAN: frozenset(Operator) - ORDERING - CONTAINING,
}


def parse_filter(text: str, table: Table) -> Filter:
    """Raises InvalidArgument that names the place. Empty text hides what is archived, and nothing else."""
    if not text:
        return Filter()
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidArgument(
            f"filter: has {len(text)} characters, at most {MAX_TEXT_CHARS} are read"
        )
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(f"filter: is not JSON, or nested too deeply: {error}") from error
    if not isinstance(document, dict):
        raise InvalidArgument("filter: expected an object with filterGroup and showArchived")
    show_archived = document.get("showArchived", False)
    if not isinstance(show_archived, bool):
        raise InvalidArgument("filter.showArchived: must be true or false")
    group = document.get("filterGroup")
    if group is None:
        return Filter(show_archived=show_archived)
    root = _Parser(table).node(group, "filter.filterGroup", 1)
    return Filter(root=root, show_archived=show_archived)


class _Parser:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._conditions = 0

    def node(self, document: Any, where: str, depth: int) -> Node | None:
        """None: it always holds."""
        if not isinstance(document, dict):
            raise InvalidArgument(f"{where}: expected an object")
        match document.get("kind"):
            case "group":
                return self._group(document, where, depth)
            case "field":
                return self._condition(document, where)
            case other:
                raise InvalidArgument(
                    f'{where}.kind: must be "group" or "field", not {short(str(other))}'
                )

    def _group(self, document: Mapping[str, Any], where: str, depth: int) -> Group | None:
        if depth > MAX_DEPTH:
            raise InvalidArgument(f"filter: groups are nested deeper than {MAX_DEPTH} levels")
        conjunction = document.get("conjunction")
        if conjunction not in ("and", "or"):
            raise InvalidArgument(
                f'{where}.conjunction: must be "and" or "or", not {short(str(conjunction))}'
            )
        children = document.get("children", [])
        if not isinstance(children, list):
            raise InvalidArgument(f"{where}.children: expected a list")
        nodes = [
            self.node(child, f"{where}.children[{number}]", depth + 1)
            for number, child in enumerate(children)
        ]
        kept = tuple(node for node in nodes if node is not None)
        any_of = conjunction == "or"
        if not kept or (any_of and len(kept) < len(nodes)):
            return None
        return Group(any_of=any_of, children=kept)

    def _condition(self, document: Mapping[str, Any], where: str) -> Condition | None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise InvalidArgument(f"filter: has more than {MAX_CONDITIONS} conditions")
        source = self._source(document, where)
        operator = _operator(document.get("operator"), where)
        if isinstance(source, Column) and operator not in ALLOWED[source.kind]:
            raise InvalidArgument(
                f"{where}.operator: {operator} does not apply to {source.name}, a {source.kind}"
            )
        if operator in EMPTINESS:
            return Condition(source, operator)
        value = document.get("value")
        if value is None:
            return None
        return Condition(source, operator, _value(source, operator, value, f"{where}.value"))

    def _source(self, document: Mapping[str, Any], where: str) -> Source:
        type_ = document.get("type") or f"COLUMN_TYPE_{_TYPES[0]}"
        if type_ not in [f"COLUMN_TYPE_{word}" for word in _TYPES]:
            raise InvalidArgument(f"{where}.type: unknown type {short(str(type_))}")
        name = document.get("columnName")
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"{where}.columnName: required")
        if len(name) > MAX_NAME_CHARS or "\0" in name:
            raise InvalidArgument(
                f"{where}.columnName: must have at most {MAX_NAME_CHARS} characters, none of them NUL"
            )
        location = document.get("location")
        known = (
            sources.column
            if location in _UNSAID
            else LOCATIONS.get(str(location).removeprefix(_LOCATION))
        )
        if known is None:
            raise InvalidArgument(
                f"{where}.location: unknown location {short(str(location))}; use "
                f"one of {', '.join(_LOCATION + word for word in LOCATIONS)}"
            )
        try:
            return known(self._table, name)
        except InvalidArgument as error:
            raise InvalidArgument(f"{where}.columnName: {error.message}") from None


def _operator(word: Any, where: str) -> Operator:
    try:
        return Operator(word)
    except ValueError:
        raise InvalidArgument(
            f"{where}.operator: must be one of {', '.join(Operator)}, not {short(str(word))}"
        ) from None


def _value(source: Source, operator: Operator, value: Any, where: str) -> Value:
    if isinstance(value, str) and "\0" in value:
        raise InvalidArgument(f"{where}: must not contain NUL characters")
    if isinstance(source, Column):
        return _value_of_column(source, value, where)
    if isinstance(value, bool) and operator in ORDERING:
        raise InvalidArgument(f"{where}: true and false have no order: {operator} needs another")
    if isinstance(value, bool | str):
        return value
    return _number(value, where, "a number, a text, true or false")


def _value_of_column(column: Column, value: Any, where: str) -> Value:
    match column.kind:
        case Kind.NUMBER:
            return _number(value, where, f"a number, as {column.name} is one")
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.DATE if isinstance(value, str):
            return _time(value, where)
        case Kind.TEXT | Kind.TAGS if isinstance(value, str):
            return value.removeprefix("STATE_") if column.name == "state" else value
        case kind:
            wanted = {Kind.BOOLEAN: "true or false", Kind.DATE: "a time"}.get(kind, "a text")
            raise InvalidArgument(f"{where}: must be {wanted}, as {column.name} is one")


def _number(value: Any, where: str, wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"{where}: must be {wanted}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidArgument(f"{where}: must be a finite number")
    return number


def _time(value: str, where: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{where}: {short(value)} is no time: expected e.g. 2026-01-31T12:00:00Z"
        ) from None
