"""Reads for the API: experiments and their trials, straight from the store, one or two indexed queries each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlmodel import col

from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Page, Paged, Row, Sorts, Statement, cut, in_order, read_page
from master.store.statements import table_of
from master.store.store import Store
from master.store.visible import experiment_visible, project_visible, workspace_visible
from windlass.base.errors import NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentFilter:
    """All given conditions must hold."""

    name: str | None = None
    description: str | None = None
    labels: tuple[str, ...] = ()
    archived: bool | None = None
    states: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    user_ids: tuple[int, ...] = ()
    project_id: int | None = None
    ids: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """gt, gte, lt, lte, incl, notIn -> values"""


_E, _T, _C, _U = tables.Experiment, tables.Trial, tables.Checkpoint, tables.User
_LIVE_CHECKPOINT = col(_C.state) != "DELETED"

_num_trials = (
    select(func.count())
    .where(col(_T.experiment_id) == col(_E.id))
    .correlate(table_of(_E))
    .scalar_subquery()
)
_checkpoint_count = (
    select(func.count())
    .where(col(_C.experiment_id) == col(_E.id), _LIVE_CHECKPOINT)
    .correlate(table_of(_E))
    .scalar_subquery()
)
_checkpoint_size = (
    select(func.coalesce(func.sum(col(_C.size)), 0))
    .where(col(_C.experiment_id) == col(_E.id), _LIVE_CHECKPOINT)
    .correlate(table_of(_E))
    .scalar_subquery()
)
_best_maximum = (
    select(func.max(col(_T.searcher_metric)))
    .where(col(_T.experiment_id) == col(_E.id))
    .correlate(table_of(_E))
    .scalar_subquery()
)
_trial_checkpoints = and_(col(_C.trial_id) == col(_T.id), _LIVE_CHECKPOINT)
_trial_checkpoint_count = (
    select(func.count()).where(_trial_checkpoints).correlate(table_of(_T)).scalar_subquery()
)
_trial_checkpoint_size = (
    select(func.coalesce(func.sum(col(_C.size)), 0))
    .where(_trial_checkpoints)
    .correlate(table_of(_T))
    .scalar_subquery()
)
EXPERIMENT_SORTS: Sorts = {
    "id": col(_E.id),
    "name": col(_E.name),
    "description": col(_E.description),
    "start_time": col(_E.created_at),
    "end_time": col(_E.ended_at),
    "state": col(_E.state),
    "progress": col(_E.progress),
    "user": col(_U.username),
    "forked_from": col(_E.parent_id),
    "resource_pool": col(_E.resource_pool),
    "project_id": col(_E.project_id),
    "num_trials": _num_trials,
    "checkpoint_count": _checkpoint_count,
    "checkpoint_size": _checkpoint_size,
    "searcher_metric_val": _best_maximum,
}
TRIAL_SORTS: Sorts = {
    "id": col(_T.id),
    "start_time": col(_T.created_at),
    "end_time": col(_T.ended_at),
    "state": col(_T.state),
    "best_validation_metric": col(_T.searcher_metric),
    "latest_validation_metric": col(_T.latest_searcher_metric),
    "batches_processed": col(_T.steps_completed),
    "restarts": col(_T.restarts),
    "checkpoint_size": _trial_checkpoint_size,
}


class ExperimentQueries:
    """The read side of experiments and trials."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def experiment(self, experiment_id: int, visible: Visibility) -> Row:
        row = await self._store.row(_experiments(visible).where(col(_E.id) == experiment_id))
        if row is None:
            raise NotFound("experiment", experiment_id)
        return row

    async def require_experiment(self, experiment_id: int, visible: Visibility) -> None:
        """Raises NotFound."""
        here = (col(_E.id) == experiment_id, *project_visible(col(_E.project_id), visible))
        if await self._store.row(select(col(_E.id)).where(*here)) is None:
            raise NotFound("experiment", experiment_id)

    async def experiments(
        self, where: ExperimentFilter, page: Page, visible: Visibility
    ) -> Paged[Row]:
        statement = _experiments(visible).where(*_conditions(where))
        if where.labels:
            # Labels are a JSON list: portable only in Python, and rare enough for that.
            ordered = in_order(statement, EXPERIMENT_SORTS, page, col(_E.id))
            rows = await self._store.rows(ordered)
            return cut([r for r in rows if set(where.labels) <= set(r["labels"])], page)
        return await read_page(self._store, statement, EXPERIMENT_SORTS, page, col(_E.id))

    async def best_trial(self, experiment_id: int, *, smaller_is_better: bool) -> Row | None:
        """The one with the best searcher metric; None before the first validation."""
        metric = col(_T.searcher_metric)
        rows = await self._store.rows(
            select(table_of(_T))
            .where(col(_T.experiment_id) == experiment_id, metric.is_not(None))
            .order_by(metric.asc() if smaller_is_better else metric.desc(), col(_T.id))
            .limit(1)
        )
        return rows[0] if rows else None

    async def best_metrics(self, experiment_ids: Sequence[int]) -> dict[int, tuple[float, float]]:
        """experiment -> (smallest, largest) searcher metric of its trials."""
        metric = col(_T.searcher_metric)
        rows = await self._store.rows(
            select(
                col(_T.experiment_id),
                func.min(metric).label("smallest"),
                func.max(metric).label("largest"),
            )
            .where(col(_T.experiment_id).in_(experiment_ids), metric.is_not(None))
            .group_by(col(_T.experiment_id))
        )
        return {r["experiment_id"]: (r["smallest"], r["largest"]) for r in rows}

    async def trial_ids(self, experiment_id: int) -> list[int]:
        rows = await self._store.rows(
            select(col(_T.id)).where(col(_T.experiment_id) == experiment_id).order_by(col(_T.id))
        )
        return [row["id"] for row in rows]

    async def trial(self, trial_id: int, visible: Visibility) -> Row:
        row = await self._store.row(_trials(visible).where(col(_T.id) == trial_id))
        if row is None:
            raise NotFound("trial", trial_id)
        return row

    async def trials(
        self, experiment_id: int, states: Sequence[str], page: Page, visible: Visibility
    ) -> Paged[Row]:
        statement = _trials(visible).where(col(_T.experiment_id) == experiment_id)
        if states:
            statement = statement.where(col(_T.state).in_(states))
        return await read_page(self._store, statement, TRIAL_SORTS, page, col(_T.id))

    async def require_trials(self, trial_ids: Sequence[int], visible: Visibility) -> None:
        """Raises NotFound for the first that does not exist."""
        here = (col(_T.id).in_(trial_ids), *experiment_visible(col(_T.experiment_id), visible))
        rows = await self._store.rows(select(col(_T.id)).where(*here))
        missing = set(trial_ids) - {row["id"] for row in rows}
        if missing:
            raise NotFound("trial", min(missing))


