"""Reads for the API: experiments and their trials, straight from the store, one or two indexed queries each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, SQLColumnExpression, and_, func, or_, select

from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Page, Paged, Sorts, cut, in_order, read_page
from master.store.store import Store
from master.store.visible import experiment_visible, project_visible, workspace_visible
from windlass.base.errors import NotFound
from windlass.base.formats.json_types import JsonMapping, JsonObject


class ExperimentSummary(NamedTuple):
    """What lists show of an experiment, without its configuration and its notes."""

    id: int
    job_id: str
    owner_id: int
    parent_id: int | None
    external_id: str | None
    state: str
    name: str
    description: str
    labels: list[str]
    archived: bool
    unmanaged: bool
    resource_pool: str
    progress: float
    error: str
    created_at: datetime
    ended_at: datetime | None
    username: str
    display_name: str
    project_id: int
    project_name: str
    project_owner_id: int
    project_archived: bool
    workspace_id: int
    workspace_name: str
    workspace_archived: bool
    num_trials: int
    checkpoint_count: int
    checkpoint_size: int


class ExperimentRow(NamedTuple):
    """An experiment with what is shown beside it."""

    experiment: tables.Experiment
    username: str
    display_name: str
    project: tables.Project
    workspace_name: str
    workspace_archived: bool
    num_trials: int
    checkpoint_count: int
    checkpoint_size: int

    @property
    def labels(self) -> list[str]:
        return self.experiment.labels

    @property
    def summary(self) -> ExperimentSummary:
        experiment, project = self.experiment, self.project
        return ExperimentSummary(
            id=experiment.id,
            job_id=experiment.job_id,
            owner_id=experiment.owner_id,
            parent_id=experiment.parent_id,
            external_id=experiment.external_id,
            state=experiment.state,
            name=experiment.name,
            description=experiment.description,
            labels=experiment.labels,
            archived=experiment.archived,
            unmanaged=experiment.unmanaged,
            resource_pool=experiment.resource_pool,
            progress=experiment.progress,
            error=experiment.error,
            created_at=experiment.created_at,
            ended_at=experiment.ended_at,
            username=self.username,
            display_name=self.display_name,
            project_id=project.id,
            project_name=project.name,
            project_owner_id=project.user_id,
            project_archived=project.archived,
            workspace_id=project.workspace_id,
            workspace_name=self.workspace_name,
            workspace_archived=self.workspace_archived,
            num_trials=self.num_trials,
            checkpoint_count=self.checkpoint_count,
            checkpoint_size=self.checkpoint_size,
        )


R = TypeVar("R", ExperimentRow, ExperimentSummary)


class BestMetrics(NamedTuple):
    """The smallest and the largest searcher metric of an experiment's trials."""

    experiment_id: int
    smallest: float | None
    largest: float | None


class TrialOfExperiment(NamedTuple):
    trial_id: int
    experiment_id: int


class TrialRow(NamedTuple):
    """A trial with what lists show beside it."""

    trial: tables.Trial
    checkpoint_count: int
    checkpoint_size: int
    experiment_state: str
    experiment_config: JsonObject


class _TrialRow(NamedTuple):
    """Without the configuration: the thousands of trials of a search share one, which is read once."""

    trial: tables.Trial
    checkpoint_count: int
    checkpoint_size: int
    experiment_state: str


class _Config(NamedTuple):
    experiment_id: int
    config: JsonObject


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
_P, _W = tables.Project, tables.Workspace
_LIVE_CHECKPOINT = _C.state != "DELETED"

_num_trials = select(func.count()).where(_T.experiment_id == _E.id).correlate(_E).scalar_subquery()
_checkpoint_count = (
    select(func.count())
    .where(_C.experiment_id == _E.id, _LIVE_CHECKPOINT)
    .correlate(_E)
    .scalar_subquery()
)
_checkpoint_size = (
    select(func.coalesce(func.sum(_C.size), 0))
    .where(_C.experiment_id == _E.id, _LIVE_CHECKPOINT)
    .correlate(_E)
    .scalar_subquery()
)
_best_maximum = (
    select(func.max(_T.searcher_metric))
    .where(_T.experiment_id == _E.id)
    .correlate(_E)
    .scalar_subquery()
)
_trial_checkpoints = and_(_C.trial_id == _T.id, _LIVE_CHECKPOINT)
_trial_checkpoint_count = (
    select(func.count()).where(_trial_checkpoints).correlate(_T).scalar_subquery()
)
_trial_checkpoint_size = (
    select(func.coalesce(func.sum(_C.size), 0))
    .where(_trial_checkpoints)
    .correlate(_T)
    .scalar_subquery()
)
EXPERIMENT_SORTS: Sorts = {
    "id": _E.id,
    "name": _E.name,
    "description": _E.description,
    "start_time": _E.created_at,
    "end_time": _E.ended_at,
    "state": _E.state,
    "progress": _E.progress,
    "user": _U.username,
    "forked_from": _E.parent_id,
    "resource_pool": _E.resource_pool,
    "project_id": _E.project_id,
    "num_trials": _num_trials,
    "checkpoint_count": _checkpoint_count,
    "checkpoint_size": _checkpoint_size,
    "searcher_metric_val": _best_maximum,
}
TRIAL_SORTS: Sorts = {
    "id": _T.id,
    "start_time": _T.created_at,
    "end_time": _T.ended_at,
    "state": _T.state,
    "best_validation_metric": _T.searcher_metric,
    "latest_validation_metric": _T.latest_searcher_metric,
    "batches_processed": _T.steps_completed,
    "restarts": _T.restarts,
    "checkpoint_size": _trial_checkpoint_size,
}


