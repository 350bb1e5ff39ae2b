"""Groups of users: search, create, look, change, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from master.api.access import Caller
from master.api.paging import pagination
from master.api.permits import CLUSTER, OWN, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, RowId, Text
from master.api.roles import wire
from master.api.roles.replies import GroupReply, GroupsReply
from master.api.roles.sight import sees_group, visible_group
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.auth.actions import Action
from master.store.paging import Page, cut
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1", route_class=ApiRoute, tags=["groups"])

MAX_LIMIT = 500
"""Groups or roles of one answer."""
MAX_USERS = 10_000
"""Of one call."""
Id = Annotated[Int32, Field(ge=0)]
Ids = Annotated[tuple[Id, ...], Field(max_length=MAX_USERS)]


class GetGroups(Body):
    name: Text = ""
    """The whole name."""
    user_id: Id | None = None
    offset: Int32 = 0
    limit: Int32 = 0


class CreateGroup(Body):
    name: Text = ""
    add_users: Ids = ()


class UpdateGroup(Body):
    name: Text = ""
    """Empty: it stays."""
    add_users: Ids = ()
    remove_users: Ids = ()


class AssignMultipleGroups(Body):
    user_ids: Ids = ()
    add_groups: Ids = ()
    remove_groups: Ids = ()


def require_limit(limit: int, *, least: int) -> None:
    """Raises InvalidArgument."""
    if not least <= limit <= MAX_LIMIT:
        raise InvalidArgument(f"limit: must be from {least} to {MAX_LIMIT}, but is {limit}")


@router.post("/groups/search")
@permit(Action.VIEW_GROUPS, OWN)
async def search_groups(body: GetGroups, by: Caller, api: TheApi) -> Reply[GroupsReply]:
    """By id: all groups, or those that the caller is in."""
    require_limit(body.limit, least=1)
    found = [
        group
        for group in api.services.roles.groups()
        if body.name in ("", group.name)
        and (body.user_id is None or body.user_id in group.members)
        and sees_group(by, group)
    ]
    page = cut(found, Page(offset=body.offset, limit=body.limit))
    groups = [wire.found_group(group) for group in page.rows]
    return reply({"groups": groups, "pagination": pagination(page)})


@router.post("/groups")
@permit(Action.UPDATE_GROUPS, CLUSTER)
async def create_group(body: CreateGroup, by: Caller, api: TheApi) -> Reply[GroupReply]:
    _require_users(api, body.add_users)
    group = await api.services.roles.create_group(body.name, body.add_users, by=by)
    return reply({"group": wire.group(api, group)})


@router.get("/groups/{group_id}")
@permit(Action.VIEW_GROUPS, OWN)
async def get_group(group_id: RowId, by: Caller, api: TheApi) -> Reply[GroupReply]:
    return reply({"group": wire.group(api, visible_group(api, by, group_id))})


@router.put("/groups/{group_id}")
@permit(Action.UPDATE_GROUPS, CLUSTER)
async def update_group(
    group_id: RowId, body: UpdateGroup, by: Caller, api: TheApi
) -> Reply[GroupReply]:
    _require_users(api, body.add_users)
    group = await api.services.roles.update_group(
        group_id, name=body.name or None, add=body.add_users, remove=body.remove_users, by=by
    )
    return reply({"group": wire.group(api, group)})


@router.delete("/groups/{group_id}")
@permit(Action.UPDATE_GROUPS, CLUSTER)
async def delete_group(group_id: RowId, by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.roles.delete_group(group_id, by=by)
    return reply()


@router.patch("/users/assignments")
@permit(Action.UPDATE_GROUPS, CLUSTER)
async def assign_multiple_groups(
    body: AssignMultipleGroups, by: Caller, api: TheApi
) -> Reply[Empty]:
    """Each of these users joins and leaves each of these groups; who is a member already stays one."""
    if both := sorted(set(body.add_groups) & set(body.remove_groups)):
        raise InvalidArgument(f"addGroups, removeGroups: group {both[0]} is in both")
    if len(body.user_ids) * (len(body.add_groups) + len(body.remove_groups)) > MAX_USERS:
        raise InvalidArgument(f"userIds: more than {MAX_USERS} memberships in one call")
    _require_users(api, body.user_ids)
    await api.services.roles.change_memberships(
        add=[(group, user) for group in body.add_groups for user in body.user_ids],
        remove=[(group, user) for group in body.remove_groups for user in body.user_ids],
        by=by,
    )
    return reply()


def _require_users(api: ApiContext, ids: tuple[int, ...]) -> None:
    """Raises NotFound."""
    for id_ in ids:
        api.services.auth.user(id_)
