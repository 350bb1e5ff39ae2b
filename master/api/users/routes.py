"""Users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi import Body as JsonBody
from pydantic import BeforeValidator, Field

from agent_bootstrap.container_options import OsId, OsName, OsUser
from master.api.access import Caller, require, require_password_login
from master.api.paging import pagination
from master.api.permits import CLUSTER, permit, user
from master.api.replies import Reply, reply
from master.api.request_models import Body, Int32, Paging, RowId, Text, Word, empty_is_unset
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.users.replies import UserActionsReply, UserReply, UsersReply
from master.api.users.wire import user as user_json
from master.auth.actions import Action
from master.auth.principal import Principal
from master.auth.user_rules import AgentUserLink, UserPatch
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
    users = [
        user for user in _found(api, query.name, query.admin) if query.active in (None, user.active)
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
    auth = api.services.auth
    changes = UserPatch(
        username=body.username,
        display_name=body.display_name,
        admin=body.admin,
        active=body.active,
        remote=body.remote,
        link=AgentUserLink(link.linked()) if (link := body.agent_user_group) else None,
    )
    if user_id != principal.user_id or changes.is_for_admins:
        require(api, principal, Action.ADMINISTRATE_USERS)
    if principal.user_id == user_id and (body.active is False or body.admin is False):
        raise InvalidArgument("admins cannot deactivate or demote themselves: ask another admin")
    if body.password is not None:
        return await _with_password(
            api, user_id, changes, body.password, is_hashed=body.is_hashed, by=principal
        )
    changed = await auth.patch(user_id, changes, by=principal)
    return reply({"user": user_json(changed)})


@router.post("/api/v1/users/{user_id}/password")
@permit(Action.UPDATE_USER, user("user_id"))
async def set_password(
    user_id: RowId, password: Annotated[Text, JsonBody()], principal: Caller, api: TheApi
) -> Reply[UserReply]:
    """The body is the password itself."""
    return await _with_password(api, user_id, UserPatch(), password, is_hashed=False, by=principal)


async def _with_password(
    api: ApiContext,
    user_id: int,
    changes: UserPatch,
    password: str,
    *,
    is_hashed: bool,
    by: Principal,
) -> Reply[UserReply]:
    """Other sessions of the user end."""
    if user_id == by.user_id:
        require_password_login(by, "change the password of its user")
    auth = api.services.auth
    hashed = await auth.password_hash(password, is_hashed=is_hashed)
    with_it = replace(changes, password_hash=hashed)
    changed = await auth.patch(user_id, with_it, by=by, keep=by.session_id)
    return reply({"user": user_json(changed)})


class UserFilters(Body):
    name: str = ""
    admin: bool | None = None


class PatchUsers(Body):
    activate: bool = False
    user_ids: tuple[Int32, ...] = ()
    filters: UserFilters | None = None
    """Instead of the ids: all whom it finds."""


@router.patch("/api/v1/users")
@permit(Action.ADMINISTRATE_USERS, CLUSTER)
async def patch_many(body: PatchUsers, principal: Caller, api: TheApi) -> Reply[UserActionsReply]:
    """Activate or deactivate; each has its own result."""
    ids = body.user_ids
    if (where := body.filters) is not None:
        ids = tuple(found.id for found in _found(api, where.name, where.admin))
    errors = await api.services.auth.set_active(ids, body.activate, by=principal)
    return reply({"results": [{"id": id_, "error": errors.get(id_, "")} for id_ in ids]})


def _found(api: ApiContext, name: str, admin: bool | None) -> Sequence[UserRecord]:
    """By id. `name`: a part of it, or of the display name."""
    part = name.lower()
    return [
        user
        for user in api.services.auth.users()
        if (part in user.username or part in user.display_name.lower())
        and admin in (None, user.admin)
    ]
