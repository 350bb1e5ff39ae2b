"""Who may do what. Each route names its action and finds its target; what decides are the caller's rules.

Here are the basic ones, in one table. A user may see all but secrets and change what is theirs; an administrator may
change everything. A task acts for the user who owns it, but changes only what is its own, and it may end its own
experiment. Where `security.authz.type` is rbac, `role_rules` decide instead: callers carry them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from master.auth.principal import Principal
from master.core.visibility import Visibility
from windlass.base.errors import PermissionDenied, WindlassError


class Action(StrEnum):
    """What somebody wants to do. As fine as the permissions of the published roles need it."""

    VIEW_CLUSTER = "view cluster"
    VIEW_USERS = "view users"
    VIEW_WORKSPACES = "view workspaces"
    VIEW_PROJECTS = "view projects"
    CREATE_WORKSPACE = "create workspace"
    UPDATE_WORKSPACE = "update workspace"
    """Its name, and whether it is archived."""
    DELETE_WORKSPACE = "delete workspace"
    PIN_WORKSPACE = "pin workspace"
    SET_AGENT_USER = "set agent user group on workspace"
    """Say as whom tasks of it run."""
    BIND_NAMESPACES = "set workspace-namespace bindings"
    SET_QUOTAS = "set resource quotas"
    CREATE_PROJECT = "create project"
    UPDATE_PROJECT = "update project"
    DELETE_PROJECT = "delete project"
    MOVE_PROJECT = "move project"
    TAKE_PROJECT = "take project"
    """Into the workspace that it is moved to."""
    VIEW_EXPERIMENTS = "view experiments"
    VIEW_ARTIFACTS = "view experiment artifacts"
    """Trials, metrics, checkpoints, logs, model definitions."""
    VIEW_SECRETS = "view secrets of configurations"
    """Environment variables, registry passwords, storage keys; others see them masked."""
    VIEW_INTERACTIVE = "view interactive tasks"
    VIEW_JOBS = "view jobs"
    VIEW_MASTER_CONFIG = "view master config"
    VIEW_MASTER_LOGS = "view master logs"
    CREATE_EXPERIMENT = "create experiment"
    PREVIEW_SEARCH = "preview search"
    UPDATE_EXPERIMENT = "update experiment"
    UPDATE_METADATA = "update experiment metadata"
    END_EXPERIMENT = "end experiment"
    """Cancel or kill it."""
    DELETE_EXPERIMENT = "delete experiment"
    """Or files of it."""
    DELETE_CHECKPOINTS = "delete checkpoints"
    """Or say how many are kept."""
    MOVE_EXPERIMENT = "move experiment"
    TAKE_EXPERIMENT = "take experiment"
    """Into the workspace that it is moved to."""
    REPORT = "report"
    """What a task tells and asks: metrics, progress, checkpoints, logs, rendezvous, signals."""
    CREATE_INTERACTIVE = "create interactive task"
    UPDATE_INTERACTIVE = "update interactive task"
    UPDATE_JOB = "update job"
    CONTROL_JOB_QUEUE = "control job queue"
    """The same, where `strict_job_queue_control` is set."""
    VIEW_EXTERNAL_JOBS = "view external jobs"
    """Names and users of those that others have at a batch system."""
    VIEW_USAGE = "view cluster usage"
    VIEW_TEMPLATES = "view templates"
    CREATE_TEMPLATE = "create template"
    UPDATE_TEMPLATE = "update template"
    """Its configuration or its name."""
    DELETE_TEMPLATE = "delete template"
    VIEW_GLOBAL_POLICIES = "view global config policies"
    VIEW_WORKSPACE_POLICIES = "view workspace config policies"
    UPDATE_GLOBAL_POLICIES = "modify global config policies"
    UPDATE_WORKSPACE_POLICIES = "modify workspace config policies"
    BIND_POOLS = "bind resource pools to workspaces"
    VIEW_MODELS = "view models"
    CREATE_MODEL = "create model"
    UPDATE_MODEL = "update model"
    """Or register a version of it."""
    DELETE_MODEL = "delete model"
    DELETE_MODEL_VERSION = "delete model version"
    UPDATE_AGENTS = "update agents"
    VIEW_AGENT_DETAILS = "view sensitive agent info"
    UPDATE_USER = "update user"
    ADMINISTRATE_USERS = "administrate users"
    VIEW_GROUPS = "view groups"
    """Those that one is in, or all."""
    VIEW_ALL_GROUPS = "view all groups"
    """And all roles, whoever holds them."""
    UPDATE_GROUPS = "update groups"
    VIEW_ROLES = "view roles"
    ASSIGN_ROLES = "assign roles"
    UPDATE_ROLES = "update roles"
    ADMINISTRATE_CLUSTER = "administrate cluster"
    """Its message, the log level of the master, deleting old logs."""
    USE_SESSION = "use session"
    """Ask who one is, and log out."""
    MANAGE_SESSIONS = "manage sessions"
    """List and end them."""
    USE_SETTINGS = "use settings"
    """What pages remember of their user, recent projects too."""
    VIEW_TOKENS = "view access tokens"
    CREATE_TOKEN = "create access token"  # noqa: S105
    UPDATE_TOKEN = "update access token"  # noqa: S105
    """Describe or revoke it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What an action is done to, as far as rules ask. The default is the cluster as such."""

    kind: str = "cluster"
    id: str | int = ""
    owner_id: int | None = None
    workspace_id: int | None = None
    experiment_id: int | None = None
    task_id: str | None = None
    allocation_id: str | None = None
    """Set when the target is one allocation: others of the same task may not act on it."""
    hint: str = ""
    """What ends the message that it is not there: a hidden one is told in the same words."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id}".rstrip()


