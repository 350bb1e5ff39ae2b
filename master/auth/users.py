"""Users as the master holds them in memory, and the rules for their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from master.store import tables
from windlass.base.errors import InvalidArgument
from windlass.base.json_types import JsonObject

ADMIN = "admin"
DETERMINED = "determined"
MIN_NAME = 2
MAX_NAME = 255


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
    agent_user_group: JsonObject | None = None
    created_at: datetime
    modified_at: datetime
    last_auth_at: datetime | None = None


def user_from_row(row: tables.User) -> User:
    return User(**dict(row))


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
