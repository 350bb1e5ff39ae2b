"""Reads for the API: lists and single objects straight from the store, one or two indexed queries each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, and_, func, or_, select
from sqlmodel import col

from master.store import tables
from master.store.store import Store
from windlass.base.errors import InvalidArgument, NotFound

MAX_PAGE = 100_000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`limit` None: everything. A negative offset counts from the end."""

    offset: int = 0
    limit: int | None = None
    descending: bool = False
    sort: str = "id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paged:
    """One page with what the wire's `pagination` object needs."""

    rows: Sequence[Row]
    total: int
    offset: int
    limit: int


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
    select(func.count()).where(col(_T.experiment_id) == col(_E.id)).correlate(_E).scalar_subquery()
)
_checkpoint_count = (
    select(func.count())
    .where(col(_C.experiment_id) == col(_E.id), _LIVE_CHECKPOINT)
    .correlate(_E)
    .scalar_subquery()
)
_checkpoint_size = (
    select(func.coalesce(func.sum(col(_C.size)), 0))
    .where(col(_C.experiment_id) == col(_E.id), _LIVE_CHECKPOINT)
    .correlate(_E)
    .scalar_subquery()
)
_EXPERIMENT_SORTS: Mapping[str, Any] = {
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
}
_TRIAL_SORTS: Mapping[str, Any] = {
    "id": col(_T.id),
    "start_time": col(_T.created_at),
    "end_time": col(_T.ended_at),
    "state": col(_T.state),
    "best_validation_metric": col(_T.searcher_metric),
    "latest_validation_metric": col(_T.latest_searcher_metric),
    "batches_processed": col(_T.steps_completed),
    "restarts": col(_T.restarts),
}


