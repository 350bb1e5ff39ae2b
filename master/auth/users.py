"""Users as the master holds them in memory. `user_rules` says how they may change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agent_bootstrap.container_options import OsUser
from master.store import tables
from windlass.base.errors import NotFound

ADMIN = "admin"
DETERMINED = "determined"


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
    """Logs in with access tokens only."""
    agent_user_group: OsUser | None = None
    """Whom the user's tasks run as on the agents' machines. None: the cluster's default."""
    created_at: datetime
    modified_at: datetime
    last_auth_at: datetime | None = None


class UserDirectory:
    """Every user, by id and by name."""

    def __init__(self, users: Iterable[User] = ()) -> None:
        self._users = {user.id: user for user in users}
        self._ids = {user.username: user.id for user in self._users.values()}

    def all(self) -> Sequence[User]:
        """By id."""
        return sorted(self._users.values(), key=lambda user: user.id)

    def find(self, user_id: int) -> User | None:
        return self._users.get(user_id)

    def get(self, user_id: int) -> User:
        """Raises NotFound."""
        if (user := self._users.get(user_id)) is None:
            raise NotFound("user", user_id)
        return user

    def by_name(self, name: str) -> User | None:
        id_ = self._ids.get(name)
        return self._users[id_] if id_ is not None else None

    def put(self, user: User) -> None:
        """A new one, or one that has changed."""
        before = self._users.get(user.id)
        if before is not None:
            del self._ids[before.username]
        self._users[user.id] = user
        self._ids[user.username] = user.id


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


def fields_of(user: User) -> dict[str, Any]:
    return {key: getattr(user, key) for key in User.__slots__}
