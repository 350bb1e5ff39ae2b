"""Reads of workspaces and projects with what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, SQLColumnExpression, and_, func, or_, select

from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Page, Paged, Sorts, read_page
from master.store.store import Store
from master.store.visible import workspace_visible
from windlass.base.errors import NotFound

_W, _P, _E, _T, _U, _N, _K, _V = (
    tables.Workspace,
    tables.Project,
    tables.Experiment,
    tables.Trial,
    tables.User,
    tables.WorkspacePin,
    tables.ProjectKey,
    tables.ProjectVisit,
)
_OVER = ("COMPLETED", "CANCELED", "ERROR")

_workspace_projects = (
    select(func.count()).where(_P.workspace_id == _W.id).correlate(_W).scalar_subquery()
)
_workspace_experiments = (
    select(func.count())
    .select_from(_E)
    .join(_P, _P.id == _E.project_id)
    .where(_P.workspace_id == _W.id)
    .correlate(_W)
    .scalar_subquery()
)
_in_project = _E.project_id == _P.id
_project_experiments = select(func.count()).where(_in_project).correlate(_P).scalar_subquery()
_project_active = (
    select(func.count()).where(_in_project, _E.state.not_in(_OVER)).correlate(_P).scalar_subquery()
)
_project_runs = (
    select(func.count())
    .select_from(_T)
    .join(_E, _E.id == _T.experiment_id)
    .where(_in_project)
    .correlate(_P)
    .scalar_subquery()
)
_project_newest = select(func.max(_E.created_at)).where(_in_project).correlate(_P).scalar_subquery()
_WORKSPACE_SORTS: Sorts = {"id": _W.id, "name": _W.name_key}
_PROJECT_SORTS: Sorts = {
    "id": _P.id,
    "creation_time": _P.id,
    "name": _P.name_key,
    "description": func.lower(_P.description),
    "last_experiment_start_time": _project_newest,
}


class WorkspaceRow(NamedTuple):
    workspace: tables.Workspace
    username: str
    num_projects: int
    num_experiments: int
    pinned_at: datetime | None
    """By its reader."""


class ProjectRow(NamedTuple):
    project: tables.Project
    username: str
    workspace_name: str
    workspace_archived: bool
    num_experiments: int
    num_active_experiments: int
    num_runs: int
    last_experiment_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFilter:
    """Of workspaces or of projects. All given conditions must hold."""

    name: str = ""
    """The whole name, in letters of any case."""
    exact_name: str = ""
    archived: bool | None = None
    pinned: bool | None = None
    """By the reader; only of workspaces."""
    users: tuple[str, ...] = ()
    user_ids: tuple[int, ...] = ()


class WorkspaceQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def workspaces(
        self, where: NamedFilter, page: Page, visible: Visibility, *, reader: int
    ) -> Paged[WorkspaceRow]:
        conditions = [*_named(_W, where), *_archived(_W.archived, where)]
        if where.pinned is not None:
            pinned = _N.pinned_at.is_not(None)
            conditions.append(pinned if where.pinned else ~pinned)
        statement = _workspaces(visible, reader).where(*conditions)
        return await read_page(self._store, statement, WorkspaceRow, _WORKSPACE_SORTS, page, _W.id)

    async def workspace(
        self, workspace_id: int, visible: Visibility, *, reader: int = 0
    ) -> WorkspaceRow:
        row = await self._store.read_one(
            _workspaces(visible, reader).where(_W.id == workspace_id), WorkspaceRow
        )
        if row is None:
            raise NotFound("workspace", workspace_id)
        return row

    async def projects(
        self, workspace_id: int, where: NamedFilter, page: Page, visible: Visibility
    ) -> Paged[ProjectRow]:
        """Of one workspace, or of all for 0."""
        conditions = [*_named(_P, where), *_archived(or_(_P.archived, _W.archived), where)]
        if workspace_id:
            conditions.append(_P.workspace_id == workspace_id)
        statement = _projects(visible).where(*conditions)
        return await read_page(self._store, statement, ProjectRow, _PROJECT_SORTS, page, _P.id)

    async def project(self, project_id: int, visible: Visibility) -> ProjectRow:
        row = await self._store.read_one(_projects(visible).where(_P.id == project_id), ProjectRow)
        if row is None:
            raise NotFound("project", project_id)
        return row

    async def recent_projects(
        self, reader: int, limit: int, visible: Visibility
    ) -> Sequence[ProjectRow]:
        """Those that the reader looked at, the last one first."""
        statement = (
            _projects(visible)
            .join(_V, and_(_V.project_id == _P.id, _V.user_id == reader))
            .order_by(_V.visited_at.desc(), _P.id.desc())
            .limit(limit)
        )
        return await self._store.read(statement, ProjectRow)

    async def project_by_key(self, key: str, visible: Visibility) -> ProjectRow:
        """Its present key, or one that it had."""
        id_ = await self._store.read_one(select(_K.project_id).where(_K.key == key.upper()))
        statement = _projects(visible).where(_P.id == id_)
        row = await self._store.read_one(statement, ProjectRow) if id_ is not None else None
        if row is None:
            raise NotFound("project with key", key)
        return row


def _named(
    table: type[tables.Workspace] | type[tables.Project], where: NamedFilter
) -> list[ColumnElement[bool]]:
    conditions = [
        table.name_key == tables.name_key(where.name) if where.name else None,
        table.name == where.exact_name if where.exact_name else None,
        _U.username.in_(where.users) if where.users else None,
        table.user_id.in_(where.user_ids) if where.user_ids else None,
    ]
    return [condition for condition in conditions if condition is not None]


def _archived(
    flag: SQLColumnExpression[bool] | ColumnElement[bool], where: NamedFilter
) -> Sequence[ColumnElement[bool]]:
    if where.archived is None:
        return ()
    return (flag.is_(True),) if where.archived else (flag.is_(False),)


def _workspaces(
    visible: Visibility, reader: int
) -> Select[tables.Workspace, str, int, int, datetime]:
    return (
        select(_W, _U.username, _workspace_projects, _workspace_experiments, _N.pinned_at)
        .join(_U, _U.id == _W.user_id)
        .outerjoin(_N, and_(_N.workspace_id == _W.id, _N.user_id == reader))
        .where(*workspace_visible(_W.id, visible))
    )


def _projects(
    visible: Visibility,
) -> Select[tables.Project, str, str, bool, int, int, int, datetime]:
    return (
        select(
            _P,
            _U.username,
            _W.name,
            _W.archived,
            _project_experiments,
            _project_active,
            _project_runs,
            _project_newest,
        )
        .join(_U, _U.id == _P.user_id)
        .join(_W, _W.id == _P.workspace_id)
        .where(*workspace_visible(_W.id, visible))
    )
