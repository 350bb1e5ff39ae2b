"""What a cluster has of what a file may say; and steps that change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from windlass.sdk.cluster_file.model import AgentUser
from windlass.sdk.wire import Json

Workload = Literal["experiment", "tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserState:
    display_name: str = ""
    admin: bool = False
    active: bool = True
    remote: bool = False
    agent_user: AgentUser | None = None


@dataclass(frozen=True, slots=True)
class ProjectState:
    description: str = ""
    key: str | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    agent_user: AgentUser | None = None
    projects: Mapping[str, ProjectState] = field(default_factory=dict)
    default_compute_pool: str = ""
    default_aux_pool: str = ""
    checkpoint_storage: Json | None = None


@dataclass(frozen=True, slots=True)
class TemplateState:
    workspace: str
    config: Json


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    kind: Literal["user", "group"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Assignment:
    role: str
    holder: Holder
    workspace: str | None
    """None: in the whole cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """By names, as the master spells them."""

    users: Mapping[str, UserState] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """With the names of their members."""
    workspaces: Mapping[str, WorkspaceState] = field(default_factory=dict)
    roles: Mapping[str, bool] = field(default_factory=dict)
    """Whether one may be held in a workspace alone."""
    assignments: frozenset[Assignment] = frozenset()
    pools: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """With the workspaces that they are bound to."""
    templates: Mapping[str, TemplateState] = field(default_factory=dict)
    policies: Mapping[tuple[str | None, Workload], Json] = field(default_factory=dict)
    """By workspace; None: those of the cluster."""


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    REMOVE = "remove"


class Kind(StrEnum):
    USER = "user"
    GROUP = "group"
    WORKSPACE = "workspace"
    PROJECT = "project"
    ROLE = "role"
    POOL = "resource pool"
    TEMPLATE = "template"
    POLICY = "config policy"


@dataclass(frozen=True, slots=True)
class Change:
    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of the master."""

    action: Action
    kind: Kind
    name: str
    """Of a policy: its workload."""
    workspace: str | None = None
    """Where a project, a role, a template or a policy is; None: in the cluster."""
    holder: Holder | None = None
    """Who gets or loses a role."""
    changes: tuple[Change, ...] = ()

    def new(self) -> dict[str, Any]:
        return {change.field: change.new for change in self.changes}
