"""Users."""

from __future__ import annotations

from agent_bootstrap.container_options import OsUser
from master.api.users.replies import AgentUserGroup, User
from master.api.values import time
from master.auth import users


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
