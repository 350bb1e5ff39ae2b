"""What there is to filter and sort by: the columns of a project, the ranges of its metrics, metadata, labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, FromClause, Select, case, func, select, union
from sqlalchemy.orm import join

from master.core.visibility import Visibility
from master.experiments.finding.columns import COLUMNS, Kind, Table
from master.experiments.finding.sources import HYPERPARAMETER, METADATA, STATISTICS
from master.experiments.finding.subjects import BEST, Experiments
from master.experiments.reports.metrics import TRAINING, VALIDATION, group_of
from master.store import tables
from master.store.sql.portable import Json, Rows, portable
from master.store.store import Store
from master.store.visible import project_visible

SEARCHER_METRIC = "searcherMetricsVal"
_E, _T = tables.Experiment, tables.Trial
_NON_FINITE = ".$float"
"""How the path of a number ends that JSON has no word for (`master.store.sql.json_codec`)."""
_KINDS = {
    "number": Kind.NUMBER,
    "string": Kind.TEXT,
    "date": Kind.DATE,
    "array": Kind.TAGS,
    "boolean": Kind.BOOLEAN,
}
"""By the kinds of JSON values, and the types of metrics."""


@dataclass(frozen=True, slots=True)
class ProjectColumn:
    """`kind` is None where values of several kinds were found, or none that says it."""

    name: str
    location: str
    kind: Kind | None
    title: str = ""


class Range(NamedTuple):
    name: str
    low: float
    high: float


class _Typed(NamedTuple):
    path: str
    kind: str | None


class _MetricType(NamedTuple):
    key: str
    name: str
    type: str | None


class ProjectValues:
    """Project 0 is every one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._db = portable(store.dialect)

    async def columns(
        self, project_id: int, table: Table, visible: Visibility
    ) -> list[ProjectColumn]:
        """Fixed ones, then metrics, hyperparameters and, for runs, metadata, each by name."""
        of_runs = table is Table.RUNS
        here = _in(project_id, visible)
        found = [
            ProjectColumn(name, "RUN" if info.of_run else "EXPERIMENT", info.kind, info.title)
            for name, info in COLUMNS[table].items()
            if info.title
        ]
        found += _metric_columns(await self._store.read(self._metrics(here), _MetricType))
        location = "RUN_HYPERPARAMETERS" if of_runs else "HYPERPARAMETERS"
        paths = await self._store.read(self._paths(_T.hparams, here), _Typed)
        found += _free_columns(paths, HYPERPARAMETER, location)
        if of_runs:
            paths = await self._store.read(self._paths(_T.run_metadata, here), _Typed)
            found += _free_columns(paths, METADATA, "RUN_METADATA")
        return found

    async def metric_ranges(
        self, project_id: int, now: datetime, visible: Visibility
    ) -> list[Range]:
        """Of the best trials of its experiments."""
        here = _in(project_id, visible)
        best = BEST.id == Experiments(self._db, now).best()
        metric = BEST.searcher_metric
        (low_high,) = await self._store.read(
            select(func.min(metric), func.max(metric)).join_from(_E, BEST, best).where(*here), _pair
        )
        found = [] if low_high[0] is None else [Range(SEARCHER_METRIC, *low_high)]
        groups, metrics = self._members_twice(BEST.summary_metrics)
        inner = _object(metrics)
        numbers = [self._db.leaf(inner, (statistic,)).number for statistic in STATISTICS]
        bounds = [bound(number) for number in numbers for bound in (func.min, func.max)]
        statement: Select[*tuple[Any, ...]] = (
            select(groups.key, metrics.key, *bounds)
            .select_from(join(_E, BEST, best), *groups.tables, *metrics.tables)
            .where(*here)
            .group_by(groups.key, metrics.key)
            .order_by(*self._by(groups.key), *self._by(metrics.key))
        )
        for key, name, *values in await self._store.read(statement, _row):
            for statistic, low, high in zip(STATISTICS, values[::2], values[1::2], strict=True):
                if low is not None:
                    full = f"{group_of(key)}.{name}.{statistic}"
                    found.append(Range(full, float(low), float(high)))
        return found

    async def metadata_values(
        self, project_id: int, path: Sequence[str], visible: Visibility
    ) -> list[str]:
        """The texts at a path through the metadata of runs, those in lists, too."""
        leaf = self._db.leaf(_T.run_metadata, path)
        items = self._db.items(_T.run_metadata, path)
        here = _in(project_id, visible)
        runs = select(leaf.text.label("text")).select_from(_runs())
        listed = (
            select(items.leaf.text.label("text"))
            .select_from(_runs(), *items.tables)
            .where(*items.where)
        )
        both = union(runs.where(*here), listed.where(*here)).subquery()
        text = both.c.text
        return await self._store.read(
            select(text).where(text.is_not(None)).order_by(*self._by(text))
        )

    async def labels(self, project_id: int, visible: Visibility) -> list[str]:
        """Of experiments, the most frequent first."""
        items = self._db.items(_E.labels, ())
        text = items.leaf.text
        statement = (
            select(text)
            .select_from(_E, *items.tables)
            .where(*items.where, text.is_not(None), *_in(project_id, visible))
            .group_by(text)
            .order_by(func.count().desc(), *self._by(text))
        )
        return await self._store.read(statement)

    def _metrics(self, here: Sequence[ColumnElement[bool]]) -> Select[str, str, str | None]:
        groups, metrics = self._members_twice(_T.summary_metrics)
        type_ = self._db.leaf(_object(metrics), ("type",)).text
        return (
            select(groups.key, metrics.key, type_)
            .select_from(_runs(), *groups.tables, *metrics.tables)
            .where(*here)
            .distinct()
        )

    def _members_twice(self, document: Json) -> tuple[Rows, Rows]:
        groups = self._db.members(document)
        return groups, self._db.members(_object(groups))

    def _paths(
        self, document: Json, here: Sequence[ColumnElement[bool]]
    ) -> Select[str, str | None]:
        """Of all that is in objects, through objects in them; with each kind of value that was found there."""
        first = self._db.members(document)
        found = (
            select(
                first.key.label("path"), first.value.label("value"), first.leaf.kind.label("kind")
            )
            .select_from(_runs(), *first.tables)
            .where(*here)
            .cte("found", recursive=True)
        )
        inner = self._db.members(case((found.c.kind == "object", found.c.value)))
        path = found.c.path.concat(".").concat(inner.key)
        below = select(path, inner.value, inner.leaf.kind).select_from(found, *inner.tables)
        found = found.union_all(below)
        kind = func.coalesce(found.c.kind, "null")
        return select(found.c.path, kind).where(kind != "object").distinct()

    def _by(self, text: Any) -> tuple[ColumnElement[Any]]:
        return (self._db.by_code_points(text),)