class ExperimentQueries:
    """The read side of experiments, trials, checkpoints and metrics."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # --- experiments ----------------------------------------------------------------------------------------------

    async def experiment(self, experiment_id: int) -> Row:
        row = await self._store.row(_experiments().where(col(_E.id) == experiment_id))
        if row is None:
            raise NotFound("experiment", experiment_id)
        return row

    async def experiments(self, where: ExperimentFilter, page: Page) -> Paged:
        statement = _experiments().where(*_conditions(where))
        if where.labels:
            # Labels are a JSON list: portable only in Python, and rare enough for that.
            rows = await self._store.rows(_sorted(statement, _EXPERIMENT_SORTS, page, _E.id))
            kept = [r for r in rows if set(where.labels) <= set(r["labels"])]
            return _slice(kept, page)
        return await self._page(statement, _EXPERIMENT_SORTS, page, _E.id)

    async def best_trial(self, experiment_id: int, smaller_is_better: bool) -> Row | None:
        order = col(_T.searcher_metric)
        rows = await self._store.rows(
            select(_T.__table__)  # type: ignore[attr-defined]
            .where(col(_T.experiment_id) == experiment_id, col(_T.searcher_metric).is_not(None))
            .order_by(order.asc() if smaller_is_better else order.desc(), col(_T.id))
            .limit(1)
        )
        return rows[0] if rows else None

    async def searcher_events(self, experiment_id: int) -> Sequence[Row]:
        event = tables.SearcherEvent
        return await self._store.rows(
            select(event.__table__)  # type: ignore[attr-defined]
            .where(col(event.experiment_id) == experiment_id)
            .order_by(col(event.seq))
        )

    # --- trials ---------------------------------------------------------------------------------------------------

    async def trial(self, trial_id: int) -> Row:
        row = await self._store.row(_trials().where(col(_T.id) == trial_id))
        if row is None:
            raise NotFound("trial", trial_id)
        return row

    async def trials(self, experiment_id: int, states: Sequence[str], page: Page) -> Paged:
        statement = _trials().where(col(_T.experiment_id) == experiment_id)
        if states:
            statement = statement.where(col(_T.state).in_(states))
        return await self._page(statement, _TRIAL_SORTS, page, _T.id)

    async def metric_rows(self, ids: Sequence[int]) -> dict[int, Row]:
        """Reports by row id."""
        if not ids:
            return {}
        metric = tables.Metric
        rows = await self._store.rows(
            select(metric.__table__).where(col(metric.id).in_(ids))  # type: ignore[attr-defined]
        )
        return {row["id"]: row for row in rows}

    async def reports(
        self, trial_ids: Sequence[int], groups: Sequence[str] | None, *, limit: int | None = None
    ) -> Sequence[Row]:
        """Live reports of trials in order of trial, run and steps."""
        metric = tables.Metric
        statement = (
            select(metric.__table__)  # type: ignore[attr-defined]
            .where(col(metric.trial_id).in_(trial_ids), col(metric.archived).is_(False))
            .order_by(col(metric.trial_id), col(metric.run_id), col(metric.steps), col(metric.id))
        )
        if groups is not None:
            statement = statement.where(col(metric.group).in_(groups))
        return await self._store.rows(statement.limit(limit) if limit else statement)

    async def wall_clock_s(self, task_ids: Sequence[str]) -> dict[str, list[Row]]:
        """Runs of tasks, for adding up how long they had slots."""
        run = tables.Allocation
        rows = await self._store.rows(
            select(col(run.task_id), col(run.started_at), col(run.ended_at)).where(
                col(run.task_id).in_(task_ids), col(run.started_at).is_not(None)
            )
        )
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row["task_id"], []).append(row)
        return found

    # --- checkpoints ----------------------------------------------------------------------------------------------

    async def checkpoint(self, uuid: str) -> Row:
        row = await self._store.row(_checkpoints().where(col(_C.uuid) == uuid))
        if row is None:
            raise NotFound("checkpoint", uuid)
        return row

    async def checkpoints(
        self,
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        states: Sequence[str] = (),
    ) -> Sequence[Row]:
        """All checkpoints of an experiment or a trial, oldest first."""
        statement = _checkpoints().order_by(col(_C.reported_at), col(_C.uuid))
        if experiment_id is not None:
            statement = statement.where(col(_C.experiment_id) == experiment_id)
        if trial_id is not None:
            statement = statement.where(col(_C.trial_id) == trial_id)
        if states:
            statement = statement.where(col(_C.state).in_(states))
        return await self._store.rows(statement)

    async def metrics_at(
        self, pairs: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], dict[str, Any]]:
        """(trial, steps) -> group -> average metrics, for groups training and validation."""
        if not pairs:
            return {}
        metric = tables.Metric
        rows = await self._store.rows(
            select(metric.__table__).where(  # type: ignore[attr-defined]
                col(metric.trial_id).in_({t for t, _ in pairs}),
                col(metric.steps).in_({s for _, s in pairs}),
                col(metric.group).in_(("training", "validation")),
                col(metric.archived).is_(False),
            )
        )
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for row in rows:
            at = found.setdefault((row["trial_id"], row["steps"]), {})
            at[row["group"]] = row["metrics"]["avg_metrics"]
        return found

    # --- tasks ----------------------------------------------------------------------------------------------------

    async def task(self, task_id: str) -> Row:
        row = await self._store.row(
            select(tables.Task.__table__).where(col(tables.Task.id) == task_id)  # type: ignore[attr-defined]
        )
        if row is None:
            raise NotFound("task", task_id)
        return row

    async def runs(self, task_id: str) -> Sequence[Row]:
        """Allocations of a task, newest first."""
        run = tables.Allocation
        return await self._store.rows(
            select(run.__table__)  # type: ignore[attr-defined]
            .where(col(run.task_id) == task_id)
            .order_by(col(run.run_id).desc())
        )

    async def model_definition(self, task_id: str) -> str | None:
        """The blob of the context directory of a task."""
        row = await self._store.row(
            select(col(_E.model_definition))
            .join(tables.Task, col(tables.Task.experiment_id) == col(_E.id))
            .where(col(tables.Task.id) == task_id)
        )
        if row is None:
            await self.task(task_id)
            return None
        blob: str | None = row["model_definition"]
        return blob

    async def _page(
        self, statement: Select[Any], sorts: Mapping[str, Any], page: Page, tie: Any
    ) -> Paged:
        counted = await self._store.row(
            select(func.count().label("total")).select_from(statement.order_by(None).subquery())
        )
        total = int(counted["total"]) if counted else 0
        offset = _offset(page, total)
        limit = total if page.limit is None else page.limit
        ordered = _sorted(statement, sorts, page, tie).offset(offset).limit(min(limit, MAX_PAGE))
        rows = await self._store.rows(ordered)
        return Paged(rows=rows, total=total, offset=offset, limit=limit)


def _experiments() -> Select[Any]:
    return (
        select(
            _E.__table__,  # type: ignore[attr-defined]
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
    )


def _trials() -> Select[Any]:
    mine = and_(col(_C.trial_id) == col(_T.id), _LIVE_CHECKPOINT)
    count = select(func.count()).where(mine).correlate(_T).scalar_subquery()
    size = select(func.coalesce(func.sum(col(_C.size)), 0)).where(mine).correlate(_T)
    return select(
        _T.__table__,  # type: ignore[attr-defined]
        count.label("checkpoint_count"),
        size.scalar_subquery().label("checkpoint_size"),
        col(_E.config).label("experiment_config"),
    ).join(_E, col(_E.id) == col(_T.experiment_id))


def _checkpoints() -> Select[Any]:
    return (
        select(
            _C.__table__,  # type: ignore[attr-defined]
            col(_T.hparams),
            col(_E.config).label("experiment_config"),
        )
        .outerjoin(_T, col(_T.id) == col(_C.trial_id))
        .outerjoin(_E, col(_E.id) == col(_C.experiment_id))
    )


def _conditions(where: ExperimentFilter) -> list[Any]:
    conditions: list[Any] = []
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
    id_ = col(_E.id)
    for name, values in where.ids.items():
        if values:
            compare = {
                "gt": id_ > values[0],
                "gte": id_ >= values[0],
                "lt": id_ < values[0],
                "lte": id_ <= values[0],
                "incl": id_.in_(values),
                "notIn": id_.not_in(values),
            }
            conditions.append(compare[name])
    return conditions


def _sorted(statement: Select[Any], sorts: Mapping[str, Any], page: Page, tie: Any) -> Select[Any]:
    key = sorts.get(page.sort)
    if key is None:
        raise InvalidArgument(f'cannot sort by "{page.sort}"; use one of {", ".join(sorts)}')
    order = key.desc().nulls_last() if page.descending else key.asc().nulls_last()
    id_ = col(tie)
    return statement.order_by(order, id_.desc() if page.descending else id_.asc())


def _offset(page: Page, total: int) -> int:
    offset = max(0, total + page.offset) if page.offset < 0 else page.offset
    if offset > total:
        raise InvalidArgument(f"offset out of bounds: {offset} of {total}")
    return offset


def _slice(rows: Sequence[Row], page: Page) -> Paged:
    offset = _offset(page, len(rows))
    limit = len(rows) if page.limit is None else page.limit
    return Paged(rows=rows[offset : offset + limit], total=len(rows), offset=offset, limit=limit)
