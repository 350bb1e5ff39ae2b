"""Users as the master holds them in memory, and the rules for their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agent_bootstrap.container_options import OsUser
from master.store import tables
from windlass.base.errors import InvalidArgument

ADMIN = "admin"
DETERMINED = "determined"
MIN_NAME = 2
MAX_NAME = 255


def require_display_name(display_name: str, *, username: str, admin: bool) -> None:
    """Nobody may look like one of the first two users. Raises InvalidArgument."""
    shown = display_name.strip().lower()
    is_admin = admin or username == ADMIN
    if (shown == ADMIN and not is_admin) or (shown == DETERMINED and username != DETERMINED):
        raise InvalidArgument(
            f'display_name: "{display_name}" is the name of another user: choose a name that cannot be taken for it'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    id: int
    username: str
    display_name: str = ""
    password_hash: str = field(default="", repr=False)
    """argon2; empty: the empty password."""
    admin: bool = False
    active: bool = True
    remote: bool = False
    agent_user_group: OsUser | None = None
    """Whom the user's tasks run as on the agents' machines. None: the cluster's default."""
    created_at: datetime
    modified_at: datetime
    last_auth_at: datetime | None = None


def user_from_row(row: tables.User) -> User:
    linked = row.agent_user_group
    fields = {**dict(row), "agent_user_group": linked and OsUser.model_validate(linked)}
    return User(**fields)


def row_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """As the table has them."""
    linked = fields.get("agent_user_group")
    if not isinstance(linked, OsUser):
        return dict(fields)
    return {**fields, "agent_user_group": linked.model_dump()}


def normalise_username(username: str) -> str:
    """Names are the same in any case. Raises InvalidArgument for one that is too short, long or odd."""
    name = username.strip().lower()
    if not MIN_NAME <= len(name) <= MAX_NAME:
        raise InvalidArgument(
            f'username: "{name[:64]}" must have {MIN_NAME} to {MAX_NAME} characters'
        )
    if not (name.isascii() and name.isprintable()):
        raise InvalidArgument(f"username: {name!r} must be printable ASCII")
    return name
