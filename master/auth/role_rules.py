"""The rules of `security.authz.type: rbac`: which permissions each action needs where its target is.

A task acts as its owner, within what the basic rules let any task do. What it reports of itself needs no permission:
work that runs is ended by ending it, not by making its reports fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from master.auth.actions import Action, Target
from master.auth.permissions import RULES, Tasks, of_others, task_may
from master.auth.principal import Principal, Rules
from master.core.roles.access import Access
from master.core.roles.permissions import Permission as P
from master.core.visibility import TensorboardVisibility, Visibility
from windlass.base.errors import NotFound, PermissionDenied, WindlassError


@dataclass(frozen=True, slots=True)
class Need:
    permission: P | None = None
    """In the workspace of the target, or in the cluster; None: everybody may."""
    sees: P | None = None
    """What a route for this shows of, if that is another; None: everything."""
    owner: P | bool = False
    """What the owner of the target needs instead; True: nothing."""
    in_several: bool = False
    """The route itself looks which of many targets are seen: `ANYWHERE` needs no permission."""


def _sees(permission: P) -> Need:
    return Need(permission, permission, in_several=True)


_FREE = Need()
_EXPERIMENT, _FILES, _TASK = (
    P.VIEW_EXPERIMENT_METADATA,
    P.VIEW_EXPERIMENT_ARTIFACTS,
    P.VIEW_NSC,
)
NEEDS: Mapping[Action, Need] = {
    Action.VIEW_CLUSTER: Need(None, _EXPERIMENT),
    Action.VIEW_USERS: _FREE,
    Action.VIEW_WORKSPACES: _sees(P.VIEW_WORKSPACE),
    Action.VIEW_PROJECTS: _sees(P.VIEW_PROJECT),
    Action.CREATE_WORKSPACE: Need(P.CREATE_WORKSPACE),
    Action.UPDATE_WORKSPACE: Need(P.UPDATE_WORKSPACE, P.VIEW_WORKSPACE),
    Action.DELETE_WORKSPACE: Need(P.DELETE_WORKSPACE, P.VIEW_WORKSPACE),
    Action.PIN_WORKSPACE: _sees(P.VIEW_WORKSPACE),
    Action.SET_AGENT_USER: Need(P.SET_WORKSPACE_AGENT_USER_GROUP, P.VIEW_WORKSPACE),
    Action.SET_WORKSPACE_STORAGE: Need(P.SET_WORKSPACE_CHECKPOINT_STORAGE_CONFIG, P.VIEW_WORKSPACE),
    Action.SET_DEFAULT_POOLS: Need(P.SET_WORKSPACE_DEFAULT_RESOURCE_POOL, P.VIEW_WORKSPACE),
    Action.BIND_NAMESPACES: Need(P.SET_WORKSPACE_NAMESPACE_BINDINGS, P.VIEW_WORKSPACE),
    Action.SET_QUOTAS: Need(P.SET_RESOURCE_QUOTAS, P.VIEW_WORKSPACE),
    Action.CREATE_PROJECT: Need(P.CREATE_PROJECT, P.VIEW_WORKSPACE),
    Action.UPDATE_PROJECT: Need(P.UPDATE_PROJECT, P.VIEW_PROJECT),
    Action.DELETE_PROJECT: Need(P.DELETE_PROJECT, P.VIEW_PROJECT),
    Action.MOVE_PROJECT: Need(P.DELETE_PROJECT, P.VIEW_WORKSPACE),
    Action.TAKE_PROJECT: Need(P.CREATE_PROJECT, P.VIEW_WORKSPACE),
    Action.VIEW_EXPERIMENTS: _sees(_EXPERIMENT),
    Action.VIEW_ARTIFACTS: _sees(_FILES),
    Action.VIEW_SECRETS: Need(P.ADMINISTRATE_USER, owner=True),
    Action.VIEW_INTERACTIVE: _sees(_TASK),
    Action.VIEW_JOBS: Need(None, _EXPERIMENT),
    Action.VIEW_MASTER_CONFIG: Need(P.VIEW_MASTER_CONFIG),
    Action.VIEW_MASTER_LOGS: Need(P.VIEW_MASTER_LOGS),
    Action.CREATE_EXPERIMENT: Need(P.CREATE_EXPERIMENT, P.VIEW_PROJECT),
    Action.PREVIEW_SEARCH: _FREE,
    Action.UPDATE_EXPERIMENT: Need(P.UPDATE_EXPERIMENT, _EXPERIMENT),
    Action.UPDATE_METADATA: Need(P.UPDATE_EXPERIMENT_METADATA, _EXPERIMENT),
    Action.END_EXPERIMENT: Need(P.UPDATE_EXPERIMENT, _EXPERIMENT),
    Action.DELETE_EXPERIMENT: Need(P.DELETE_EXPERIMENT, _EXPERIMENT),
    Action.DELETE_CHECKPOINTS: Need(P.UPDATE_EXPERIMENT, _FILES),
    Action.MOVE_EXPERIMENT: Need(P.DELETE_EXPERIMENT, _EXPERIMENT),
    Action.TAKE_EXPERIMENT: Need(P.CREATE_EXPERIMENT, P.VIEW_PROJECT),
    Action.REPORT: Need(P.UPDATE_EXPERIMENT, _FILES),
    Action.CREATE_INTERACTIVE: Need(P.CREATE_NSC, P.VIEW_WORKSPACE),
    Action.UPDATE_INTERACTIVE: Need(P.UPDATE_NSC, _TASK),
    Action.UPDATE_JOB: Need(None, _EXPERIMENT),
    Action.CONTROL_JOB_QUEUE: Need(P.CONTROL_STRICT_JOB_QUEUE),
    Action.VIEW_EXTERNAL_JOBS: Need(P.VIEW_EXTERNAL_JOBS),
    Action.VIEW_USAGE: Need(P.VIEW_CLUSTER_USAGE),
    Action.VIEW_TEMPLATES: _sees(P.VIEW_TEMPLATES),
    Action.CREATE_TEMPLATE: Need(P.CREATE_TEMPLATES, P.VIEW_WORKSPACE),
    Action.UPDATE_TEMPLATE: Need(P.UPDATE_TEMPLATES, P.VIEW_TEMPLATES),
    Action.DELETE_TEMPLATE: Need(P.DELETE_TEMPLATES, P.VIEW_TEMPLATES),
    Action.VIEW_GLOBAL_POLICIES: Need(P.VIEW_GLOBAL_CONFIG_POLICIES),
    Action.VIEW_WORKSPACE_POLICIES: _sees(P.VIEW_WORKSPACE_CONFIG_POLICIES),
    Action.UPDATE_GLOBAL_POLICIES: Need(P.MODIFY_GLOBAL_CONFIG_POLICIES),
    Action.UPDATE_WORKSPACE_POLICIES: Need(P.MODIFY_WORKSPACE_CONFIG_POLICIES, P.VIEW_WORKSPACE),
    Action.VIEW_WEBHOOKS: _sees(P.VIEW_WEBHOOKS),
    Action.EDIT_WEBHOOKS: Need(P.EDIT_WEBHOOKS, P.VIEW_WEBHOOKS),
    Action.BIND_POOLS: Need(P.MODIFY_RP_WORKSPACE_BINDINGS),
    Action.VIEW_MODELS: _sees(P.VIEW_MODEL_REGISTRY),
    Action.CREATE_MODEL: Need(P.CREATE_MODEL_REGISTRY, P.VIEW_WORKSPACE),
    Action.UPDATE_MODEL: Need(P.EDIT_MODEL_REGISTRY, P.VIEW_MODEL_REGISTRY),
    Action.DELETE_MODEL: Need(
        P.DELETE_OTHER_USER_MODEL_REGISTRY, P.VIEW_MODEL_REGISTRY, owner=P.DELETE_MODEL_REGISTRY
    ),
    Action.DELETE_MODEL_VERSION: Need(
        P.DELETE_OTHER_USER_MODEL_VERSION, P.VIEW_MODEL_REGISTRY, owner=P.DELETE_MODEL_VERSION
    ),
    Action.UPDATE_AGENTS: Need(P.UPDATE_AGENTS),
    Action.VIEW_AGENT_DETAILS: Need(P.VIEW_SENSITIVE_AGENT_INFO),
    Action.UPDATE_USER: Need(P.ADMINISTRATE_USER, owner=True),
    Action.ADMINISTRATE_USERS: Need(P.ADMINISTRATE_USER),
    Action.VIEW_GROUPS: _FREE,
    Action.VIEW_ALL_GROUPS: Need(P.ASSIGN_ROLES),
    Action.UPDATE_GROUPS: Need(P.UPDATE_GROUP),
    Action.VIEW_ROLES: _FREE,
    Action.ASSIGN_ROLES: Need(P.ASSIGN_ROLES, P.VIEW_WORKSPACE),
    Action.UPDATE_ROLES: Need(P.UPDATE_ROLES),
    Action.ADMINISTRATE_CLUSTER: Need(P.UPDATE_MASTER_CONFIG),
    Action.USE_SESSION: _FREE,
    Action.MANAGE_SESSIONS: Need(P.ADMINISTRATE_USER, owner=True),
    Action.USE_SETTINGS: Need(None, P.VIEW_PROJECT),
    Action.VIEW_TOKENS: Need(P.VIEW_OTHER_TOKEN, owner=P.VIEW_TOKEN),
    Action.CREATE_TOKEN: Need(P.CREATE_OTHER_TOKEN, owner=P.CREATE_TOKEN),
    Action.UPDATE_TOKEN: Need(P.ADMINISTRATE_TOKEN, owner=P.UPDATE_TOKEN),
}
_SEEN_BY: Mapping[str, P] = {
    "experiment": _EXPERIMENT,
    "trial": _FILES,
    "checkpoint": _FILES,
    "task": _FILES,
    "allocation": _FILES,
    "workspace": P.VIEW_WORKSPACE,
    "project": P.VIEW_PROJECT,
    "template": P.VIEW_TEMPLATES,
    "model": P.VIEW_MODEL_REGISTRY,
    "webhook": P.VIEW_WEBHOOKS,
    "job": _EXPERIMENT,
    **dict.fromkeys(("command", "notebook", "shell", "tensorboard", "generic"), _TASK),
}
"""By the last word of the kind of target; every other one is seen by everybody."""
_OF_TASKS: Mapping[P, P] = {
    P.UPDATE_EXPERIMENT: P.UPDATE_NSC,
    _EXPERIMENT: _TASK,
    _FILES: _TASK,
}
"""What stands for a permission where the target is an interactive task."""
_INTERACTIVE = ("task", "allocation", "checkpoint", "job")
"""Kinds of targets that are of an interactive task if they are of no experiment."""


def permission_for(principal: Principal, action: Action, target: Target) -> P | None:
    """What `action` needs at `target`; None: nothing but to see it."""
    need = NEEDS[action]
    if target.shows is not None and need.permission in (_TASK, _FILES):
        return P.VIEW_WORKSPACE
    if need.owner is not False and target.owner_id == principal.user_id:
        return None if need.owner is True else P(need.owner)
    return _at(need.permission, target) if need.permission is not None else None


def _at(permission: P, target: Target) -> P:
    if _seen_by(target) is _TASK:
        return _OF_TASKS.get(permission, permission)
    return permission


def _seen_by(target: Target) -> P | None:
    """None: everybody sees it."""
    noun = target.kind.rpartition(" ")[2]
    if noun in _INTERACTIVE and target.experiment_id is None:
        return _TASK
    return _SEEN_BY.get(noun)


@dataclass(frozen=True, slots=True, eq=False)
class RoleRules:
    """Of one caller, for one call: roles are looked up anew for the next."""

    access: Access

    def grants_the_same(self, other: Rules) -> bool:
        return isinstance(other, RoleRules) and self.access.equals(other.access)

    def allowed(self, principal: Principal, action: Action, target: Target) -> bool:
        if principal.task_id is not None:
            rule = RULES[action].tasks
            if not task_may(principal, rule, target):
                return False
            if rule in (Tasks.ITSELF, Tasks.EXPERIMENT):
                return True
        need = NEEDS[action]
        if target.kind == "anywhere":
            return need.in_several or need.permission is None or self._somewhere(need.permission)
        needed = permission_for(principal, action, target)
        may = needed is None or self.access.allows(needed, target.workspace_id)
        return may and self._sees(target)

    def denial(self, principal: Principal, action: Action, target: Target) -> WindlassError:
        if not self._sees(target):
            return NotFound(target.kind, target.id, target.hint)
        if principal.task_id is not None and not task_may(principal, RULES[action].tasks, target):
            return PermissionDenied(of_others(target))
        permission = permission_for(principal, action, target)
        name = "none there is" if permission is None else permission.wire_name
        return PermissionDenied(f"access denied; required permissions: {name}")

    def visibility(self, principal: Principal, action: Action) -> Visibility:
        sees = NEEDS[action].sees
        mine = Target(owner_id=principal.user_id)
        shows = self.allowed(principal, Action.VIEW_SECRETS, mine)
        everybodys = principal.task_id is None and self.access.allows(P.ADMINISTRATE_USER)

        boards = TensorboardVisibility(
            workspaces=self.access.where(P.VIEW_WORKSPACE), experiments=self.access.where(_FILES)
        )

        def of(permission: P | None) -> Visibility:
            return Visibility(
                workspaces=None if permission is None else self.access.where(permission),
                secrets_of=principal.user_id if shows else None,
                all_secrets=everybodys,
                interactive=of(_TASK) if permission in (_EXPERIMENT, _FILES) else None,
                tensorboards=boards if permission is _TASK else None,
            )

        return of(sees)

    def _sees(self, target: Target) -> bool:
        if target.shows is not None:
            here = self.access.allows(P.VIEW_WORKSPACE, target.workspace_id)
            return here and all(self.access.allows(_FILES, id_) for id_ in target.shows)
        permission = _seen_by(target)
        return permission is None or self.access.allows(permission, target.workspace_id)

    def _somewhere(self, permission: P) -> bool:
        if self.access.allows_somewhere(permission):
            return True
        instead = _OF_TASKS.get(permission)
        return instead is not None and self.access.allows_somewhere(instead)


RulesOf = Callable[[int], RoleRules | None]
"""Of a user; None: the basic rules."""
