"""Lists of sessions and of access tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Select, select

from master.store import tables
from master.store.paging import Page, Paged, Sorts, read_page
from master.store.store import Store
from windlass.base.errors import NotFound

_S, _T, _U = tables.UserSession, tables.AccessToken, tables.User
_SESSION_SORTS: Sorts = {"id": _S.id}
_TOKEN_SORTS: Sorts = {
    "id": _T.id,
    "user_id": _T.user_id,
    "expiry": _T.expires_at,
    "created_at": _T.created_at,
    "token_type": _T.id,
    "revoked": _T.revoked_at.is_not(None),
    "description": _T.description,
}


class TokenRow(NamedTuple):
    token: tables.AccessToken
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFilter:
    """All given conditions must hold."""

    reader: int | None
    """Only of this user. None: of anybody."""
    username: str = ""
    ids: tuple[int, ...] = ()
    ended: bool = False
    """Also those that were revoked or have expired."""


class LoginQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def sessions(
        self, user_id: int, page: Page, *, now: datetime
    ) -> Paged[tables.UserSession]:
        """Those that have not expired."""
        statement = select(_S).where(_S.user_id == user_id, _S.expires_at > now)
        return await read_page(self._store, statement, _session, _SESSION_SORTS, page, _S.id)

    async def tokens(self, where: TokenFilter, page: Page, *, now: datetime) -> Paged[TokenRow]:
        statement = _tokens()
        if where.reader is not None:
            statement = statement.where(_T.user_id == where.reader)
        if where.username:
            statement = statement.where(_U.username == where.username)
        if where.ids:
            statement = statement.where(_T.id.in_(where.ids))
        if not where.ended:
            statement = statement.where(_T.revoked_at.is_(None), _T.expires_at > now)
        return await read_page(self._store, statement, TokenRow, _TOKEN_SORTS, page, _T.id)

    async def token(self, token_id: int) -> TokenRow:
        """Ended or not. Raises NotFound."""
        row = await self._store.read_one(_tokens().where(_T.id == token_id), TokenRow)
        if row is None:
            raise NotFound("access token", token_id)
        return row


def _tokens() -> Select[tables.AccessToken, str]:
    return select(_T, _U.username).join(_U, _U.id == _T.user_id)


def _session(row: tables.UserSession) -> tables.UserSession:
    return row
