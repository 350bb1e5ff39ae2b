"""Reads of workspaces and projects with what they hold."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlmodel import col

from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Row, Statement
from master.store.statements import table_of
from master.store.store import Store
from master.store.visible import workspace_visible
from windlass.base.errors import NotFound

_W, _P, _E, _T, _U = (
    tables.Workspace,
    tables.Project,
    tables.Experiment,
    tables.Trial,
    tables.User,
)
_OVER = ("COMPLETED", "CANCELED", "ERROR")

_workspace_projects = (
    select(func.count())
    .where(col(_P.workspace_id) == col(_W.id))
    .correlate(table_of(_W))
    .scalar_subquery()
)
_workspace_experiments = (
    select(func.count())
    .select_from(_E)
    .join(_P, col(_P.id) == col(_E.project_id))
    .where(col(_P.workspace_id) == col(_W.id))
    .correlate(table_of(_W))
    .scalar_subquery()
)
_in_project = col(_E.project_id) == col(_P.id)
_project_experiments = (
    select(func.count()).where(_in_project).correlate(table_of(_P)).scalar_subquery()
)
_project_active = (
    select(func.count())
    .where(_in_project, col(_E.state).not_in(_OVER))
    .correlate(table_of(_P))
    .scalar_subquery()
)
_project_runs = (
    select(func.count())
    .select_from(_T)
    .join(_E, col(_E.id) == col(_T.experiment_id))
    .where(_in_project)
    .correlate(table_of(_P))
    .scalar_subquery()
)
_project_newest = (
    select(func.max(col(_E.created_at)))
    .where(_in_project)
    .correlate(table_of(_P))
    .scalar_subquery()
)


class WorkspaceQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def workspaces(self, visible: Visibility) -> Sequence[Row]:
        """All of them, by id: there are few."""
        return await self._store.rows(_workspaces(visible).order_by(col(_W.id)))

    async def workspace(self, workspace_id: int, visible: Visibility) -> Row:
        row = await self._store.row(_workspaces(visible).where(col(_W.id) == workspace_id))
        if row is None:
            raise NotFound("workspace", workspace_id)
        return row

    async def projects(self, workspace_id: int, visible: Visibility) -> Sequence[Row]:
        """Of one workspace, or of all for 0, by id."""
        statement = _projects(visible).order_by(col(_P.id))
        if workspace_id:
            statement = statement.where(col(_P.workspace_id) == workspace_id)
        return await self._store.rows(statement)

    async def project(self, project_id: int, visible: Visibility) -> Row:
        row = await self._store.row(_projects(visible).where(col(_P.id) == project_id))
        if row is None:
            raise NotFound("project", project_id)
        return row


def _workspaces(visible: Visibility) -> Statement:
    statement = select(
        table_of(_W),
        col(_U.username),
        _workspace_projects.label("num_projects"),
        _workspace_experiments.label("num_experiments"),
    ).join(_U, col(_U.id) == col(_W.user_id))
    return statement.where(*workspace_visible(col(_W.id), visible))


def _projects(visible: Visibility) -> Statement:
    return (
        select(
            table_of(_P),
            col(_U.username),
            col(_W.name).label("workspace_name"),
            col(_W.archived).label("workspace_archived"),
            _project_experiments.label("num_experiments"),
            _project_active.label("num_active_experiments"),
            _project_runs.label("num_runs"),
            _project_newest.label("last_experiment_at"),
        )
        .join(_U, col(_U.id) == col(_P.user_id))
        .join(_W, col(_W.id) == col(_P.workspace_id))
        .where(*workspace_visible(col(_W.id), visible))
    )
