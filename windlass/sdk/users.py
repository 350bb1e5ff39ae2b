"""Users, their sessions and their access tokens: the calls, by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from windlass.sdk.wire import Json, hash_password

if TYPE_CHECKING:
    from windlass.sdk.session import Query, Session

Pages: TypeAlias = "Callable[[str, str, Query], Iterable[Json]]"
"""All rows of a list: its path, the key of the rows, and the query."""
_USERS, _TOKENS, _OURS = "/api/v1/users", "/api/v1/tokens", "/api/v1/windlass"


class Users:
    """Each answer is the user itself unless it says otherwise."""

    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages

    def edit(self, user_id: int, changes: Mapping[str, Any]) -> Json:
        """Keys: `username`, `displayName`, `admin`, `active`, `remote`, `agentUserGroup`. All or nothing is changed."""
        answer = self._session.request("PATCH", f"{_USERS}/{user_id}", body=dict(changes))
        return dict(answer["user"])

    def set_password(self, user_id: int, password: str) -> Json:
        """Other sessions of the user end."""
        return self.edit(user_id, {"password": hash_password(password), "isHashed": True})

    def set_active(self, user_ids: Sequence[int], active: bool) -> list[Json]:
        """{"id", "error"} of each; the error is empty if it was done."""
        body = {"activate": active, "userIds": list(user_ids)}
        return list(self._session.request("PATCH", _USERS, body=body)["results"])

    def sessions(self, user_id: int) -> list[Json]:
        """Where the user is logged in, the last login first."""
        query: Query = {"orderBy": "ORDER_BY_DESC"}
        return list(self._pages(f"{_OURS}/users/{user_id}/sessions", "sessions", query))

    def end_session(self, session_id: int) -> None:
        """Raises NotFound."""
        self._session.request("DELETE", f"{_OURS}/sessions/{session_id}")

    def end_sessions(self, user_id: int) -> int:
        """All but the one that asks; how many they were."""
        return int(self._session.request("DELETE", f"{_OURS}/users/{user_id}/sessions")["ended"])


class AccessTokens:
    """What programs log in with. Each answer is what is known of a token, unless it says otherwise."""

    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages

    def listed(
        self,
        username: str | None = None,
        *,
        token_ids: Sequence[int] | None = None,
        ended: bool = False,
    ) -> list[Json]:
        """One's own, by id; administrators see those of all. `ended`: with those that are revoked or have expired."""
        query: Query = {
            "username": username,
            "tokenIds": list(token_ids) if token_ids is not None else None,
            "showInactive": ended or None,
        }
        return list(self._pages(_TOKENS, "tokenInfo", query))

    def create(
        self, user_id: int, *, lifespan: str | None = None, description: str | None = None
    ) -> Json:
        """{"token", "tokenId"}. `lifespan`: such as "48h"; "-1" is the longest."""
        body = {"userId": user_id, "lifespan": lifespan, "description": description}
        return self._session.post(_TOKENS, body)

    def describe(self, token_id: int, description: str) -> Json:
        return self._edit(token_id, {"description": description})

    def revoke(self, token_id: int) -> Json:
        """For good."""
        return self._edit(token_id, {"setRevoked": True})

    def _edit(self, token_id: int, changes: Json) -> Json:
        body = {"tokenId": token_id, **changes}
        answer = self._session.request("PATCH", f"{_TOKENS}/{token_id}", body=body)
        return dict(answer["tokenInfo"])
