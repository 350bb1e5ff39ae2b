"""Groups and roles, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.enums import PermissionType
from master.api.paging import Pagination
from master.api.users.replies import User


class ScopeTypeMask(TypedDict):
    cluster: bool
    workspace: bool


class Permission(TypedDict):
    id: PermissionType
    name: str
    scopeTypeMask: ScopeTypeMask


class Role(TypedDict):
    roleId: int
    name: str
    permissions: list[Permission]
    scopeTypeMask: ScopeTypeMask


class RoleAssignment(TypedDict):
    role: Role
    scopeWorkspaceId: int | None
    scopeCluster: bool


class RoleAssignmentSummary(TypedDict):
    roleId: int
    scopeWorkspaceIds: list[int]
    scopeCluster: bool


class UserRoleAssignment(TypedDict):
    userId: int
    roleAssignment: RoleAssignment


class GroupRoleAssignment(TypedDict):
    groupId: int
    roleAssignment: RoleAssignment


class RoleWithAssignments(TypedDict):
    role: Role
    userRoleAssignments: list[UserRoleAssignment]
    groupRoleAssignments: list[GroupRoleAssignment]


class Group(TypedDict):
    groupId: int
    name: str


class GroupDetails(TypedDict):
    groupId: int
    name: str
    users: list[User]


class GroupSearchResult(TypedDict):
    group: Group
    numMembers: int


class GroupReply(TypedDict):
    group: GroupDetails


class GroupsReply(TypedDict):
    groups: list[GroupSearchResult]
    pagination: Pagination


class RolesReply(TypedDict):
    roles: list[Role]
    pagination: Pagination


class RolesWithAssignmentsReply(TypedDict):
    roles: list[RoleWithAssignments]


class HeldRolesReply(TypedDict):
    """Both lists are in the same order, and have each role once."""

    roles: list[Role]
    assignments: list[RoleAssignmentSummary]


class WorkspaceMembersReply(TypedDict):
    groups: list[GroupDetails]
    usersAssignedDirectly: list[User]
    assignments: list[RoleWithAssignments]
