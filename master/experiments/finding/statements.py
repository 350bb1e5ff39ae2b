"""Filters and sorts as SQL, for both databases: which experiments, or which runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, assert_never

from sqlalchemy import (
    ColumnElement,
    Float,
    SQLColumnExpression,
    and_,
    case,
    exists,
    false,
    literal,
    not_,
    or_,
    select,
    true,
)

from master.experiments.finding.columns import Kind
from master.experiments.finding.filters import (
    POSITIVE,
    Condition,
    Filter,
    Node,
    Not,
    Operator,
    Value,
)
from master.experiments.finding.live_states import LIVE
from master.experiments.finding.sorts import Sort
from master.experiments.finding.sources import (
    Column,
    Hyperparameter,
    Metadata,
    Metric,
    Source,
    Space,
)
from master.experiments.finding.subjects import Expression, Subject
from master.experiments.reports.metrics import summary_key
from master.store import tables
from master.store.sql.portable import Json, Keys, Leaf, Portable, Rows, fold

_E, _T = tables.Experiment, tables.Trial
_COMPARE: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: lambda a, b: a == b,
    Operator.LESS: lambda a, b: a < b,
    Operator.AT_MOST: lambda a, b: a <= b,
    Operator.GREATER: lambda a, b: a > b,
    Operator.AT_LEAST: lambda a, b: a >= b,
}


def conditions(subject: Subject, db: Portable, wanted: Filter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if not wanted.show_archived:
        found.append(not_(subject.column("archived")))
    if wanted.root is not None:
        found.append(_Translator(subject, db).node(wanted.root))
    return found


def order(subject: Subject, db: Portable, sorts: Sequence[Sort]) -> list[ColumnElement[Any]]:
    """Missing values last, ties by id."""
    found: list[ColumnElement[Any]] = []
    for sort in sorts:
        for key in _keys(subject, db, sort.source):
            found.append((key.desc() if sort.descending else key.asc()).nulls_last())
    return [*found, subject.id.asc()]


def _keys(subject: Subject, db: Portable, source: Source) -> list[SQLColumnExpression[Any]]:
    """Numbers before texts, where both may be."""
    if isinstance(source, Column):
        column = subject.column(source.name)
        if source.name == "state":
            # Active ones by what they do.
            places = [(subject.is_live(state), place) for place, state in enumerate(LIVE)]
            return [db.by_code_points(column), case(*places)]
        return [db.by_code_points(column) if source.kind is Kind.TEXT else column]
    leaf = _leaf(subject, db, source)
    return [leaf.number, db.by_code_points(leaf.text)]


def _place(subject: Subject, source: Metric | Hyperparameter | Metadata) -> tuple[Json, Keys]:
    match source:
        case Metric(group, name, statistic):
            return subject.summary, (summary_key(group), name, statistic)
        case Hyperparameter(path):
            return _T.hparams, path
        case Metadata(path):
            return _T.run_metadata, path


def _leaf(subject: Subject, db: Portable, source: Source) -> Leaf:
    match source:
        case Space(path):
            return db.leaf(_E.config, ("hyperparameters", *path, "val"))
        case Column():
            raise TypeError("a column is no JSON")
        case Metric() | Hyperparameter() | Metadata():
            return db.leaf(*_place(subject, source))
        case _:
            assert_never(source)


class _Translator:
    def __init__(self, subject: Subject, db: Portable) -> None:
        self._subject = subject
        self._db = db

    def node(self, node: Node) -> ColumnElement[bool]:
        if isinstance(node, Condition):
            return self._condition(node)
        if isinstance(node, Not):
            # What is unknown does not hold: its negation does.
            return self.node(node.child).is_not(true())
        children = [self.node(child) for child in node.children]
        return or_(*children) if node.any_of else and_(*children)

    def _condition(self, condition: Condition) -> ColumnElement[bool]:
        positive = POSITIVE.get(condition.operator)
        if positive is None:
            return self._holds(condition.source, condition.operator, condition.value)
        # What is unknown does not hold: its negation does.
        return self._holds(condition.source, positive, condition.value).is_not(true())

    def _holds(
        self, source: Source, operator: Operator, value: Value | None
    ) -> ColumnElement[bool]:
        if isinstance(source, Column):
            return self._column(source, operator, value)
        if isinstance(source, Space):
            return self._space(source, operator, value)
        document, keys = _place(self._subject, source)
        if value is None:
            return self._is_empty(document, keys)
        return self._any(document, keys, operator, value)

    def _column(
        self, source: Column, operator: Operator, value: Value | None
    ) -> ColumnElement[bool]:
        if source.name == "state" and operator is Operator.EQUAL and value in LIVE:
            return self._subject.is_live(str(value))
        column = self._subject.column(source.name)
        if source.kind is Kind.TAGS:
            return self._tags(column, operator, value)
        if value is None:
            empty = column.is_(None)
            return or_(empty, column == "") if source.kind is Kind.TEXT else empty
        if operator is Operator.CONTAINS:
            return self._db.contains(self._db.folded(column), fold(str(value)))
        if source.kind is Kind.TEXT:
            return _compared(operator, self._db.by_code_points(column), value)
        if source.kind is Kind.NUMBER:
            return _compared(operator, column, literal(value, Float))
        if source.kind is Kind.BOOLEAN:
            return column.is_(true() if value else false())
        return _compared(operator, column, value)

    def _tags(self, labels: Json, operator: Operator, value: Value | None) -> ColumnElement[bool]:
        """One of the labels is the text, or has it in it."""
        items = self._db.items(labels, ())
        text = items.leaf.text
        if value is None:
            return ~_exists(items)
        if operator is Operator.CONTAINS:
            return _exists(items, self._db.contains(self._db.folded(text), fold(str(value))))
        return _exists(items, text == value)

    def _any(
        self, document: Json, keys: Keys, operator: Operator, value: Value
    ) -> ColumnElement[bool]:
        """The value there, or one of the items if it is an array."""
        leaf, items = self._db.leaf(document, keys), self._db.items(document, keys)
        return or_(
            self._match(leaf, operator, value),
            and_(leaf.kind == "array", _exists(items, self._match(items.leaf, operator, value))),
        )

    def _match(self, leaf: Leaf, operator: Operator, value: Value) -> ColumnElement[bool]:
        """What is of another kind never matches. Of numbers, truth and times `contains` is `=`."""
        if isinstance(value, bool):
            return leaf.boolean.is_(true() if value else false())
        if isinstance(value, str):
            if operator is Operator.CONTAINS:
                return self._db.contains(leaf.text, value)
            return _compared(operator, self._db.by_code_points(leaf.text), value)
        if isinstance(value, datetime):
            raise TypeError("times are values of columns only")
        equal = Operator.EQUAL if operator is Operator.CONTAINS else operator
        return _compared(equal, leaf.number, self._db.number(value))

    def _is_empty(self, document: Json, keys: Keys) -> ColumnElement[bool]:
        leaf, items = self._db.leaf(document, keys), self._db.items(document, keys)
        return or_(
            leaf.kind.is_(None),
            leaf.text == "",
            and_(leaf.kind == "array", ~_exists(items)),
        )

    def _space(self, source: Space, operator: Operator, value: Value | None) -> ColumnElement[bool]:
        """A constant by its value, a choice by what is in it, a range by its bounds."""
        config, at = _E.config, ("hyperparameters", *source.path)
        type_ = self._db.leaf(config, (*at, "type")).text
        if value is None:
            constant = and_(type_ == "const", self._is_empty(config, (*at, "val")))
            return or_(self._db.leaf(config, at).kind.is_(None), constant)
        return or_(
            and_(type_ == "const", self._any(config, (*at, "val"), operator, value)),
            *self._choice(config, at, type_, operator, value),
            *self._range(config, at, type_, operator, value),
        )

    def _choice(
        self, config: Json, at: Keys, type_: Expression, operator: Operator, value: Value
    ) -> list[ColumnElement[bool]]:
        if operator is not Operator.CONTAINS:
            return []
        items = self._db.items(config, (*at, "vals"))
        one = _exists(items, self._match(items.leaf, Operator.EQUAL, value))
        return [and_(type_ == "categorical", one)]

    def _range(
        self, config: Json, at: Keys, type_: Expression, operator: Operator, value: Value
    ) -> list[ColumnElement[bool]]:
        if isinstance(value, str | bool | datetime):
            return []
        low, high = (self._db.leaf(config, (*at, key)).number for key in ("minval", "maxval"))
        number = self._db.number(value)
        inside = (
            and_(low <= number, number <= high)
            if operator is Operator.CONTAINS
            else or_(_compared(operator, low, number), _compared(operator, high, number))
        )
        return [and_(type_.in_(("int", "double", "log")), inside)]


def _compared(
    operator: Operator, column: SQLColumnExpression[Any], value: Any
) -> ColumnElement[bool]:
    found: ColumnElement[bool] = _COMPARE[operator](column, value)
    return found


def _exists(rows: Rows, *where: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists(select(literal(1)).select_from(*rows.tables).where(*rows.where, *where))
