"""Filters and sorts as SQL, for both databases: which experiments, or which runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol, assert_never

from sqlalchemy import (
    ColumnElement,
    Float,
    Select,
    SQLColumnExpression,
    String,
    and_,
    case,
    cast,
    exists,
    false,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    true,
)
from sqlalchemy.orm import aliased

from master.experiments.finding.columns import Kind
from master.experiments.finding.filters import (
    POSITIVE,
    Condition,
    Filter,
    Group,
    Operator,
    Value,
)
from master.experiments.finding.sorts import Sort
from master.experiments.finding.sources import (
    Column,
    Hyperparameter,
    Metadata,
    Metric,
    Source,
    Space,
)
from master.experiments.reports.metrics import summary_key
from master.store import tables
from master.store.sql.portable import Json, Keys, Leaf, Portable, Rows, fold

Expression = ColumnElement[Any]
_E, _T, _C, _U = tables.Experiment, tables.Trial, tables.Checkpoint, tables.User
_P, _W = tables.Project, tables.Workspace
BEST = aliased(tables.Trial, name="best")
"""The trial of an experiment with the best searcher metric."""

_COMPARE: Mapping[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: lambda a, b: a == b,
    Operator.LESS: lambda a, b: a < b,
    Operator.AT_MOST: lambda a, b: a <= b,
    Operator.GREATER: lambda a, b: a > b,
    Operator.AT_LEAST: lambda a, b: a >= b,
}
_LIVE = _C.state != "DELETED"
_username: Expression = (
    select(_U.username).where(_U.id == _E.owner_id).correlate(_E).scalar_subquery()
)


class Subject(Protocol):
    """What is looked for: where its values are."""

    @property
    def id(self) -> SQLColumnExpression[int]: ...

    def column(self, name: str) -> SQLColumnExpression[Any]: ...

    @property
    def summary(self) -> Json:
        """Metrics."""
        ...


@dataclass(frozen=True)
class Runs:
    """Trials, joined with their experiments."""

    db: Portable
    now: datetime

    @property
    def id(self) -> SQLColumnExpression[int]:
        return _T.id

    @property
    def summary(self) -> Json:
        return _T.summary_metrics

    def column(self, name: str) -> SQLColumnExpression[Any]:
        return self._columns[name]

    @cached_property
    def _columns(self) -> Mapping[str, SQLColumnExpression[Any]]:
        of_run = and_(_C.trial_id == _T.id, _LIVE)
        of_project = _P.id == _E.project_id
        return {
            **_of_experiment(self.db),
            "id": _T.id,
            "startTime": _T.created_at,
            "endTime": _T.ended_at,
            "duration": _duration(self.db, _T.created_at, _T.ended_at, self.now),
            "state": run_state(),
            "searcherMetricsVal": _T.searcher_metric,
            "checkpointSize": _size(of_run).correlate(_T).scalar_subquery(),
            "checkpointCount": _count(of_run).correlate(_T).scalar_subquery(),
            "experimentName": _E.name,
            "experimentDescription": _E.description,
            "experimentProgress": _E.progress,
            "experimentId": _E.id,
            "externalRunId": null(),
            "localId": (
                select(local_id(_P.key, _T.local_number)).where(of_project).correlate(_E, _T)
            ).scalar_subquery(),
            "isExpMultitrial": _is_multitrial(self.db),
            "archived": run_archived(),
            "parentArchived": (
                select(parent_archived())
                .join_from(_P, _W, _W.id == _P.workspace_id)
                .where(of_project)
                .correlate(_E)
                .scalar_subquery()
            ),
        }


@dataclass(frozen=True)
class Experiments:
    """Experiments, each with its best trial if it has one."""

    db: Portable
    now: datetime

    @property
    def id(self) -> SQLColumnExpression[int]:
        return _E.id

    @property
    def summary(self) -> Json:
        return BEST.summary_metrics

    def column(self, name: str) -> SQLColumnExpression[Any]:
        return self._columns[name]

    @cached_property
    def _columns(self) -> Mapping[str, SQLColumnExpression[Any]]:
        here = and_(_C.experiment_id == _E.id, _LIVE)
        trials = select(func.count()).select_from(_T).where(_T.experiment_id == _E.id)
        return {
            **_of_experiment(self.db),
            "id": _E.id,
            "name": _E.name,
            "description": _E.description,
            "startTime": _E.created_at,
            "endTime": _E.ended_at,
            "duration": _duration(self.db, _E.created_at, _E.ended_at, self.now),
            "numTrials": trials.correlate(_E).scalar_subquery(),
            "state": _E.state,
            "searcherMetricsVal": BEST.searcher_metric,
            "progress": _E.progress,
            "checkpointSize": _size(here).correlate(_E).scalar_subquery(),
            "checkpointCount": _count(here).correlate(_E).scalar_subquery(),
            "externalTrialId": null(),
        }

    def best(self) -> ColumnElement[int]:
        """The id of the best trial, for a join."""
        smaller = self.db.leaf(_E.config, ("searcher", "smaller_is_better")).boolean
        metric = _T.searcher_metric
        # SQLite does not know the experiment's columns in an ORDER BY of the inner query.
        return case(
            (smaller.is_(false()), _first_trial(metric.desc())), else_=_first_trial(metric.asc())
        )


def _first_trial(by: ColumnElement[Any]) -> ColumnElement[int]:
    return (
        select(_T.id)
        .where(_T.experiment_id == _E.id, _T.searcher_metric.is_not(None))
        .order_by(by, _T.id)
        .limit(1)
        .correlate(_E)
        .scalar_subquery()
    )


def run_state() -> Expression:
    """As it is stored: a trial that is not over rests with its experiment."""
    return case((and_(_T.state == "ACTIVE", _E.state == "PAUSED"), "PAUSED"), else_=_T.state)


def parent_archived() -> ColumnElement[bool]:
    return or_(_P.archived, _W.archived)


def local_id(key: SQLColumnExpression[str], number: SQLColumnExpression[int]) -> Expression:
    """The project's key, and a number that no other run of it has."""
    return key.concat("-").concat(cast(number, String))


