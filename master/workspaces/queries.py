"""Reads of workspaces and projects with what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Select, func, select

from master.core.visibility import Visibility
from master.store import tables
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


class WorkspaceRow(NamedTuple):
    workspace: tables.Workspace
    username: str
    num_projects: int
    num_experiments: int


class ProjectRow(NamedTuple):
    project: tables.Project
    username: str
    workspace_name: str
    workspace_archived: bool
    num_experiments: int
    num_active_experiments: int
    num_runs: int
    last_experiment_at: datetime | None


class WorkspaceQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def workspaces(self, visible: Visibility) -> Sequence[WorkspaceRow]:
        """All of them, by id: there are few."""
        return await self._store.read(_workspaces(visible).order_by(_W.id), WorkspaceRow)

    async def workspace(self, workspace_id: int, visible: Visibility) -> WorkspaceRow:
        row = await self._store.read_one(
            _workspaces(visible).where(_W.id == workspace_id), WorkspaceRow
        )
        if row is None:
            raise NotFound("workspace", workspace_id)
        return row

    async def projects(self, workspace_id: int, visible: Visibility) -> Sequence[ProjectRow]:
        """Of one workspace, or of all for 0, by id."""
        statement = _projects(visible).order_by(_P.id)
        if workspace_id:
            statement = statement.where(_P.workspace_id == workspace_id)
        return await self._store.read(statement, ProjectRow)

    async def project(self, project_id: int, visible: Visibility) -> ProjectRow:
        row = await self._store.read_one(_projects(visible).where(_P.id == project_id), ProjectRow)
        if row is None:
            raise NotFound("project", project_id)
        return row


def _workspaces(visible: Visibility) -> Select[tables.Workspace, str, int, int]:
    return (
        select(_W, _U.username, _workspace_projects, _workspace_experiments)
        .join(_U, _U.id == _W.user_id)
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
