"""Which experiments and runs a filter finds, in which order: ids first, then rows for one page of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

from sqlalchemy import Select, func, select

from master.core.visibility import Visibility
from master.experiments.finding import statements, subjects
from master.experiments.finding.filters import Filter
from master.experiments.finding.live_states import LiveStates
from master.experiments.finding.sorts import Sort
from master.experiments.finding.subjects import BEST, Experiments, Runs, Subject
from master.store import tables
from master.store.paging import MAX_PAGE, Page, Paged, place
from master.store.sql.portable import portable
from master.store.store import Store
from master.store.visible import project_visible

_E, _T, _C = tables.Experiment, tables.Trial, tables.Checkpoint
_P, _W = tables.Project, tables.Workspace
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_LIVE_CHECKPOINT = _C.state != "DELETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What to find, and in which order."""

    filter: Filter = field(default_factory=Filter)
    sorts: Sequence[Sort] = ()
    project_id: int = 0
    """0: of any project."""
    live: LiveStates = field(default_factory=LiveStates)


class FoundRun(NamedTuple):
    """A run with what is shown of its experiment and its project."""

    trial: tables.Trial
    experiment: tables.Experiment
    project_name: str
    workspace_id: int
    workspace_name: str
    parent_archived: bool
    local_id: str
    checkpoint_count: int
    checkpoint_size: int


class RunPlace(NamedTuple):
    """What decides what may be done to a run."""

    id: int
    state: str
    experiment_id: int
    project_id: int
    archived: bool
    experiment_archived: bool
    is_multitrial: bool


class FoundExperiment(NamedTuple):
    id: int
    best_trial_id: int | None


class _Numbered(NamedTuple):
    id: int
    total: int


class Finder:
    """`now` counts for what still runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run_ids(self, search: Search, now: datetime, visible: Visibility) -> list[int]:
        """All that match, in order."""
        return await self._store.read(self._runs(search, now, visible))

    async def run_places(self, ids: Sequence[int], visible: Visibility) -> list[RunPlace]:
        """Of those that there are, in any order."""
        statement = subjects.run_places(portable(self._store.dialect))
        where = (_T.id.in_(ids), *project_visible(_E.project_id, visible))
        return await self._store.read(statement.where(*where), RunPlace)

    async def experiment_ids(self, search: Search, now: datetime, visible: Visibility) -> list[int]:
        """All that match, in order."""
        return await self._store.read(self._experiments(search, now, visible))

    async def run_id_page(
        self, search: Search, page: Page, now: datetime, visible: Visibility
    ) -> Paged[int]:
        return await self._page(self._runs(search, now, visible), page)

    async def experiment_id_page(
        self, search: Search, page: Page, now: datetime, visible: Visibility
    ) -> Paged[int]:
        return await self._page(self._experiments(search, now, visible), page)

    async def run_page(
        self, search: Search, page: Page, now: datetime, visible: Visibility
    ) -> Paged[FoundRun]:
        found = await self._page(self._runs(search, now, visible), page)
        rows = await self._store.read(_whole_runs().where(_T.id.in_(found.rows)), FoundRun)
        by_id = {row.trial.id: row for row in rows}
        return _in_order(found, by_id)

    async def experiment_page(
        self, search: Search, page: Page, now: datetime, visible: Visibility
    ) -> Paged[FoundExperiment]:
        found = await self._page(self._experiments(search, now, visible), page)
        statement = _with_best(select(_E.id, BEST.id), self._subject(Search(), now))
        rows = await self._store.read(statement.where(_E.id.in_(found.rows)), FoundExperiment)
        by_id = {row.id: row for row in rows}
        return _in_order(found, by_id)

    def _runs(self, search: Search, now: datetime, visible: Visibility) -> Select[int]:
        subject = Runs(portable(self._store.dialect), now, search.live)
        statement = select(_T.id).join(_E, _E.id == _T.experiment_id)
        return _narrowed(statement, subject, search, visible)

    def _experiments(self, search: Search, now: datetime, visible: Visibility) -> Select[int]:
        subject = self._subject(search, now)
        return _narrowed(_with_best(select(_E.id), subject), subject, search, visible)

    def _subject(self, search: Search, now: datetime) -> Experiments:
        return Experiments(portable(self._store.dialect), now, search.live)

    async def _page(self, ids: Select[int], page: Page) -> Paged[int]:
        """In one query, unless the page is counted from the end or is behind it."""
        if page.offset >= 0 and page.limit != 0:
            numbered: Select[int, int] = ids.add_columns(func.count().over())
            limit = MAX_PAGE if page.limit is None else min(page.limit, MAX_PAGE)
            rows = await self._store.read(numbered.offset(page.offset).limit(limit), _Numbered)
            if rows:
                offset, limit = place(page, rows[0].total)
                return Paged(
                    rows=[row.id for row in rows], total=rows[0].total, offset=offset, limit=limit
                )
        counted = select(func.count()).select_from(ids.order_by(None).subquery())
        total = await self._store.read_one(counted) or 0
        offset, limit = place(page, total)
        found = await self._store.read(ids.offset(offset).limit(min(limit, MAX_PAGE)))
        return Paged(rows=found, total=total, offset=offset, limit=limit)


def _in_order(found: Paged[int], by_id: Mapping[int, T]) -> Paged[T]:
    """What is gone meanwhile is left out."""
    rows = [by_id[id_] for id_ in found.rows if id_ in by_id]
    return Paged(rows=rows, total=found.total, offset=found.offset, limit=found.limit)


def _with_best(statement: Select[*Ts], subject: Experiments) -> Select[*Ts]:
    return statement.outerjoin(BEST, BEST.id == subject.best())


def _narrowed(
    statement: Select[int], subject: Runs | Experiments, search: Search, visible: Visibility
) -> Select[int]:
    found: Subject = subject
    where: list[Any] = [
        *statements.conditions(found, subject.db, search.filter),
        *project_visible(_E.project_id, visible),
    ]
    if search.project_id:
        where.append(_E.project_id == search.project_id)
    return statement.where(*where).order_by(*statements.order(found, subject.db, search.sorts))


def _whole_runs() -> Select[tables.Trial, tables.Experiment, str, int, str, bool, str, int, int]:
    checkpoints = (_C.trial_id == _T.id, _LIVE_CHECKPOINT)
    count = select(func.count()).select_from(_C).where(*checkpoints)
    size = select(func.coalesce(func.sum(_C.size), 0)).where(*checkpoints)
    return (
        select(
            _T,
            _E,
            _P.name,
            _W.id,
            _W.name,
            subjects.parent_archived(),
            subjects.local_id(_P.key, _T.local_number),
            count.correlate(_T).scalar_subquery(),
            size.correlate(_T).scalar_subquery(),
        )
        .join(_E, _E.id == _T.experiment_id)
        .join(_P, _P.id == _E.project_id)
        .join(_W, _W.id == _P.workspace_id)
    )
