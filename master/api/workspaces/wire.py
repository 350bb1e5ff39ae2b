"""Workspaces and projects."""

from __future__ import annotations

from typing import Any

from master.api.values import time
from master.store.paging import Row


def workspace(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "name": row["name"],
        "archived": row["archived"],
        "immutable": row["immutable"],
        "userId": row["user_id"],
        "username": row["username"],
        "numProjects": row["num_projects"],
        "numExperiments": row["num_experiments"],
        "pinned": False,
        "pinnedAt": None,
        "state": "WORKSPACE_STATE_UNSPECIFIED",
        "errorMessage": "",
        "agentUserGroup": None,
        "checkpointStorageConfig": None,
    }


def project(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "name": row["name"],
        "key": row["name"][:5].upper(),
        "description": row["description"],
        "notes": [],
        "archived": row["archived"] or row["workspace_archived"],
        "immutable": row["immutable"],
        "userId": row["user_id"],
        "username": row["username"],
        "workspaceId": row["workspace_id"],
        "workspaceName": row["workspace_name"],
        "numExperiments": row["num_experiments"],
        "numActiveExperiments": row["num_active_experiments"],
        "numRuns": row["num_runs"],
        "lastExperimentStartedAt": time(row["last_experiment_at"]),
        "state": "WORKSPACE_STATE_UNSPECIFIED",
        "errorMessage": "",
    }
