"""Workspaces and projects."""

from __future__ import annotations

from master.allocations.identities import WorkspaceUser
from master.api.enums import WorkspaceState
from master.api.values import time
from master.api.workspaces.replies import AgentUserGroup, Project, Workspace
from master.workspaces.queries import ProjectRow, WorkspaceRow


def workspace(row: WorkspaceRow) -> Workspace:
    return {
        "id": row.workspace.id,
        "name": row.workspace.name,
        "archived": row.workspace.archived,
        "immutable": row.workspace.immutable,
        "userId": row.workspace.user_id,
        "username": row.username,
        "numProjects": row.num_projects,
        "numExperiments": row.num_experiments,
        "pinned": False,
        "pinnedAt": None,
        "state": WorkspaceState.UNSPECIFIED,
        "errorMessage": "",
        "agentUserGroup": _agent_user(row.workspace.agent_user_group),
        "checkpointStorageConfig": None,
    }


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
        "key": row.project.name[:5].upper(),
        "description": row.project.description,
        "notes": [],
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
        "state": WorkspaceState.UNSPECIFIED,
        "errorMessage": "",
    }
