"""Workspaces and projects."""

from __future__ import annotations

from master.allocations.identities import WorkspaceUser
from master.api.enums import WorkspaceState
from master.api.targets import target_of
from master.api.values import time
from master.api.workspaces.replies import AgentUserGroup, Project, Workspace
from master.auth.actions import Action
from master.auth.permissions import allowed
from master.auth.principal import Principal
from master.core.expconf.secrets import masked
from master.store import tables
from master.workspaces.queries import ProjectRow, WorkspaceRow
from windlass.base.formats.json_types import JsonMapping, JsonObject


def workspace(row: WorkspaceRow, reader: Principal) -> Workspace:
    stored = row.workspace.checkpoint_storage
    return {
        "id": row.workspace.id,
        "name": row.workspace.name,
        "archived": row.workspace.archived,
        "immutable": row.workspace.immutable,
        "userId": row.workspace.user_id,
        "username": row.username,
        "numProjects": row.num_projects,
        "numExperiments": row.num_experiments,
        "pinned": row.pinned_at is not None,
        "pinnedAt": time(row.pinned_at),
        "state": _state(row.workspace),
        "errorMessage": row.workspace.error,
        "agentUserGroup": _agent_user(row.workspace.agent_user_group),
        "checkpointStorageConfig": None if stored is None else _storage(row, stored, reader),
        "defaultComputePool": row.workspace.default_compute_pool or "",
        "defaultAuxPool": row.workspace.default_aux_pool or "",
    }


def _storage(row: WorkspaceRow, stored: JsonMapping, reader: Principal) -> JsonObject:
    shown = allowed(reader, Action.SET_WORKSPACE_STORAGE, target_of(row.workspace))
    return dict(stored) if shown else masked(stored)


def _agent_user(stored: object) -> AgentUserGroup | None:
    if stored is None:
        return None
    who = WorkspaceUser.model_validate(stored)
    return {
        "agentUid": who.uid,
        "agentUser": who.user,
        "agentGid": who.gid,
        "agentGroup": who.group,
    }


def project(row: ProjectRow) -> Project:
    return {
        "id": row.project.id,
        "name": row.project.name,
        "key": row.project.key,
        "description": row.project.description,
        "notes": row.project.notes,
        "archived": row.project.archived or row.workspace_archived,
        "immutable": row.project.immutable,
        "userId": row.project.user_id,
        "username": row.username,
        "workspaceId": row.project.workspace_id,
        "workspaceName": row.workspace_name,
        "numExperiments": row.num_experiments,
        "numActiveExperiments": row.num_active_experiments,
        "numRuns": row.num_runs,
        "lastExperimentStartedAt": time(row.last_experiment_at),
        "state": _state(row.project),
        "errorMessage": row.project.error,
    }


def _state(of: tables.Workspace | tables.Project) -> WorkspaceState:
    return WorkspaceState[of.state or "UNSPECIFIED"]
