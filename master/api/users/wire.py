"""Users, their sessions and access tokens."""

from __future__ import annotations

from datetime import datetime

from agent_bootstrap.container_options import OsUser
from master.api.enums import TokenType
from master.api.users.replies import AgentUserGroup, Session, TokenInfo, User
from master.api.values import time
from master.auth import users
from master.auth.login_queries import TokenRow
from master.store import tables


def user(value: users.User) -> User:
    return {
        "id": value.id,
        "username": value.username,
        "displayName": value.display_name,
        "admin": value.admin,
        "active": value.active,
        "remote": value.remote,
        "agentUserGroup": agent_user_group(value.agent_user_group),
        "lastAuthAt": time(value.last_auth_at),
        "modifiedAt": time(value.modified_at),
    }


def agent_user_group(value: OsUser | None) -> AgentUserGroup | None:
    if value is None:
        return None
    return {
        "agentUid": value.uid,
        "agentUser": value.user,
        "agentGid": value.gid,
        "agentGroup": value.group,
    }


def session(row: tables.UserSession, *, used_at: datetime | None, current: int | None) -> Session:
    return {
        "id": row.id,
        "userId": row.user_id,
        "createdAt": time(row.created_at),
        "expiresAt": time(row.expires_at),
        "lastUsedAt": time(used_at),
        "address": row.address,
        "current": row.id == current,
    }


def token_info(row: TokenRow) -> TokenInfo:
    token = row.token
    return {
        "id": token.id,
        "userId": token.user_id,
        "username": row.username,
        "createdAt": time(token.created_at),
        "createdBy": token.created_by,
        "expiry": time(token.expires_at),
        "description": token.description,
        "revoked": token.revoked_at is not None,
        "revokedAt": time(token.revoked_at),
        "tokenType": TokenType.ACCESS_TOKEN,
    }
