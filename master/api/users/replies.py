"""Users, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.paging import Pagination
from master.api.values import Timestamp


class AgentUserGroup(TypedDict):
    agentUid: int
    agentUser: str
    agentGid: int
    agentGroup: str


class User(TypedDict):
    id: int
    username: str
    displayName: str
    admin: bool
    active: bool
    remote: bool
    agentUserGroup: AgentUserGroup | None
    lastAuthAt: Timestamp | None
    modifiedAt: Timestamp


class UserReply(TypedDict):
    user: User


class UsersReply(TypedDict):
    users: list[User]
    pagination: Pagination
