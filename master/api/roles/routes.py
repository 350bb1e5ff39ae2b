"""Roles: which there are, who holds them where, and giving and taking them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from master.api import request_models, targets
from master.api.access import Caller, Visible, require
from master.api.paging import pagination
from master.api.permits import OWN, SOME, VISIBLE, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, RowId, Text
from master.api.roles import wire
from master.api.roles.groups import MAX_LIMIT, Id, require_limit
from master.api.roles.replies import (
    HeldRolesReply,
    RolesReply,
    RolesWithAssignmentsReply,
    WorkspaceMembersReply,
)
from master.api.roles.sight import sees_all_roles, visible_assignments, visible_group
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.users.wire import user as user_json
from master.auth.actions import ANYWHERE, CLUSTER, Action, Target
from master.auth.permissions import allowed, denial
from master.auth.principal import Principal
from master.core.roles.access import Grant
from master.core.roles.catalogue import Role
from master.core.roles.groups import Assignment
from master.store.paging import Page, Paged, cut

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["roles"])

MAX_ASSIGNMENTS = 1_000
"""Of one call."""


class ListRoles(Body):
    offset: request_models.Int32 = 0
    limit: request_models.Int32 = 0
    """0: 500."""


class AssignableRoles(ListRoles):
    workspace_id: Id | None = None
    """None: to the cluster."""


class RolesById(Body):
    role_ids: Annotated[tuple[Id, ...], Field(max_length=MAX_LIMIT)] = ()


class RoleNamed(Body):
    role_id: Id


class RoleAssignmentFields(Body):
    role: RoleNamed
    scope_workspace_id: Id | None = None
    """None: the cluster."""
    scope_cluster: bool | None = None
    """Says nothing that the other field does not."""

    def grant(self) -> Grant:
        return Grant(self.role.role_id, self.scope_workspace_id)


class UserRole(Body):
    user_id: Id
    role_assignment: RoleAssignmentFields


class GroupRole(Body):
    group_id: Id
    role_assignment: RoleAssignmentFields


class Assignments(Body):
    user_role_assignments: Annotated[tuple[UserRole, ...], Field(max_length=MAX_ASSIGNMENTS)] = ()
    group_role_assignments: Annotated[tuple[GroupRole, ...], Field(max_length=MAX_ASSIGNMENTS)] = ()

    def all(self) -> Sequence[Assignment]:
        return [
            *(
                Assignment(one.role_assignment.grant(), user_id=one.user_id)
                for one in self.user_role_assignments
            ),
            *(
                Assignment(one.role_assignment.grant(), group_id=one.group_id)
                for one in self.group_role_assignments
            ),
        ]


class NamedMembers(request_models.Query):
    name: Text = ""
    """A part of the name of a user or a group."""


@router.get("/permissions/summary")
@permit(Action.VIEW_ROLES, OWN)
async def permissions_summary(by: Caller, api: TheApi) -> Reply[HeldRolesReply]:
    """The caller's own, by groups too."""
    return reply(wire.held(api, api.services.roles.of_user(by.user_id)))


@router.post("/roles/search")
@permit(Action.VIEW_ROLES, OWN)
async def list_roles(body: ListRoles, by: Caller, api: TheApi) -> Reply[RolesReply]:
    """By id: all, for who may assign them; else the caller's own."""
    page = _page(body, _known(api, by))
    return reply({"roles": [wire.role(one) for one in page.rows], "pagination": pagination(page)})


@router.post("/roles/search/by-ids")
@permit(Action.VIEW_ROLES, OWN)
async def roles_by_id(body: RolesById, by: Caller, api: TheApi) -> Reply[RolesWithAssignmentsReply]:
    found = [api.services.roles.role(id_) for id_ in dict.fromkeys(body.role_ids)]
    known = {role.id for role in _known(api, by)}
    if not known.issuperset(role.id for role in found):
        raise denial(by, Action.ASSIGN_ROLES)
    shown = visible_assignments(api, by, api.services.roles.assignments())
    return reply({"roles": wire.with_assignments(found, shown)})


@router.post("/roles/search/by-assignability")
@permit(Action.VIEW_ROLES, OWN)
async def assignable_roles(body: AssignableRoles, by: Caller, api: TheApi) -> Reply[RolesReply]:
    """All to the cluster; without those of the cluster alone, to a workspace."""
    found = sorted(api.services.roles.roles.values(), key=lambda role: role.id)
    if body.workspace_id:
        target = await targets.workspace_target(api, body.workspace_id)
        require(api, by, Action.VIEW_WORKSPACES, target)
        found = [role for role in found if not role.is_cluster_only]
    page = _page(body, found)
    return reply({"roles": [wire.role(one) for one in page.rows], "pagination": pagination(page)})


