"""Who may do what. Each route names its action and finds its target; what decides are the caller's rules.

Here are the basic ones, in one table. A user may see all but secrets and change what is theirs; an administrator may
change everything. A task acts for the user who owns it, but changes only what is its own, and it may end its own
experiment. Where `security.authz.type` is rbac, `role_rules` decide instead: callers carry them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from master.auth.actions import CLUSTER, Action, Target
from master.auth.principal import Principal
from master.core.visibility import Visibility
from windlass.base.errors import PermissionDenied, WindlassError


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
    Action.SET_WORKSPACE_STORAGE: PermissionRule(Users.OWNER, Tasks.NONE),
    Action.SET_DEFAULT_POOLS: PermissionRule(Users.OWNER, Tasks.NONE),
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
    Action.PREVIEW_EXPERIMENT: PermissionRule(Users.ALL, Tasks.NONE),
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
    Action.VIEW_WEBHOOKS: _READ,
    Action.EDIT_WEBHOOKS: PermissionRule(Users.OWNER, Tasks.NONE),
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
