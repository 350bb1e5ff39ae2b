"""Users."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field

from agent_bootstrap.container_options import OsId, OsName, OsUser
from master.api.access import Caller, require
from master.api.errors import Unimplemented
from master.api.paging import pagination
from master.api.permits import CLUSTER, permit, user
from master.api.replies import Reply, reply
from master.api.request_models import Body, Paging, RowId, Text, Word, empty_is_unset
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.users.replies import UserReply, UsersReply
from master.api.users.wire import user as user_json
from master.auth.permissions import Action
from master.auth.principal import Principal
from master.auth.users import User as UserRecord
from master.store.paging import cut
from windlass.base.errors import InvalidArgument

router = APIRouter(route_class=ApiRoute, tags=["users"])

_NEVER = datetime.min.replace(tzinfo=UTC)
_KEYS: dict[str, Callable[[UserRecord], Any]] = {
    "": lambda user: user.id,
    "DISPLAY_NAME": lambda user: user.display_name.lower(),
    "USER_NAME": lambda user: user.username,
    "NAME": lambda user: (user.display_name or user.username).lower(),
    "ADMIN": lambda user: user.admin,
    "ACTIVE": lambda user: user.active,
    "REMOTE": lambda user: user.remote,
    "MODIFIED_TIME": lambda user: user.modified_at,
    "LAST_AUTH_TIME": lambda user: user.last_auth_at or _NEVER,
}


class ListUsers(Paging):
    name: str = ""
    active: bool | None = None
    admin: bool | None = None
    sort_by: Annotated[str, Word("SORT_BY_", tuple(key for key in _KEYS if key))] = ""


@router.get("/api/v1/users")
@permit(Action.VIEW_USERS, CLUSTER)
async def list_users(query: Annotated[ListUsers, Query()], api: TheApi) -> Reply[UsersReply]:
    name = query.name.lower()
    users = [
        user
        for user in api.services.auth.users()
        if (name in user.username or name in user.display_name.lower())
        and query.active in (None, user.active)
        and query.admin in (None, user.admin)
    ]
    key = _KEYS[query.sort_by]
    users.sort(key=lambda user: (key(user), user.id), reverse=query.order_by == "DESC")
    page = cut(users, query.page())
    return reply({"users": [user_json(u) for u in page.rows], "pagination": pagination(page)})


class AgentUserGroupFields(Body):
    """All of it, or nothing, which ends the link."""

    agent_uid: OsId | None = None
    agent_user: Annotated[OsName | None, BeforeValidator(empty_is_unset)] = None
    agent_gid: OsId | None = None
    agent_group: Annotated[OsName | None, BeforeValidator(empty_is_unset)] = None

    def linked(self) -> OsUser | None:
        uid, user, gid, group = self.agent_uid, self.agent_user, self.agent_gid, self.agent_group
        if uid is None and user is None and gid is None and group is None:
            return None
        if uid is None or user is None or gid is None or group is None:
            raise InvalidArgument(
                "agentUserGroup: give agentUid, agentUser, agentGid and agentGroup, or none of them"
            )
        return OsUser(uid=uid, gid=gid, user=user, group=group)


class UserFields(Body):
    username: Text = ""
    display_name: Text = ""
    admin: bool = False
    active: bool = False
    remote: bool = False
    agent_user_group: AgentUserGroupFields | None = None


class PostUser(Body):
    user: UserFields = Field(default_factory=UserFields)
    password: str = ""
    is_hashed: bool = False


@router.post("/api/v1/users")
@permit(Action.ADMINISTRATE_USERS, CLUSTER)
async def create(body: PostUser, principal: Caller, api: TheApi) -> Reply[UserReply]:
    fields = body.user
    user = await api.services.auth.create_user(
        fields.username,
        password=body.password,
        is_hashed=body.is_hashed,
        admin=fields.admin,
        active=fields.active,
        remote=fields.remote,
        display_name=fields.display_name,
        agent_user_group=link.linked() if (link := fields.agent_user_group) else None,
        by=principal,
    )
    return reply({"user": user_json(user)})


@router.get("/api/v1/users/{user_id}")
@permit(Action.VIEW_USERS, CLUSTER)
async def get(user_id: RowId, api: TheApi) -> Reply[UserReply]:
    return reply({"user": user_json(api.services.auth.user(user_id))})


@router.get("/api/v1/users/{username}/by-username")
@permit(Action.VIEW_USERS, CLUSTER)
async def get_by_name(username: str, api: TheApi) -> Reply[UserReply]:
    return reply({"user": user_json(api.services.auth.user_by_name(username))})


class PatchUser(Body):
    username: Text | None = None
    display_name: Text | None = None
    password: str | None = None
    is_hashed: bool = False
    admin: bool | None = None
    active: bool | None = None
    remote: bool | None = None
    agent_user_group: AgentUserGroupFields | None = None


@router.patch("/api/v1/users/{user_id}")
@permit(Action.UPDATE_USER, user("user_id"))
async def patch(
    user_id: RowId, body: PatchUser, principal: Caller, api: TheApi
) -> Reply[UserReply]:
    """Password and display name are one's own affair, the rest is an admin's."""
    for_admins = (body.username, body.admin, body.active, body.remote, body.agent_user_group)
    others = user_id != principal.user_id or any(value is not None for value in for_admins)
    if others:
        require(api, principal, Action.ADMINISTRATE_USERS)
    if body.username is not None or body.remote is not None:
        raise Unimplemented("username and remote of a user cannot be changed yet")
    if principal.user_id == user_id and (body.active is False or body.admin is False):
        raise InvalidArgument("admins cannot deactivate or demote themselves: ask another admin")
    return reply({"user": user_json(await _patched(api, user_id, body, principal))})


async def _patched(api: ApiContext, user_id: int, body: PatchUser, by: Principal) -> UserRecord:
    auth = api.services.auth
    user = auth.user(user_id)
    if body.display_name is not None:
        user = await auth.set_display_name(user_id, body.display_name, by=by)
    if body.agent_user_group is not None:
        user = await auth.link_agent_user(user_id, body.agent_user_group.linked(), by=by)
    if body.admin is not None:
        user = await auth.set_admin(user_id, body.admin, by=by)
    if body.active is not None:
        user = await auth.set_active(user_id, body.active, by=by)
    if body.password is not None:
        user = await auth.change_password(user_id, body.password, is_hashed=body.is_hashed, by=by)
    return user
