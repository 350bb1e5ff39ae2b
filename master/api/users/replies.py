"""Users, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.enums import TokenType
from master.api.paging import Pagination
from master.api.values import Timestamp
from master.api.workspaces.replies import Project


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


class UserActionResult(TypedDict):
    id: int
    error: str
    """Empty: it is done."""


class UserActionsReply(TypedDict):
    results: list[UserActionResult]


class UserWebSetting(TypedDict):
    key: str
    storagePath: str
    value: str | None


class SettingsReply(TypedDict):
    settings: list[UserWebSetting]


class RecentProjectsReply(TypedDict):
    projects: list[Project]


class Session(TypedDict):
    id: int
    userId: int
    createdAt: Timestamp
    expiresAt: Timestamp
    lastUsedAt: Timestamp | None
    """Since the master started."""
    address: str
    """Where the login came from; empty: not known."""
    current: bool
    """Whether it is the one that asks."""


class SessionsReply(TypedDict):
    sessions: list[Session]
    pagination: Pagination


class EndedSessionsReply(TypedDict):
    ended: int


class TokenInfo(TypedDict):
    id: int
    userId: int
    username: str
    createdAt: Timestamp
    createdBy: int
    """The user who made it."""
    expiry: Timestamp
    description: str
    revoked: bool
    revokedAt: Timestamp | None
    tokenType: TokenType


class AccessTokenReply(TypedDict):
    tokenInfo: TokenInfo


class AccessTokensReply(TypedDict):
    tokenInfo: list[TokenInfo]
    pagination: Pagination


class NewAccessTokenReply(TypedDict):
    token: str
    tokenId: int
