"""One-time codes by which somebody who is logged in gets a browser, or another origin of this one, logged in.

They live in memory, by their hashes, for a minute: a master that restarts knows none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from windlass.base.clock import Clock
from windlass.base.errors import Conflict, Unauthenticated
from windlass.base.ids import Ids, token_hash

VALID = timedelta(seconds=60)
MAX_WAITING = 20
"""Codes of one session that were not used yet."""


@dataclass(frozen=True, slots=True)
class IssuedCode:
    user_id: int
    session_id: int
    expires_at: datetime
    token: str = field(default="", repr=False)
    """Of the session, where that itself is handed on."""


class LoginCodes:
    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._waiting: dict[str, IssuedCode] = {}

    def issue(self, user_id: int, session_id: int, token: str = "") -> tuple[str, datetime]:
        """The code, and when it expires. Raises Conflict if too many of this session wait to be used."""
        now = self._clock.now()
        self._waiting = {key: one for key, one in self._waiting.items() if one.expires_at > now}
        own = sum(one.session_id == session_id for one in self._waiting.values())
        if own >= MAX_WAITING:
            seconds = int(VALID.total_seconds())
            raise Conflict(f"{own} codes of this session were not used yet: wait {seconds} s")
        code = self._ids.token()
        issued = IssuedCode(user_id, session_id, now + VALID, token)
        self._waiting[token_hash(code)] = issued
        return code, issued.expires_at

    def redeem(self, code: str, *, in_place_of: int | None = None) -> IssuedCode:
        """`in_place_of`: the user whom the browser is logged in as.

        Raises Unauthenticated for a code that was used, has expired, or never was one; Conflict for one of another
        user: a link must not make somebody work as another without noticing.
        """
        key = token_hash(code)
        issued = self._waiting.get(key)
        if issued is None or issued.expires_at <= self._clock.now():
            raise Unauthenticated(
                "the code in this address was used or has expired: run `det web` again, or log in"
            )
        if in_place_of not in (None, issued.user_id):
            raise Conflict(
                "this browser is logged in as another user: log out, then run `det web` again"
            )
        del self._waiting[key]
        return issued
