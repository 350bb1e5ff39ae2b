"""Users."""

from __future__ import annotations

from master.api.users.replies import User
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
        "agentUserGroup": value.agent_user_group,
        "lastAuthAt": time(value.last_auth_at),
        "modifiedAt": time(value.modified_at),
    }
