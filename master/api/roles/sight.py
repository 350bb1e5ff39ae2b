"""What of groups and assignments a caller may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from master.api.services import ApiContext
from master.auth.actions import ANYWHERE, CLUSTER, Action
from master.auth.permissions import allowed, visibility
from master.auth.principal import Principal
from master.config.sections import Authz
from master.core.roles.groups import Assignment, Group
from windlass.base.errors import NotFound


def shows_roles(authz: Authz) -> bool:
    """Whether clients are told that there are groups and roles."""
    return authz.type == "rbac" if authz.rbac_ui_enabled is None else authz.rbac_ui_enabled


def sees_group(by: Principal, group: Group) -> bool:
    return (
        by.user_id in group.members
        or allowed(by, Action.VIEW_ALL_GROUPS, ANYWHERE)
        or allowed(by, Action.UPDATE_GROUPS, CLUSTER)
    )


def visible_group(api: ApiContext, by: Principal, group_id: int) -> Group:
    """Raises NotFound, for a hidden one too."""
    group = api.services.roles.group(group_id)
    if not sees_group(by, group):
        raise NotFound("group", group_id)
    return group


def sees_all_roles(by: Principal) -> bool:
    return allowed(by, Action.VIEW_ALL_GROUPS, ANYWHERE) or allowed(
        by, Action.UPDATE_ROLES, CLUSTER
    )


def visible_assignments(
    api: ApiContext, by: Principal, assignments: Iterable[Assignment]
) -> Sequence[Assignment]:
    """The caller's own, and those of visible groups and of users, in workspaces that the caller sees."""
    workspaces = visibility(by, Action.VIEW_WORKSPACES)
    own = set(api.services.roles.of_user(by.user_id))

    def shows(one: Assignment) -> bool:
        if one in own:
            return True
        where = one.grant.workspace_id
        if where is not None and where not in workspaces:
            return False
        return one.group_id is None or sees_group(by, api.services.roles.group(one.group_id))

    return [one for one in assignments if shows(one)]