CLUSTER = Target()
ANYWHERE = Target(kind="anywhere")
"""Not known yet, or many: may this be done to anything at all?"""


class Users(Enum):
    ALL = auto()
    OWNER = auto()
    """And administrators."""
    OWNER_OF_WORK = auto()
    """The same; and everybody, where `security.authz.others_work` is `any`."""
    ADMINS = auto()


class Tasks(Enum):
    ALL = auto()
    NONE = auto()
    OWNER = auto()
    """Of the same user."""
    ITSELF = auto()
    """The task, or its allocation, is the target."""
    EXPERIMENT = auto()
    """The target is the experiment that the task is part of."""


@dataclass(frozen=True, slots=True)
class PermissionRule:
    users: Users
    tasks: Tasks


_OWNERS = (Users.OWNER, Users.OWNER_OF_WORK)
_READ = PermissionRule(Users.ALL, Tasks.ALL)
RULES: Mapping[Action, PermissionRule] = {
    Action.VIEW_CLUSTER: _READ,
    Action.VIEW_USERS: _READ,
    Action.VIEW_WORKSPACES: _READ,
    Action.VIEW_PROJECTS: _READ,
    Action.CREATE_WORKSPACE: PermissionRule(Users.ALL, Tasks.NONE),
    Action.UPDATE_WORKSPACE: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.PIN_WORKSPACE: PermissionRule(Users.ALL, Tasks.NONE),
    Action.DELETE_WORKSPACE: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.SET_AGENT_USER: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.BIND_NAMESPACES: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.SET_QUOTAS: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.CREATE_PROJECT: PermissionRule(Users.ALL, Tasks.NONE),
    Action.UPDATE_PROJECT: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.DELETE_PROJECT: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.MOVE_PROJECT: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.TAKE_PROJECT: PermissionRule(Users.ALL, Tasks.NONE),
    Action.VIEW_EXPERIMENTS: _READ,
    Action.VIEW_ARTIFACTS: _READ,
    Action.VIEW_SECRETS: PermissionRule(Users.OWNER, Tasks.OWNER),
    Action.VIEW_INTERACTIVE: _READ,
    Action.VIEW_JOBS: _READ,
    Action.VIEW_MASTER_CONFIG: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.VIEW_MASTER_LOGS: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.CREATE_EXPERIMENT: PermissionRule(Users.ALL, Tasks.NONE),
    Action.PREVIEW_SEARCH: PermissionRule(Users.ALL, Tasks.NONE),
    Action.UPDATE_EXPERIMENT: PermissionRule(Users.OWNER_OF_WORK, Tasks.NONE),
    Action.UPDATE_METADATA: PermissionRule(Users.OWNER_OF_WORK, Tasks.NONE),
    Action.END_EXPERIMENT: PermissionRule(Users.OWNER_OF_WORK, Tasks.EXPERIMENT),
    Action.DELETE_EXPERIMENT: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.DELETE_CHECKPOINTS: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.MOVE_EXPERIMENT: PermissionRule(Users.OWNER_OF_WORK, Tasks.NONE),
    Action.TAKE_EXPERIMENT: PermissionRule(Users.ALL, Tasks.NONE),
    Action.REPORT: PermissionRule(Users.OWNER, Tasks.ITSELF),
    Action.CREATE_INTERACTIVE: PermissionRule(Users.ALL, Tasks.NONE),
    Action.UPDATE_INTERACTIVE: PermissionRule(Users.OWNER_OF_WORK, Tasks.NONE),
    Action.UPDATE_JOB: PermissionRule(Users.OWNER_OF_WORK, Tasks.NONE),
    Action.CONTROL_JOB_QUEUE: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.VIEW_EXTERNAL_JOBS: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.VIEW_USAGE: _READ,
    Action.VIEW_TEMPLATES: _READ,
    Action.CREATE_TEMPLATE: PermissionRule(Users.ALL, Tasks.NONE),
    Action.UPDATE_TEMPLATE: PermissionRule(Users.OWNER_OF_WORK, Tasks.NONE),
    Action.DELETE_TEMPLATE: PermissionRule(Users.OWNER_OF_WORK, Tasks.NONE),
    Action.VIEW_GLOBAL_POLICIES: _READ,
    Action.VIEW_WORKSPACE_POLICIES: _READ,
    Action.UPDATE_GLOBAL_POLICIES: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.UPDATE_WORKSPACE_POLICIES: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.BIND_POOLS: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.VIEW_MODELS: _READ,
    Action.CREATE_MODEL: PermissionRule(Users.ALL, Tasks.NONE),
    Action.UPDATE_MODEL: PermissionRule(Users.OWNER_OF_WORK, Tasks.NONE),
    Action.DELETE_MODEL: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.DELETE_MODEL_VERSION: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.UPDATE_AGENTS: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.VIEW_AGENT_DETAILS: _READ,
    Action.UPDATE_USER: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.ADMINISTRATE_USERS: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.VIEW_GROUPS: _READ,
    Action.VIEW_ALL_GROUPS: _READ,
    Action.UPDATE_GROUPS: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.VIEW_ROLES: _READ,
    Action.ASSIGN_ROLES: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.UPDATE_ROLES: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.ADMINISTRATE_CLUSTER: PermissionRule(Users.ADMINS, Tasks.NONE),
    Action.USE_SESSION: _READ,
    Action.MANAGE_SESSIONS: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.USE_SETTINGS: PermissionRule(Users.ALL, Tasks.NONE),
    Action.VIEW_TOKENS: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.CREATE_TOKEN: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.UPDATE_TOKEN: PermissionRule(Users.OWNER, Tasks.NONE),
}


