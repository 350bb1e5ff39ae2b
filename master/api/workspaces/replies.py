"""Workspaces and projects, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.enums import WorkspaceState
from master.api.paging import Pagination
from master.api.values import Timestamp
from windlass.base.formats.json_types import JsonObject


class AgentUserGroup(TypedDict):
    """Null: the workspace leaves it to the link of a task's owner, and to the cluster."""

    agentUid: int | None
    agentUser: str | None
    agentGid: int | None
    agentGroup: str | None


class Workspace(TypedDict):
    id: int
    name: str
    archived: bool
    immutable: bool
    userId: int
    username: str
    numProjects: int
    numExperiments: int
    pinned: bool
    pinnedAt: Timestamp | None
    state: WorkspaceState
    errorMessage: str
    agentUserGroup: AgentUserGroup | None
    checkpointStorageConfig: JsonObject | None
    """Null: the cluster's. Keys are masked for whoever may not change it."""
    defaultComputePool: str
    """Empty, as in the next: the cluster's."""
    defaultAuxPool: str


class WorkspaceReply(TypedDict):
    workspace: Workspace


class ChangedWorkspaceReply(TypedDict):
    workspace: Workspace
    namespaceBindings: JsonObject
    """Of Kubernetes: none."""


class NamespaceBindingsReply(TypedDict):
    namespaceBindings: JsonObject
    """Of Kubernetes: none."""


class PoolsReply(TypedDict):
    resourcePools: list[str]
    pagination: Pagination


class DeletionBegunReply(TypedDict):
    completed: bool
    """False: its state says how far that is."""


class NotesReply(TypedDict):
    notes: list[JsonObject]


class WorkspacesReply(TypedDict):
    workspaces: list[Workspace]
    pagination: Pagination


class Project(TypedDict):
    id: int
    name: str
    key: str
    description: str
    notes: list[JsonObject]
    archived: bool
    immutable: bool
    userId: int
    username: str
    workspaceId: int
    workspaceName: str
    numExperiments: int
    numActiveExperiments: int
    numRuns: int
    lastExperimentStartedAt: Timestamp | None
    state: WorkspaceState
    errorMessage: str


class ProjectReply(TypedDict):
    project: Project


class ProjectsReply(TypedDict):
    projects: list[Project]
    pagination: Pagination
