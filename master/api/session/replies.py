"""What a login gives."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.users.replies import User


class LoginReply(TypedDict):
    token: str
    user: User