def allowed(principal: Principal, action: Action, target: Target = CLUSTER) -> bool:
    """Whether `principal` may do `action` to `target`."""
    if principal.rules is not None:
        return principal.rules.allowed(principal, action, target)
    rule = RULES[action]
    if principal.task_id is not None:
        return task_may(principal, rule.tasks, target)
    match rule.users:
        case Users.ALL:
            return True
        case Users.OWNER:
            return principal.admin or target.owner_id == principal.user_id
        case Users.OWNER_OF_WORK:
            owns = principal.admin or target.owner_id == principal.user_id
            return owns or principal.changes_others_work
        case Users.ADMINS:
            return principal.admin


def task_may(principal: Principal, rule: Tasks, target: Target) -> bool:
    match rule:
        case Tasks.ALL:
            return True
        case Tasks.NONE:
            return False
        case Tasks.OWNER:
            return target.owner_id == principal.user_id
        case Tasks.ITSELF:
            runs = target.allocation_id in (None, principal.allocation_id)
            return runs and target.task_id is not None and target.task_id == principal.task_id
        case Tasks.EXPERIMENT:
            mine = principal.experiment_id
            return mine is not None and target.experiment_id == mine


def denial(
    principal: Principal, action: Action, target: Target = CLUSTER, owner: str = ""
) -> WindlassError:
    """Why not. `owner` is the name of the target's owner, if it has one."""
    if principal.rules is not None:
        return principal.rules.denial(principal, action, target)
    return PermissionDenied(refusal(principal, action, target, owner))


def refusal(principal: Principal, action: Action, target: Target, owner: str = "") -> str:
    """The same by the basic rules, in one line."""
    if principal.task_id is not None:
        return of_others(target)
    if RULES[action].users in _OWNERS and owner and target.kind != "user":
        return f"{target} belongs to {owner}: only they and administrators may change it"
    return "user does not have permission"


def of_others(target: Target) -> str:
    """What a task is told."""
    return f"a task may change only what is its own, and this is {target}"


def visibility(principal: Principal, action: Action) -> Visibility:
    """What `principal` may see by `action`."""
    if principal.rules is not None:
        return principal.rules.visibility(principal, action)
    mine, anybodys = Target(owner_id=principal.user_id), Target()
    return Visibility(
        secrets_of=principal.user_id if allowed(principal, Action.VIEW_SECRETS, mine) else None,
        all_secrets=allowed(principal, Action.VIEW_SECRETS, anybodys),
    )