def _experiments(visible: Visibility) -> Statement:
    return (
        select(
            table_of(_E),
            col(_U.username),
            col(_U.display_name),
            col(tables.Project.name).label("project_name"),
            col(tables.Project.user_id).label("project_owner_id"),
            col(tables.Project.archived).label("parent_archived"),
            col(tables.Workspace.id).label("workspace_id"),
            col(tables.Workspace.name).label("workspace_name"),
            _num_trials.label("num_trials"),
            _checkpoint_count.label("checkpoint_count"),
            _checkpoint_size.label("checkpoint_size"),
        )
        .join(_U, col(_U.id) == col(_E.owner_id))
        .join(tables.Project, col(tables.Project.id) == col(_E.project_id))
        .join(tables.Workspace, col(tables.Workspace.id) == col(tables.Project.workspace_id))
        .where(*workspace_visible(col(tables.Workspace.id), visible))
    )


def _trials(visible: Visibility) -> Statement:
    statement = select(
        table_of(_T),
        _trial_checkpoint_count.label("checkpoint_count"),
        _trial_checkpoint_size.label("checkpoint_size"),
        col(_E.config).label("experiment_config"),
        col(_E.state).label("experiment_state"),
    ).join(_E, col(_E.id) == col(_T.experiment_id))
    return statement.where(*project_visible(col(_E.project_id), visible))


def _conditions(where: ExperimentFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if where.name:
        conditions.append(col(_E.name).icontains(where.name, autoescape=True))
    if where.description:
        conditions.append(col(_E.description).icontains(where.description, autoescape=True))
    if where.archived is not None:
        conditions.append(col(_E.archived).is_(where.archived))
    if where.states:
        conditions.append(col(_E.state).in_(where.states))
    owners = []
    if where.users:
        owners.append(col(_U.username).in_(where.users))
    if where.user_ids:
        owners.append(col(_E.owner_id).in_(where.user_ids))
    if owners:
        conditions.append(or_(*owners))
    if where.project_id:
        conditions.append(col(_E.project_id) == where.project_id)
    return [*conditions, *_id_conditions(where.ids)]


def _id_conditions(ids: Mapping[str, Sequence[int]]) -> list[ColumnElement[bool]]:
    id_ = col(_E.id)
    compare: Mapping[str, Any] = {
        "gt": lambda values: id_ > values[0],
        "gte": lambda values: id_ >= values[0],
        "lt": lambda values: id_ < values[0],
        "lte": lambda values: id_ <= values[0],
        "incl": id_.in_,
        "notIn": id_.not_in,
    }
    return [compare[name](values) for name, values in ids.items() if values]
