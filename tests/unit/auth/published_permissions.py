"""The permissions of the published API: id, name, words, `*` if it is of the cluster only, and the roles that have it.

Written down apart from the code, which is compared with it. Roles are letters; ClusterAdmin has all.
"""

from __future__ import annotations

ROLES = {
    "A": (1, "ClusterAdmin"),
    "W": (2, "WorkspaceAdmin"),
    "C": (3, "WorkspaceCreator"),
    "V": (4, "Viewer"),
    "E": (5, "Editor"),
    "M": (6, "ModelRegistryViewer"),
    "R": (7, "EditorRestricted"),
    "G": (8, "GenAIUser"),
    "P": (9, "EditorProjectRestricted"),
    "T": (10, "TokenCreator"),
}
PERMISSIONS = """
2001 CREATE_EXPERIMENT | create experiment |  | WERGP
2002 VIEW_EXPERIMENT_ARTIFACTS | view experiment artifacts |  | WVERGP
2003 VIEW_EXPERIMENT_METADATA | view experiment metadata |  | WVERGP
2004 UPDATE_EXPERIMENT | update experiment |  | WERGP
2005 UPDATE_EXPERIMENT_METADATA | update experiment metadata |  | WERGP
2006 DELETE_EXPERIMENT | delete experiment |  | WERGP
3001 CREATE_NSC | create notebooks/shells/commands |  | WEGP
3002 VIEW_NSC | view notebooks/shells/commands |  | WVERGP
3003 UPDATE_NSC | update notebooks/shells/commands |  | WEGP
4002 VIEW_WORKSPACE | view workspace |  | WVERGP
4003 UPDATE_WORKSPACE | update workspace |  | W
4004 DELETE_WORKSPACE | delete workspace |  | W
4005 SET_WORKSPACE_AGENT_USER_GROUP | set agent user group on workspace |  |
4006 SET_WORKSPACE_CHECKPOINT_STORAGE_CONFIG | set checkpoint storage config on workspace |  | W
4007 SET_WORKSPACE_DEFAULT_RESOURCE_POOL | set default resource pool on workspace |  | W
5001 CREATE_PROJECT | create project |  | WERG
5002 VIEW_PROJECT | view project |  | WVERGP
5003 UPDATE_PROJECT | update project |  | WERG
5004 DELETE_PROJECT | delete project |  | WG
6002 ASSIGN_ROLES | assign roles |  | W
7001 VIEW_MODEL_REGISTRY | view model registry |  | WVEMRGP
7002 EDIT_MODEL_REGISTRY | edit model registry |  | WERGP
7003 CREATE_MODEL_REGISTRY | create model registry |  | WERGP
7004 DELETE_MODEL_REGISTRY | delete model registry |  | WERGP
7005 DELETE_MODEL_VERSION | delete model version |  | WERGP
7006 DELETE_OTHER_USER_MODEL_REGISTRY | delete other user model registry |  | W
7007 DELETE_OTHER_USER_MODEL_VERSION | delete other user model version |  | W
8001 VIEW_MASTER_LOGS | view master logs | * |
8002 VIEW_CLUSTER_USAGE | view detailed cluster usage | * |
8003 UPDATE_AGENTS | update agents | * |
8004 VIEW_SENSITIVE_AGENT_INFO | view sensitive agent info | * |
8005 VIEW_MASTER_CONFIG | view master config | * |
8006 UPDATE_MASTER_CONFIG | update master config | * |
8007 VIEW_EXTERNAL_JOBS | view external jobs | * |
8101 CONTROL_STRICT_JOB_QUEUE | control strict job queue | * |
9001 VIEW_TEMPLATES | view templates |  | WVERGP
9002 UPDATE_TEMPLATES | update templates |  | WERGP
9003 CREATE_TEMPLATES | create templates |  | WERGP
9004 DELETE_TEMPLATES | delete templates |  | WERGP
10001 MODIFY_RP_WORKSPACE_BINDINGS | modify rp workspace bindings | * |
11001 SET_WORKSPACE_NAMESPACE_BINDINGS | set workspace-namespace bindings | * |
11002 SET_RESOURCE_QUOTAS | set resource quotas | * |
11003 VIEW_RESOURCE_QUOTAS | view resource quotas |  | WVERGP
11004 MODIFY_GLOBAL_CONFIG_POLICIES | modify global config policies | * |
11005 MODIFY_WORKSPACE_CONFIG_POLICIES | modify workspace config policies |  | W
11006 VIEW_GLOBAL_CONFIG_POLICIES | view global config policies |  | WCVEMRGP
11007 VIEW_WORKSPACE_CONFIG_POLICIES | view workspace config policies |  | WCVEMRGP
12001 ADMINISTRATE_TOKEN | administrate access token | * |
12002 UPDATE_TOKEN | update own access token | * | T
12003 CREATE_TOKEN | create access token | * | T
12004 CREATE_OTHER_TOKEN | create other access token | * |
12005 VIEW_OTHER_TOKEN | view other access token | * |
12006 VIEW_TOKEN | view own access token | * | T
91001 ADMINISTRATE_USER | administrate user | * |
91002 ADMINISTRATE_OAUTH | manage oauth | * |
93001 UPDATE_GROUP | update group | * |
94001 CREATE_WORKSPACE | create workspace | * | CG
96001 UPDATE_ROLES | update roles | * |
97001 EDIT_WEBHOOKS | edit webhooks |  | WERP
97002 VIEW_WEBHOOKS | view webhooks |  | WVERP
"""


def has(letter: str, permission: str) -> bool:
    """Whether the role has it."""
    return letter == "A" or letter in HOLDERS[permission]


def _rows() -> list[tuple[int, str, str, bool, str]]:
    rows = []
    for line in PERMISSIONS.strip().splitlines():
        first, text, mark, letters = (part.strip() for part in line.split("|"))
        number, name = first.split()
        rows.append((int(number), name, text, mark == "*", letters))
    return rows


ROWS = _rows()
HOLDERS = {name: letters for _, name, _, _, letters in ROWS}
CLUSTER_ONLY = {name for _, name, _, cluster_only, _ in ROWS if cluster_only}