class ExperimentQueries:
    """The read side of experiments and trials."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def experiment(self, experiment_id: int, visible: Visibility) -> ExperimentRow:
        row = await self._store.read_one(
            _experiments(visible).where(_E.id == experiment_id), ExperimentRow
        )
        if row is None:
            raise NotFound("experiment", experiment_id)
        return row

    async def require_experiments(self, ids: Sequence[int], visible: Visibility) -> None:
        """Raises NotFound for the first that does not exist."""
        here = (_E.id.in_(ids), *project_visible(_E.project_id, visible))
        missing = set(ids) - set(await self._store.read(select(_E.id).where(*here)))
        if missing:
            raise NotFound("experiment", min(missing))

    async def experiments(
        self, where: ExperimentFilter, page: Page, visible: Visibility
    ) -> Paged[ExperimentRow]:
        return await self._page(_experiments(visible), ExperimentRow, where, page)

    async def summaries(
        self, where: ExperimentFilter, page: Page, visible: Visibility
    ) -> Paged[ExperimentSummary]:
        """The same experiments, without reading their configurations."""
        return await self._page(_summaries(visible), ExperimentSummary, where, page)

    async def summaries_by_id(
        self, ids: Sequence[int], visible: Visibility
    ) -> dict[int, ExperimentSummary]:
        """Those that are gone meanwhile are left out."""
        statement = _summaries(visible).where(_E.id.in_(ids))
        return {row.id: row for row in await self._store.read(statement, ExperimentSummary)}

    async def _page(
        self, statement: Any, row: Callable[..., R], where: ExperimentFilter, page: Page
    ) -> Paged[R]:
        statement = statement.where(*_conditions(where))
        if where.labels:
            # Labels are a JSON list: portable only in Python, and rare enough for that.
            rows: list[R] = await self._store.read(
                in_order(statement, EXPERIMENT_SORTS, page, _E.id), row
            )
            return cut([one for one in rows if set(where.labels) <= set(one.labels)], page)
        return await read_page(self._store, statement, row, EXPERIMENT_SORTS, page, _E.id)

    async def experiments_by_id(
        self, experiment_ids: Sequence[int], visible: Visibility
    ) -> dict[int, ExperimentRow]:
        """Those that are gone meanwhile are left out."""
        statement = _experiments(visible).where(_E.id.in_(experiment_ids))
        return {r.experiment.id: r for r in await self._store.read(statement, ExperimentRow)}

    async def trials_by_id(
        self, trial_ids: Sequence[int], visible: Visibility
    ) -> Sequence[TrialRow]:
        """In any order; those that are gone meanwhile are left out."""
        statement = _trials(visible).where(_T.id.in_(trial_ids))
        return await self._configured(await self._store.read(statement, _TrialRow))

    async def best_trial(
        self, experiment_id: int, *, smaller_is_better: bool
    ) -> tables.Trial | None:
        """The one with the best searcher metric; None before the first validation."""
        metric = _T.searcher_metric
        return await self._store.read_one(
            select(_T)
            .where(_T.experiment_id == experiment_id, metric.is_not(None))
            .order_by(metric.asc() if smaller_is_better else metric.desc(), _T.id)
            .limit(1)
        )

    async def best_metrics(self, experiment_ids: Sequence[int]) -> dict[int, BestMetrics]:
        """By experiment; those without a validation are left out."""
        metric = _T.searcher_metric
        rows = await self._store.read(
            select(_T.experiment_id, func.min(metric), func.max(metric))
            .where(_T.experiment_id.in_(experiment_ids), metric.is_not(None))
            .group_by(_T.experiment_id),
            BestMetrics,
        )
        return {row.experiment_id: row for row in rows}

    async def trial_ids(self, experiment_id: int) -> list[int]:
        return await self._store.read(
            select(_T.id).where(_T.experiment_id == experiment_id).order_by(_T.id)
        )

    async def trial(self, trial_id: int, visible: Visibility) -> TrialRow:
        rows = await self.trials_by_id([trial_id], visible)
        if not rows:
            raise NotFound("trial", trial_id)
        return rows[0]

    async def experiments_of(self, trial_ids: Sequence[int], visible: Visibility) -> dict[int, int]:
        """Trial -> its experiment; those that are not there are left out."""
        rows = await self._store.read(
            select(_T.id, _T.experiment_id).where(
                _T.id.in_(trial_ids), *experiment_visible(_T.experiment_id, visible)
            ),
            TrialOfExperiment,
        )
        return {row.trial_id: row.experiment_id for row in rows}

    async def trials(
        self, experiment_id: int, states: Sequence[str], page: Page, visible: Visibility
    ) -> Paged[TrialRow]:
        statement = _trials(visible).where(_T.experiment_id == experiment_id)
        if states:
            statement = statement.where(_T.state.in_(states))
        found = await read_page(self._store, statement, _TrialRow, TRIAL_SORTS, page, _T.id)
        rows = await self._configured(found.rows)
        return Paged(rows=rows, total=found.total, offset=found.offset, limit=found.limit)

    async def _configured(self, rows: Sequence[_TrialRow]) -> list[TrialRow]:
        """Without those whose experiment is gone meanwhile."""
        ids = {row.trial.experiment_id for row in rows}
        statement = select(_E.id, _E.config).where(_E.id.in_(ids))
        configs = {c.experiment_id: c.config for c in await self._store.read(statement, _Config)}
        return [
            TrialRow(*row, configs[id_])
            for row in rows
            if (id_ := row.trial.experiment_id) in configs
        ]

    async def require_trials(self, trial_ids: Sequence[int], visible: Visibility) -> None:
        """Raises NotFound for the first that does not exist."""
        here = (_T.id.in_(trial_ids), *experiment_visible(_T.experiment_id, visible))
        found = await self._store.read(select(_T.id).where(*here))
        missing = set(trial_ids) - set(found)
        if missing:
            raise NotFound("trial", min(missing))


def _experiments(
    visible: Visibility,
) -> Select[tables.Experiment, str, str, tables.Project, str, bool, int, int, int]:
    return (
        select(
            _E,
            _U.username,
            _U.display_name,
            _P,
            _W.name,
            _W.archived,
            _num_trials,
            _checkpoint_count,
            _checkpoint_size,
        )
        .join(_U, _U.id == _E.owner_id)
        .join(_P, _P.id == _E.project_id)
        .join(_W, _W.id == _P.workspace_id)
        .where(*workspace_visible(_W.id, visible))
    )


def _summaries(visible: Visibility) -> Any:
    """A SELECT of the columns of ExperimentSummary: too many for its type."""
    columns: tuple[SQLColumnExpression[Any], ...] = (
        _E.id,
        _E.job_id,
        _E.owner_id,
        _E.parent_id,
        _E.external_id,
        _E.state,
        _E.name,
        _E.description,
        _E.labels,
        _E.archived,
        _E.unmanaged,
        _E.resource_pool,
        _E.progress,
        _E.error,
        _E.created_at,
        _E.ended_at,
        _U.username,
        _U.display_name,
        _P.id,
        _P.name,
        _P.user_id,
        _P.archived,
        _W.id,
        _W.name,
        _W.archived,
        _num_trials,
        _checkpoint_count,
        _checkpoint_size,
    )
    return (
        select(*columns)
        .join(_U, _U.id == _E.owner_id)
        .join(_P, _P.id == _E.project_id)
        .join(_W, _W.id == _P.workspace_id)
        .where(*workspace_visible(_W.id, visible))
    )


def _trials(visible: Visibility) -> Select[tables.Trial, int, int, str]:
    return (
        select(_T, _trial_checkpoint_count, _trial_checkpoint_size, _E.state)
        .join(_E, _E.id == _T.experiment_id)
        .where(*project_visible(_E.project_id, visible))
    )


def _conditions(where: ExperimentFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if where.name:
        conditions.append(_E.name.icontains(where.name, autoescape=True))
    if where.description:
        conditions.append(_E.description.icontains(where.description, autoescape=True))
    if where.archived is not None:
        conditions.append(_E.archived.is_(where.archived))
    if where.archived is False and not where.project_id:
        conditions += [_P.archived.is_(False), _W.archived.is_(False)]
    if where.states:
        conditions.append(_E.state.in_(where.states))
    owners = []
    if where.users:
        owners.append(_U.username.in_(where.users))
    if where.user_ids:
        owners.append(_E.owner_id.in_(where.user_ids))
    if owners:
        conditions.append(or_(*owners))
    if where.project_id:
        conditions.append(_E.project_id == where.project_id)
    return [*conditions, *_id_conditions(where.ids)]


def _id_conditions(ids: Mapping[str, Sequence[int]]) -> list[ColumnElement[bool]]:
    id_ = _E.id
    compare: JsonMapping = {
        "gt": lambda values: id_ > values[0],
        "gte": lambda values: id_ >= values[0],
        "lt": lambda values: id_ < values[0],
        "lte": lambda values: id_ <= values[0],
        "incl": id_.in_,
        "notIn": id_.not_in,
    }
    return [compare[name](values) for name, values in ids.items() if values]
