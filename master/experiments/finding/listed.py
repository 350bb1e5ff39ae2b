"""The rows of a page of a list, and the values of the columns that its reader chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, func, select

from master.core.visibility import Visibility
from master.experiments.finding import subjects
from master.experiments.finding.columns import Table
from master.experiments.finding.sources import Column, Hyperparameter, Metadata, Metric, Source
from master.experiments.finding.subjects import BEST, Experiments
from master.experiments.reports.metrics import summary_key
from master.store import tables
from master.store.sql.portable import portable
from master.store.store import Store
from master.store.visible import project_visible

_E, _T, _C, _U = tables.Experiment, tables.Trial, tables.Checkpoint, tables.User
_P, _W = tables.Project, tables.Workspace


class ListedRun(NamedTuple):
    """A run with what lists show of its experiment and its project."""

    id: int
    request_id: str
    state: str
    last_activity: datetime | None
    created_at: datetime
    ended_at: datetime | None
    searcher_metric: float | None
    archived: bool
    local_id: str
    experiment_id: int
    experiment_name: str
    experiment_state: str
    labels: list[str]
    resource_pool: str
    username: str
    display_name: str
    project_id: int
    project_name: str
    workspace_id: int
    workspace_name: str
    checkpoint_count: int


class ListedValues:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def runs(self, ids: Sequence[int], visible: Visibility) -> dict[int, ListedRun]:
        """Those that are gone meanwhile are left out."""
        where = (_T.id.in_(ids), *project_visible(_E.project_id, visible))
        rows: list[ListedRun] = await self._store.read(_runs().where(*where), ListedRun)
        return {row.id: row for row in rows}

    async def values(
        self, table: Table, ids: Sequence[int], sources: Sequence[Source], now: datetime
    ) -> Mapping[int, Sequence[Any]]:
        """Of each one, in the order of the sources, which are no columns; None for what is missing."""
        if not sources:
            return {}
        rows = await self._store.read(self._documents(table, ids, sources, now), _row)
        kinds = list(dict.fromkeys(map(type, sources)))
        return {
            id_: [_value(one, documents[kinds.index(type(one))]) for one in sources]
            for id_, *documents in rows
        }

    def _documents(
        self, table: Table, ids: Sequence[int], sources: Sequence[Source], now: datetime
    ) -> Select[*tuple[Any, ...]]:
        """Ids with one document for each kind of source."""
        kinds = list(dict.fromkeys(map(type, sources)))
        if table is Table.RUNS:
            of_run = {Metric: _T.summary_metrics, Metadata: _T.run_metadata}
            return select(_T.id, *(of_run.get(k, _T.hparams) for k in kinds)).where(_T.id.in_(ids))
        best = Experiments(portable(self._store.dialect), now).best()
        columns = [BEST.summary_metrics if kind is Metric else _E.config for kind in kinds]
        found = select(_E.id, *columns).where(_E.id.in_(ids))
        return found.outerjoin(BEST, BEST.id == best) if Metric in kinds else found


def _runs() -> Any:
    """A SELECT of the columns of ListedRun: too many for its type."""
    points = select(func.count()).where(_C.trial_id == _T.id, _C.state != "DELETED")
    columns: tuple[Any, ...] = (
        *(_T.id, _T.request_id, _T.state, _T.last_activity, _T.created_at, _T.ended_at),
        *(_T.searcher_metric, subjects.run_archived()),
        subjects.local_id(_P.key, _T.local_number),
        *(_E.id, _E.name, _E.state, _E.labels, _E.resource_pool),
        *(_U.username, _U.display_name, _P.id, _P.name, _W.id, _W.name),
        points.correlate(_T).scalar_subquery(),
    )
    return (
        select(*columns)
        .join(_E, _E.id == _T.experiment_id)
        .join(_U, _U.id == _E.owner_id)
        .join(_P, _P.id == _E.project_id)
        .join(_W, _W.id == _P.workspace_id)
    )


def _value(source: Source, document: Any) -> Any:
    """Of a hyperparameter of a search that is no constant, the space as its configuration has it."""
    match source:
        case Metric(group, name, statistic):
            return _at(document, (summary_key(group), name, statistic))
        case Hyperparameter(path) | Metadata(path):
            return _at(document, path)
        case Column():
            raise TypeError("a column is in the row")
        case _:
            space = _at(document, ("hyperparameters", *source.path))
            is_constant = isinstance(space, Mapping) and space.get("type") == "const"
            return space.get("val") if is_constant else space


def _at(document: Any, path: Sequence[str]) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _row(*values: Any) -> tuple[Any, ...]:
    return values
