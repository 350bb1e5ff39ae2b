"""How users may be named and changed. Pure: users in, users out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from agent_bootstrap.container_options import OsUser
from master.auth.users import ADMIN, DETERMINED, User
from windlass.base.errors import Conflict, InvalidArgument, InvalidState
from windlass.base.password_rules import missing_in_password

T = TypeVar("T")
MIN_NAME = 2
MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class AgentUserLink:
    """Whom the tasks of a user run as. None: as the cluster's default says."""

    user: OsUser | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPatch:
    """None leaves a field as it is."""

    username: str | None = None
    display_name: str | None = None
    admin: bool | None = None
    active: bool | None = None
    remote: bool | None = None
    link: AgentUserLink | None = None
    password_hash: str | None = None
    """As it is stored."""

    @property
    def is_for_admins(self) -> bool:
        """Password and display name are one's own affair."""
        given = (self.username, self.admin, self.active, self.remote, self.link)
        return any(value is not None for value in given)


def patched(user: User, patch: UserPatch, everybody: Iterable[User]) -> User:
    """The user after it. `everybody`: with or without `user`.

    Raises InvalidArgument, Conflict (the name is taken), InvalidState (nobody could administrate any more).
    """
    others = (
        [other for other in everybody if other.id != user.id] if _asks_others(user, patch) else []
    )
    after = replace(
        user,
        admin=_or(patch.admin, user.admin),
        active=_or(patch.active, user.active),
        remote=_or(patch.remote, user.remote),
        agent_user_group=patch.link.user if patch.link is not None else user.agent_user_group,
        password_hash=_or(patch.password_hash, user.password_hash),
    )
    if after.remote and (patch.username is not None or patch.password_hash is not None):
        what = "username" if patch.username is not None else "password"
        raise InvalidArgument(
            f"{what}: {user.username} is a remote user, whose name and password are not set here: "
            "send remote: false with it"
        )
    if patch.username is not None:
        after = replace(after, username=_new_name(user, patch.username, others))
    if patch.display_name is not None:
        require_display_name(
            patch.display_name, username=after.username, admin=after.admin, others=others
        )
        after = replace(after, display_name=patch.display_name.strip())
    if _administrates(user) and not _administrates(after) and not any(map(_administrates, others)):
        raise InvalidState(
            f"{user.username} is the last active administrator with a password: make another one first"
        )
    return after


def require_display_name(
    display_name: str, *, username: str, admin: bool, others: Iterable[User]
) -> None:
    """Nobody may look like another user; an administrator may be called Admin. Raises InvalidArgument."""
    shown = _shown(display_name)
    if not shown:
        return
    if len(display_name) > MAX_NAME or not display_name.strip().isprintable():
        raise InvalidArgument(
            f"display_name: must be printable and have at most {MAX_NAME} characters"
        )
    if shown == ADMIN and (admin or username == ADMIN):
        return
    first_users = {ADMIN, DETERMINED} - {username}
    if shown in first_users or any(
        shown in (other.username, _shown(other.display_name)) for other in others
    ):
        raise InvalidArgument(
            f'display_name: "{display_name}" is the name of another user: choose a name that cannot be taken for it'
        )


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


def require_password(password: str) -> None:
    """One in plain text: of a hash nobody can tell. Raises InvalidArgument."""
    if password and (missing := missing_in_password(password)):
        raise InvalidArgument(f"password: needs {', '.join(missing)}")


def _asks_others(user: User, patch: UserPatch) -> bool:
    """Else nobody is looked at: thousands may be deactivated at once."""
    named = patch.username is not None or patch.display_name is not None
    return named or _administrates(user)


def _new_name(user: User, given: str, others: Iterable[User]) -> str:
    name = normalise_username(given)
    if name == user.username:
        return name
    if user.username in (ADMIN, DETERMINED):
        # At its next start the master would make another one of this name.
        raise InvalidArgument(
            f"username: {user.username} is one of the first two users, which keep their names: create another user"
        )
    if any(other.username == name for other in others):
        raise Conflict(f"user already exists: {name}")
    return name


def _administrates(user: User) -> bool:
    return user.admin and user.active and not user.remote


def _shown(name: str) -> str:
    """By which two names look the same."""
    return unicodedata.normalize("NFKC", name).strip().casefold()


def _or(given: T | None, present: T) -> T:
    return present if given is None else given
