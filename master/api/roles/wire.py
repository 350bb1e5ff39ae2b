"""From groups and roles to what is shown of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from master.api.enums import PermissionType
from master.api.roles import replies
from master.api.services import ApiContext
from master.api.users.wire import user as user_json
from master.core.roles.catalogue import Role
from master.core.roles.groups import Assignment, Group, summary
from master.core.roles.permissions import Permission


def permission(value: Permission) -> replies.Permission:
    return {
        "id": PermissionType(value.wire_name),
        "name": value.text,
        "scopeTypeMask": {"cluster": True, "workspace": not value.is_cluster_only},
    }


def role(value: Role) -> replies.Role:
    return {
        "roleId": int(value.id),
        "name": value.name,
        "permissions": [permission(one) for one in sorted(value.permissions)],
        "scopeTypeMask": {"cluster": True, "workspace": not value.is_cluster_only},
    }


def group(api: ApiContext, value: Group) -> replies.GroupDetails:
    users = [user_json(api.services.auth.user(id_)) for id_ in sorted(value.members)]
    return {"groupId": value.id, "name": value.name, "users": users}


def found_group(value: Group) -> replies.GroupSearchResult:
    return {
        "group": {"groupId": value.id, "name": value.name},
        "numMembers": len(value.members),
    }


def held(api: ApiContext, assignments: Iterable[Assignment]) -> replies.HeldRolesReply:
    """A role of master.yaml that is not there any more is left out: it grants nothing."""
    known = api.services.roles.roles
    found = summary(one.grant for one in assignments if one.grant.role_id in known)
    return {
        "roles": [role(known[id_]) for id_ in found],
        "assignments": [
            {
                "roleId": int(id_),
                "scopeCluster": in_cluster,
                "scopeWorkspaceIds": list(workspaces),
            }
            for id_, (in_cluster, workspaces) in found.items()
        ],
    }


def with_assignments(
    roles: Iterable[Role], assignments: Sequence[Assignment]
) -> list[replies.RoleWithAssignments]:
    return [_with_assignments(one, assignments) for one in roles]


def assigned_roles(
    api: ApiContext, assignments: Sequence[Assignment]
) -> list[replies.RoleWithAssignments]:
    """Each role that is among them, by id."""
    known = api.services.roles.roles
    ids = sorted({one.grant.role_id for one in assignments if one.grant.role_id in known})
    return with_assignments([known[id_] for id_ in ids], assignments)


def _with_assignments(
    value: Role, assignments: Sequence[Assignment]
) -> replies.RoleWithAssignments:
    shown = role(value)
    own = [one for one in assignments if one.grant.role_id == value.id]
    return {
        "role": shown,
        "userRoleAssignments": [
            {"userId": one.user_id, "roleAssignment": _assignment(shown, one)}
            for one in own
            if one.user_id is not None
        ],
        "groupRoleAssignments": [
            {"groupId": one.group_id, "roleAssignment": _assignment(shown, one)}
            for one in own
            if one.group_id is not None
        ],
    }


def _assignment(shown: replies.Role, one: Assignment) -> replies.RoleAssignment:
    workspace_id = one.grant.workspace_id
    return {
        "role": shown,
        "scopeWorkspaceId": workspace_id,
        "scopeCluster": workspace_id is None,
    }