def _of_experiment(db: Portable) -> Mapping[str, SQLColumnExpression[Any]]:
    return {
        "tags": _E.labels,
        "forkedFrom": _E.parent_id,
        "searcherType": _searcher(db, "name"),
        "searcherMetric": _searcher(db, "metric"),
        "resourcePool": _E.resource_pool,
        "user": _username,
        "projectId": _E.project_id,
        "externalExperimentId": _E.external_id,
        "archived": _E.archived,
    }


def run_places(db: Portable) -> Select[int, str, int, int, bool, bool, bool]:
    """Of all runs."""
    return select(
        *(_T.id, _T.state, _E.id, _E.project_id),
        *(run_archived(), _E.archived, _is_multitrial(db)),
    ).join(_E, _E.id == _T.experiment_id)


def run_archived() -> ColumnElement[bool]:
    """By itself, or with its experiment."""
    return or_(_T.archived, _E.archived)


def _is_multitrial(db: Portable) -> ColumnElement[bool]:
    return _searcher(db, "name") != "single"


def _searcher(db: Portable, key: str) -> Expression:
    return db.leaf(_E.config, ("searcher", key)).text


def _count(where: ColumnElement[bool]) -> Select[int]:
    return select(func.count()).select_from(_C).where(where)


def _size(where: ColumnElement[bool]) -> Select[int]:
    return select(func.coalesce(func.sum(_C.size), 0)).select_from(_C).where(where)


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


def _duration(
    db: Portable,
    start: SQLColumnExpression[datetime],
    end: SQLColumnExpression[datetime | None],
    now: datetime,
) -> ColumnElement[Any]:
    """Never negative, also after the clock was set back."""
    seconds = db.whole_seconds(start, func.coalesce(end, now))
    return case((seconds < 0, 0), else_=seconds)


class _Translator:
    def __init__(self, subject: Subject, db: Portable) -> None:
        self._subject = subject
        self._db = db

    def node(self, node: Group | Condition) -> ColumnElement[bool]:
        if isinstance(node, Condition):
            return self._condition(node)
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