def _runs() -> FromClause:
    """With their experiments. FROM begins with it: PostgreSQL reads from left to right."""
    return join(_T, _E, _E.id == _T.experiment_id)


def _in(project_id: int, visible: Visibility) -> list[ColumnElement[bool]]:
    here = project_visible(_E.project_id, visible)
    return [_E.project_id == project_id, *here] if project_id else here


def _object(rows: Rows) -> ColumnElement[Any]:
    return case((rows.leaf.kind == "object", rows.value))


def _pair(low: float | None, high: float | None) -> tuple[Any, Any]:
    return low, high


def _row(*values: Any) -> tuple[Any, ...]:
    return values


def _metric_columns(rows: Sequence[_MetricType]) -> list[ProjectColumn]:
    kinds: dict[tuple[str, str], set[str | None]] = {}
    for row in rows:
        kinds.setdefault((group_of(row.key), row.name), set()).add(row.type)
    locations = {TRAINING: "TRAINING", VALIDATION: "VALIDATIONS"}
    return [
        ProjectColumn(
            f"{group}.{name}.{statistic}",
            locations.get(group, "CUSTOM_METRIC"),
            _kind(kinds[group, name]),
        )
        for group, name in sorted(kinds)
        for statistic in STATISTICS
    ]


def _free_columns(rows: Sequence[_Typed], prefix: str, location: str) -> list[ProjectColumn]:
    kinds: dict[str, set[str | None]] = {}
    for path, kind in rows:
        is_number = path.endswith(_NON_FINITE)
        name = prefix + path.removesuffix(_NON_FINITE)
        kinds.setdefault(name, set()).add("number" if is_number else kind)
    return [ProjectColumn(name, location, _kind(kinds[name])) for name in sorted(kinds)]


def _kind(found: Iterable[str | None]) -> Kind | None:
    """The only one. Null is a value of any kind."""
    known = {kind for kind in found if kind not in (None, "null")}
    return _KINDS.get(known.pop() or "") if len(known) == 1 else None