@router.get("/roles/search/by-user/{user_id}")
@permit(Action.VIEW_ROLES, OWN)
async def roles_of_user(
    user_id: RowId, by: Caller, api: TheApi
) -> Reply[RolesWithAssignmentsReply]:
    """The user's own, and those of the user's groups."""
    api.services.auth.user(user_id)
    if user_id != by.user_id and not allowed(by, Action.VIEW_ALL_GROUPS, ANYWHERE):
        raise denial(by, Action.ASSIGN_ROLES)
    held = visible_assignments(api, by, api.services.roles.of_user(user_id))
    return reply({"roles": wire.assigned_roles(api, held)})


@router.get("/roles/search/by-group/{group_id}")
@permit(Action.VIEW_ROLES, OWN)
async def roles_of_group(group_id: RowId, by: Caller, api: TheApi) -> Reply[HeldRolesReply]:
    visible_group(api, by, group_id)
    all_ = api.services.roles.assignments()
    held = [one for one in all_ if one.group_id == group_id]
    return reply(wire.held(api, visible_assignments(api, by, held)))


@router.get("/roles/workspace/{workspace_id}")
@permit(Action.VIEW_WORKSPACES, VISIBLE)
async def workspace_members(
    workspace_id: RowId,
    query: Annotated[NamedMembers, Query()],
    visible: Visible,
    api: TheApi,
) -> Reply[WorkspaceMembersReply]:
    """Whoever holds a role in just this workspace."""
    await api.reads.workspaces.workspace(workspace_id, visible)
    services, name = api.services, query.name.lower()
    held = services.roles.in_workspace(workspace_id)
    ids = sorted({one.user_id for one in held if one.user_id is not None})
    users = [services.auth.user(id_) for id_ in ids]
    users = [one for one in users if name in one.username or name in one.display_name.lower()]
    groups = [group for group in services.roles.groups() if name in group.name.lower()]
    groups = [one for one in groups if one.id in {assigned.group_id for assigned in held}]
    named = {*(one.id for one in users)}, {*(one.id for one in groups)}
    shown = [one for one in held if one.user_id in named[0] or one.group_id in named[1]]
    return reply(
        {
            "usersAssignedDirectly": [user_json(user) for user in users],
            "groups": [wire.group(api, group) for group in groups],
            "assignments": wire.assigned_roles(api, shown),
        }
    )


@router.post("/roles/add-assignments")
@permit(Action.ASSIGN_ROLES, SOME)
async def assign_roles(body: Assignments, by: Caller, api: TheApi) -> Reply[Empty]:
    """All of them or none."""
    asked = body.all()
    await _require(api, by, asked)
    await api.services.roles.assign(asked, by=by)
    return reply()


@router.post("/roles/remove-assignments")
@permit(Action.ASSIGN_ROLES, SOME)
async def remove_assignments(body: Assignments, by: Caller, api: TheApi) -> Reply[Empty]:
    """All of them or none."""
    asked = body.all()
    await _require(api, by, asked)
    await api.services.roles.remove(asked, by=by)
    return reply()


async def _require(api: ApiContext, by: Principal, asked: Sequence[Assignment]) -> None:
    """Raises NotFound for an unknown user or workspace, PermissionDenied."""
    for workspace_id in dict.fromkeys(one.grant.workspace_id for one in asked):
        target = CLUSTER
        if workspace_id is not None:
            target = await targets.workspace_target(api, workspace_id)
        require(api, by, Action.ASSIGN_ROLES, _without_owner(target))
    for one in asked:
        if one.user_id is not None:
            api.services.auth.user(one.user_id)


def _without_owner(target: Target) -> Target:
    return Target(kind=target.kind, id=target.id, workspace_id=target.workspace_id)


def _known(api: ApiContext, by: Principal) -> Sequence[Role]:
    """By id."""
    roles = api.services.roles.roles
    ids = set(roles)
    if not sees_all_roles(by):
        ids &= {one.grant.role_id for one in api.services.roles.of_user(by.user_id)}
    return [roles[id_] for id_ in sorted(ids)]


def _page(body: ListRoles, roles: Sequence[Role]) -> Paged[Role]:
    require_limit(body.limit, least=0)
    return cut(roles, Page(offset=body.offset, limit=body.limit or MAX_LIMIT))
