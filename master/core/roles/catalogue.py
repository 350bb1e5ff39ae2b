"""The roles there are: the ten of the published API, with fixed ids, and those of master.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from master.core.roles.permissions import Permission as P


class RoleId(IntEnum):
    CLUSTER_ADMIN = 1
    WORKSPACE_ADMIN = 2
    WORKSPACE_CREATOR = 3
    VIEWER = 4
    EDITOR = 5
    MODEL_REGISTRY_VIEWER = 6
    EDITOR_RESTRICTED = 7
    GEN_AI_USER = 8
    EDITOR_PROJECT_RESTRICTED = 9
    TOKEN_CREATOR = 10


@dataclass(frozen=True, slots=True)
class Role:
    id: int
    name: str
    permissions: frozenset[P]

    @property
    def is_cluster_only(self) -> bool:
        """It cannot be assigned to a workspace."""
        return any(permission.is_cluster_only for permission in self.permissions)


_POLICIES = frozenset({P.VIEW_GLOBAL_CONFIG_POLICIES, P.VIEW_WORKSPACE_CONFIG_POLICIES})
_VIEWER = _POLICIES | {
    P.VIEW_EXPERIMENT_ARTIFACTS,
    P.VIEW_EXPERIMENT_METADATA,
    P.VIEW_NSC,
    P.VIEW_WORKSPACE,
    P.VIEW_PROJECT,
    P.VIEW_MODEL_REGISTRY,
    P.VIEW_TEMPLATES,
    P.VIEW_RESOURCE_QUOTAS,
    P.VIEW_WEBHOOKS,
}
_INTERACTIVE = frozenset({P.CREATE_NSC, P.UPDATE_NSC})
_PROJECTS = frozenset({P.CREATE_PROJECT, P.UPDATE_PROJECT})
_WEBHOOKS = frozenset({P.EDIT_WEBHOOKS, P.VIEW_WEBHOOKS})
_EDITOR = (
    _VIEWER
    | _INTERACTIVE
    | _PROJECTS
    | {
        P.CREATE_EXPERIMENT,
        P.UPDATE_EXPERIMENT,
        P.UPDATE_EXPERIMENT_METADATA,
        P.DELETE_EXPERIMENT,
        P.EDIT_MODEL_REGISTRY,
        P.CREATE_MODEL_REGISTRY,
        P.DELETE_MODEL_REGISTRY,
        P.DELETE_MODEL_VERSION,
        P.CREATE_TEMPLATES,
        P.UPDATE_TEMPLATES,
        P.DELETE_TEMPLATES,
        P.EDIT_WEBHOOKS,
    }
)
_WORKSPACE_ADMIN = _EDITOR | {
    P.UPDATE_WORKSPACE,
    P.DELETE_WORKSPACE,
    P.SET_WORKSPACE_CHECKPOINT_STORAGE_CONFIG,
    P.SET_WORKSPACE_DEFAULT_RESOURCE_POOL,
    P.DELETE_PROJECT,
    P.ASSIGN_ROLES,
    P.DELETE_OTHER_USER_MODEL_REGISTRY,
    P.DELETE_OTHER_USER_MODEL_VERSION,
    P.MODIFY_WORKSPACE_CONFIG_POLICIES,
}
_GEN_AI = (_EDITOR - _WEBHOOKS) | {P.DELETE_PROJECT, P.CREATE_WORKSPACE}
_TOKENS = frozenset({P.UPDATE_TOKEN, P.CREATE_TOKEN, P.VIEW_TOKEN})

FIXED_ROLES: Sequence[Role] = (
    Role(RoleId.CLUSTER_ADMIN, "ClusterAdmin", frozenset(P)),
    Role(RoleId.WORKSPACE_ADMIN, "WorkspaceAdmin", _WORKSPACE_ADMIN),
    Role(RoleId.WORKSPACE_CREATOR, "WorkspaceCreator", _POLICIES | {P.CREATE_WORKSPACE}),
    Role(RoleId.VIEWER, "Viewer", _VIEWER),
    Role(RoleId.EDITOR, "Editor", _EDITOR),
    Role(RoleId.MODEL_REGISTRY_VIEWER, "ModelRegistryViewer", _POLICIES | {P.VIEW_MODEL_REGISTRY}),
    Role(RoleId.EDITOR_RESTRICTED, "EditorRestricted", _EDITOR - _INTERACTIVE),
    Role(RoleId.GEN_AI_USER, "GenAIUser", _GEN_AI),
    Role(RoleId.EDITOR_PROJECT_RESTRICTED, "EditorProjectRestricted", _EDITOR - _PROJECTS),
    Role(RoleId.TOKEN_CREATOR, "TokenCreator", _TOKENS),
)
FIRST_OWN_ID = 100
"""Roles of master.yaml have this id or a higher one."""


def roles(own: Sequence[Role] = ()) -> Mapping[int, Role]:
    """By id."""
    return {int(role.id): role for role in (*FIXED_ROLES, *own)}
