"""Sessions of users, in memory: by the hash of their token, and those of a user in the order of their last use.

With DET_USER and DET_PASS the published client logs in for each command, and never logs out: a user may have only so
many sessions, and those that were not used for longest end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

MAX_SESSIONS = 10_000
"""Of one user: a command each second for almost three hours. A client that is used now and then stays."""
ENDED_AT_ONCE = 100
"""By one login, if an earlier release left more."""


@dataclass(frozen=True, slots=True)
class LoginSession:
    id: int
    user_id: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SessionUse:
    """A session with when its token was shown last, as far as this process saw it."""

    session: LoginSession
    used_at: datetime | None


class Sessions:
    """Which was used when is not stored: after a restart the oldest counts as used longest ago."""

    def __init__(self) -> None:
        self._all: dict[str, LoginSession] = {}
        self._of_user: dict[int, OrderedDict[str, datetime | None]] = {}
        self._hash_of: dict[int, str] = {}

    def add(self, hashed: str, session: LoginSession) -> None:
        self._all[hashed] = session
        self._of_user.setdefault(session.user_id, OrderedDict())[hashed] = None
        self._hash_of[session.id] = hashed

    def get(self, hashed: str) -> LoginSession | None:
        return self._all.get(hashed)

    def use(self, hashed: str, now: datetime) -> LoginSession | None:
        """The session of a token, if it has not expired."""
        session = self._all.get(hashed)
        if session is None or session.expires_at <= now:
            return None
        own = self._of_user[session.user_id]
        own[hashed] = now
        own.move_to_end(hashed)
        return session

    def by_id(self, session_id: int) -> SessionUse | None:
        hashed = self._hash_of.get(session_id)
        if hashed is None:
            return None
        session = self._all[hashed]
        return SessionUse(session, self._of_user[session.user_id][hashed])

    def token_hash(self, session_id: int) -> str:
        return self._hash_of[session_id]

    def remove(self, hashed: str) -> None:
        session = self._all.pop(hashed, None)
        if session is not None:
            self._of_user[session.user_id].pop(hashed)
            del self._hash_of[session.id]

    def of_user(self, user_id: int, *, but: int | None = None) -> Sequence[str]:
        """Hashes of their tokens. `but`: without the session of this id."""
        kept = self._hash_of.get(but) if but is not None else None
        return tuple(hashed for hashed in self._of_user.get(user_id, ()) if hashed != kept)

    def expired(self, now: datetime) -> Iterable[str]:
        return [hashed for hashed, session in self._all.items() if session.expires_at <= now]

    def surplus(self, user_id: int) -> Sequence[str]:
        """Which end so that the user may have one more: those not used for longest."""
        own = self._of_user.get(user_id, OrderedDict())
        return tuple(islice(own, max(0, min(len(own) + 1 - MAX_SESSIONS, ENDED_AT_ONCE))))
