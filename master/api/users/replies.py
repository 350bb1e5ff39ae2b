"""Users, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.paging import Pagination
from master.api.values import Timestamp
from windlass.base.json_types import JsonObject


class User(TypedDict):
    id: int
    username: str
    displayName: str
    admin: bool
    active: bool
    remote: bool
    agentUserGroup: JsonObject | None
    lastAuthAt: Timestamp | None
    modifiedAt: Timestamp


class UserReply(TypedDict):
    user: User


class UsersReply(TypedDict):
    users: list[User]
    pagination: Pagination
