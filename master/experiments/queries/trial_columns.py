"""All trials of a search at once, a column for each hyperparameter: what plots of hyperparameters are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import func, select

from master.core.searcher.metrics import NON_FINITE
from master.core.searcher.sampler_question import axes
from master.core.searcher.space import Choice, IntRange, LogRange, parse_space
from master.experiments.reports.metrics import summary_key
from master.parsing import in_parsing_thread
from master.store import tables
from master.store.sql.portable import portable
from master.store.store import Store
from windlass.base.formats.json_types import JsonMapping, JsonObject

MOST_TRIALS = 10_000
MOST_HYPERPARAMETERS = 100
"""In one answer: more axes than a screen has room for."""

_T = tables.Trial


class AxisKind(StrEnum):
    """How the search draws a hyperparameter."""

    DOUBLE = "double"
    INT = "int"
    LOG = "log"
    CATEGORICAL = "categorical"
    OTHER = "other"
    """It does not, but trials differ in it."""


@dataclass(frozen=True, slots=True)
class HyperparameterColumn:
    name: str
    """Nested names are joined by dots."""
    kind: AxisKind
    values: list[Any]
    """One for each trial; None: it has none."""


class TrialNumbers(NamedTuple):
    """A trial with the metric that was asked for."""

    id: int
    request_id: str
    state: str
    last_activity: datetime | None
    steps: int
    hparams: JsonObject
    smallest: Any
    largest: Any
    last_number: Any
    last_word: str | None

    @property
    def last(self) -> float | str | None:
        """The newest value; `NaN` and its like as JSON says them."""
        if self.last_number is not None:
            return float(self.last_number)
        return self.last_word if self.last_word in NON_FINITE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialColumns:
    trials: Sequence[TrialNumbers]
    """The best first, by the searcher's metric; those without one come last."""
    total: int
    columns: Sequence[HyperparameterColumn]
    hyperparameters: int
    """Of which some may have no column."""


class TrialColumnQueries:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._db = portable(store.dialect)

    async def columns(
        self,
        experiment_id: int,
        hyperparameters: JsonMapping,
        *,
        group: str,
        metric: str,
        smaller_is_better: bool,
        limit: int,
    ) -> TrialColumns:
        """`hyperparameters`: that section of the experiment's configuration."""

        def of_summary(name: str) -> Any:
            return self._db.leaf(_T.summary_metrics, (summary_key(group), metric, name))

        best = _T.searcher_metric.asc() if smaller_is_better else _T.searcher_metric.desc()
        statement: Any = (
            select(
                _T.id,
                _T.request_id,
                _T.state,
                _T.last_activity,
                _T.steps_completed,
                _T.hparams,
                of_summary("min").number,
                of_summary("max").number,
                of_summary("last").number,
                of_summary("last").text,
            )
            .where(_T.experiment_id == experiment_id)
            .order_by(best.nulls_last(), _T.id)
            .limit(limit)
        )
        rows: list[TrialNumbers] = await self._store.read(statement, TrialNumbers)
        total = await self._store.read_one(
            select(func.count()).where(_T.experiment_id == experiment_id)
        )
        found = await in_parsing_thread(
            hyperparameter_columns, hyperparameters, [row.hparams for row in rows]
        )
        return TrialColumns(
            trials=rows,
            total=total or 0,
            columns=found[:MOST_HYPERPARAMETERS],
            hyperparameters=len(found),
        )


def hyperparameter_columns(
    hyperparameters: JsonMapping, trials: Sequence[JsonMapping]
) -> list[HyperparameterColumn]:
    """Those that the search draws, then others in which trials differ; each by name."""
    drawn = {".".join(path): axis for path, axis in axes(parse_space(hyperparameters))}
    others = sorted(_differing(trials, drawn))
    kinds = [(name, _kind(axis)) for name, axis in sorted(drawn.items())]
    kinds += [(name, AxisKind.OTHER) for name in others]
    columns = [HyperparameterColumn(name, kind, []) for name, kind in kinds]
    for trial in trials:
        row = dict(_flat(trial, drawn))
        for column in columns:
            column.values.append(row.get(column.name))
    return columns


def _differing(trials: Sequence[JsonMapping], drawn: Mapping[str, object]) -> set[str]:
    """Names that are not drawn, and whose values are not the same in all trials."""
    first = dict(_flat(trials[0], drawn)) if trials else {}
    found: set[str] = set()
    for trial in trials[1:]:
        row = dict(_flat(trial, drawn))
        found.update(first.keys() ^ row.keys())
        for name, value in row.items():
            if name in first and (type(value) is not type(first[name]) or value != first[name]):
                found.add(name)
    return found - drawn.keys()


def _flat(
    values: JsonMapping, whole: Mapping[str, object], path: str = ""
) -> Iterator[tuple[str, Any]]:
    """Names and values; maps are taken apart, unless the search draws them as a whole."""
    for name, value in values.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, dict) and here not in whole:
            yield from _flat(value, whole, here)
        else:
            yield here, value


def _kind(axis: object) -> AxisKind:
    match axis:
        case Choice():
            return AxisKind.CATEGORICAL
        case IntRange():
            return AxisKind.INT
        case LogRange():
            return AxisKind.LOG
        case _:
            return AxisKind.DOUBLE
