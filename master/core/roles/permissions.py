"""Every permission of the published API, with the words that clients show.

A client fails on an id that it does not know, so that this list is closed: what is ours alone is part of one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Permission(IntEnum):
    CREATE_EXPERIMENT = 2001
    VIEW_EXPERIMENT_ARTIFACTS = 2002
    VIEW_EXPERIMENT_METADATA = 2003
    UPDATE_EXPERIMENT = 2004
    UPDATE_EXPERIMENT_METADATA = 2005
    DELETE_EXPERIMENT = 2006
    CREATE_NSC = 3001
    VIEW_NSC = 3002
    UPDATE_NSC = 3003
    VIEW_WORKSPACE = 4002
    UPDATE_WORKSPACE = 4003
    DELETE_WORKSPACE = 4004
    SET_WORKSPACE_AGENT_USER_GROUP = 4005
    SET_WORKSPACE_CHECKPOINT_STORAGE_CONFIG = 4006
    SET_WORKSPACE_DEFAULT_RESOURCE_POOL = 4007
    CREATE_PROJECT = 5001
    VIEW_PROJECT = 5002
    UPDATE_PROJECT = 5003
    DELETE_PROJECT = 5004
    ASSIGN_ROLES = 6002
    VIEW_MODEL_REGISTRY = 7001
    EDIT_MODEL_REGISTRY = 7002
    CREATE_MODEL_REGISTRY = 7003
    DELETE_MODEL_REGISTRY = 7004
    DELETE_MODEL_VERSION = 7005
    DELETE_OTHER_USER_MODEL_REGISTRY = 7006
    DELETE_OTHER_USER_MODEL_VERSION = 7007
    VIEW_MASTER_LOGS = 8001
    VIEW_CLUSTER_USAGE = 8002
    UPDATE_AGENTS = 8003
    VIEW_SENSITIVE_AGENT_INFO = 8004
    VIEW_MASTER_CONFIG = 8005
    UPDATE_MASTER_CONFIG = 8006
    VIEW_EXTERNAL_JOBS = 8007
    CONTROL_STRICT_JOB_QUEUE = 8101
    VIEW_TEMPLATES = 9001
    UPDATE_TEMPLATES = 9002
    CREATE_TEMPLATES = 9003
    DELETE_TEMPLATES = 9004
    MODIFY_RP_WORKSPACE_BINDINGS = 10001
    SET_WORKSPACE_NAMESPACE_BINDINGS = 11001
    SET_RESOURCE_QUOTAS = 11002
    VIEW_RESOURCE_QUOTAS = 11003
    MODIFY_GLOBAL_CONFIG_POLICIES = 11004
    MODIFY_WORKSPACE_CONFIG_POLICIES = 11005
    VIEW_GLOBAL_CONFIG_POLICIES = 11006
    VIEW_WORKSPACE_CONFIG_POLICIES = 11007
    ADMINISTRATE_TOKEN = 12001
    UPDATE_TOKEN = 12002
    CREATE_TOKEN = 12003
    CREATE_OTHER_TOKEN = 12004
    VIEW_OTHER_TOKEN = 12005
    VIEW_TOKEN = 12006
    ADMINISTRATE_USER = 91001
    ADMINISTRATE_OAUTH = 91002
    UPDATE_GROUP = 93001
    CREATE_WORKSPACE = 94001
    UPDATE_ROLES = 96001
    EDIT_WEBHOOKS = 97001
    VIEW_WEBHOOKS = 97002

    @property
    def wire_name(self) -> str:
        return f"PERMISSION_TYPE_{self.name}"

    @property
    def text(self) -> str:
        """What it allows, in a few words."""
        return _TEXTS.get(self) or self.name.lower().replace("_", " ")

    @property
    def is_cluster_only(self) -> bool:
        """It has no meaning in a workspace."""
        return self in CLUSTER_ONLY


_TEXTS: Mapping[Permission, str] = {
    Permission.CREATE_NSC: "create notebooks/shells/commands",
    Permission.VIEW_NSC: "view notebooks/shells/commands",
    Permission.UPDATE_NSC: "update notebooks/shells/commands",
    Permission.SET_WORKSPACE_AGENT_USER_GROUP: "set agent user group on workspace",
    Permission.SET_WORKSPACE_CHECKPOINT_STORAGE_CONFIG: "set checkpoint storage config on workspace",
    Permission.SET_WORKSPACE_DEFAULT_RESOURCE_POOL: "set default resource pool on workspace",
    Permission.VIEW_CLUSTER_USAGE: "view detailed cluster usage",
    Permission.SET_WORKSPACE_NAMESPACE_BINDINGS: "set workspace-namespace bindings",
    Permission.ADMINISTRATE_TOKEN: "administrate access token",
    Permission.UPDATE_TOKEN: "update own access token",
    Permission.CREATE_TOKEN: "create access token",
    Permission.CREATE_OTHER_TOKEN: "create other access token",
    Permission.VIEW_OTHER_TOKEN: "view other access token",
    Permission.VIEW_TOKEN: "view own access token",
    Permission.ADMINISTRATE_OAUTH: "manage oauth",
}
CLUSTER_ONLY = frozenset(
    {
        Permission.VIEW_MASTER_LOGS,
        Permission.VIEW_CLUSTER_USAGE,
        Permission.UPDATE_AGENTS,
        Permission.VIEW_SENSITIVE_AGENT_INFO,
        Permission.VIEW_MASTER_CONFIG,
        Permission.UPDATE_MASTER_CONFIG,
        Permission.VIEW_EXTERNAL_JOBS,
        Permission.CONTROL_STRICT_JOB_QUEUE,
        Permission.MODIFY_RP_WORKSPACE_BINDINGS,
        Permission.SET_WORKSPACE_NAMESPACE_BINDINGS,
        Permission.SET_RESOURCE_QUOTAS,
        Permission.MODIFY_GLOBAL_CONFIG_POLICIES,
        Permission.ADMINISTRATE_TOKEN,
        Permission.UPDATE_TOKEN,
        Permission.CREATE_TOKEN,
        Permission.CREATE_OTHER_TOKEN,
        Permission.VIEW_OTHER_TOKEN,
        Permission.VIEW_TOKEN,
        Permission.ADMINISTRATE_USER,
        Permission.ADMINISTRATE_OAUTH,
        Permission.UPDATE_GROUP,
        Permission.CREATE_WORKSPACE,
        Permission.UPDATE_ROLES,
    }
)
