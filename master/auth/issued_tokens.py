"""Join tokens that administrators make: listed, counted, revoked. Only their hashes are kept.

wjt_<id>_<256 random bits>
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

import structlog
from sqlalchemy import delete, select

from master.core.actor import Actor
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from rm_backends.ports import JoinGrant, JoinTokens
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument, NotFound
from windlass.base.ids import Ids, token_hash

log = structlog.get_logger(__name__)

PREFIX = "wjt"
MASK = "********"
ID_BYTES = 5
KEPT = timedelta(days=30)
"""How long a token that is over stays in the list."""
MAX_TOKENS = 10_000
MAX_DESCRIPTION = 500
MAX_LENGTH = timedelta(days=366)
MAX_AGENTS = 20_000


class TokenState(StrEnum):
    USABLE = "usable"
    SPENT = "spent"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a token is to allow."""

    pool: str
    valid: timedelta | None = None
    """None: until it is revoked."""
    agents: int | None = 1
    """How many may join with it. None: any number."""
    names: frozenset[str] = frozenset()
    """Only these, also if they had another credential before."""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """One token, without its secret."""

    id: str
    token_hash: str
    pool: str
    created: datetime
    created_by: str
    description: str = ""
    names: frozenset[str] = frozenset()
    agents: int | None = None
    expires: datetime | None = None
    revoked: datetime | None = None

    @property
    def masked(self) -> str:
        return f"{PREFIX}_{self.id}_{MASK}"

    def grant(self) -> JoinGrant:
        return JoinGrant(
            pool=self.pool,
            id=self.id,
            names=self.names,
            agents=self.agents,
            expires=self.expires,
            revoked=self.revoked,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """One token with who joined by it."""

    token: IssuedToken
    joined: tuple[str, ...]
    last_used: datetime | None
    state: TokenState


class IssuedTokens:
    """Implements `rm_backends.ports.JoinTokens`: those in its list, and those that `others` knows.

    All are in memory; a change is committed before it counts.
    """

    def __init__(
        self, store: Store, clock: Clock, ids: Ids, *, others: JoinTokens, pools: Collection[str]
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._others = others
        self._pools = pools
        self._mailbox = SerialQueue("join tokens")
        self._tokens: dict[str, IssuedToken] = {}

    async def load(self) -> None:
        """Once, after the lease was taken."""
        rows = await self._store.read(select(tables.JoinToken))
        self._tokens = {row.id: _from_row(row) for row in rows}

    def find(self, pools: Collection[str], token: str) -> JoinGrant | None:
        kind, _, rest = token.partition("_")
        if kind != PREFIX:
            return self._others.find(pools, token)
        found = self._tokens.get(rest.partition("_")[0])
        if found is None or not hmac.compare_digest(found.token_hash, token_hash(token)):
            return None
        return found.grant() if found.pool in pools else None

    async def create(self, wanted: Wanted, *, by: Actor) -> tuple[str, IssuedToken]:
        """The token, which is shown this once, and what is kept of it. Raises InvalidArgument, NotFound."""
        return await self._mailbox.run(lambda: self._create(wanted, by))

    async def revoke(self, id_: str, *, by: Actor) -> IssuedToken:
        """Nobody joins with it any more; agents that did stay. Repeating it changes nothing. Raises NotFound."""
        return await self._mailbox.run(lambda: self._revoke(id_, by))

    async def views(self) -> Sequence[TokenView]:
        """Newest first."""
        now, joined = self._clock.now(), await self._joined()
        tokens = sorted(self._tokens.values(), key=lambda t: (t.created, t.id), reverse=True)
        return [_view(token, joined.get(token.id, {}), now) for token in tokens]

    async def remove_old(self) -> None:
        """Those that have been over for long, with their uses."""
        before = self._clock.now() - KEPT
        ends = {view.token.id: _ended(view) for view in await self.views()}
        gone = [id_ for id_, at in ends.items() if at is not None and at < before]
        if gone:
            await self._mailbox.run(lambda: self._remove(gone))

    async def _create(self, wanted: Wanted, by: Actor) -> tuple[str, IssuedToken]:
        self._check(wanted)
        now = self._clock.now()
        id_ = self._ids.token(ID_BYTES)
        text = f"{PREFIX}_{id_}_{self._ids.token()}"
        token = IssuedToken(
            id=id_,
            token_hash=token_hash(text),
            pool=wanted.pool,
            description=wanted.description,
            names=wanted.names,
            agents=len(wanted.names) or wanted.agents,
            created=now,
            created_by=str(by),
            expires=None if wanted.valid is None else now + wanted.valid,
        )
        unit = UnitOfWork()
        unit.insert(tables.JoinToken, _row(token))
        await self._store.commit(unit)
        self._tokens[id_] = token
        log.info("join token created", id=id_, pool=token.pool, by=str(by))
        return text, token

    async def _revoke(self, id_: str, by: Actor) -> IssuedToken:
        token = self._tokens.get(id_)
        if token is None:
            raise NotFound("join token", id_)
        if token.revoked is not None:
            return token
        revoked = replace(token, revoked=self._clock.now())
        unit = UnitOfWork()
        unit.update(tables.JoinToken, {"id": id_}, {"revoked_at": revoked.revoked}, expect=1)
        await self._store.commit(unit)
        self._tokens[id_] = revoked
        log.info("join token revoked", id=id_, by=str(by))
        return revoked

    async def _remove(self, gone: Collection[str]) -> None:
        unit = UnitOfWork()
        uses = tables.JoinTokenUse
        unit.execute(delete(uses).where(uses.token_id.in_(gone)))
        unit.execute(delete(tables.JoinToken).where(tables.JoinToken.id.in_(gone)))
        await self._store.commit(unit)
        for id_ in gone:
            del self._tokens[id_]

    async def _joined(self) -> dict[str, dict[str, datetime | None]]:
        """Token id -> agent id -> when."""
        uses = tables.JoinTokenUse
        listed = uses.token_id.in_(select(tables.JoinToken.id))
        found: dict[str, dict[str, datetime | None]] = {}
        for use in await self._store.read(select(uses).where(listed)):
            found.setdefault(use.token_id, {})[use.agent_id] = use.used_at
        return found

    def _check(self, wanted: Wanted) -> None:
        if wanted.pool not in self._pools:
            raise InvalidArgument(
                f"pool: there is no resource pool '{wanted.pool}'; the pools are: {', '.join(self._pools)}"
            )
        if wanted.valid is not None and not timedelta(0) < wanted.valid <= MAX_LENGTH:
            raise InvalidArgument(
                f"valid: {wanted.valid} is not a life of a token: give up to {MAX_LENGTH.days} days"
            )
        if wanted.agents is not None and not 1 <= wanted.agents <= MAX_AGENTS:
            raise InvalidArgument(f"uses: {wanted.agents} is not a number from 1 to {MAX_AGENTS}")
        if len(wanted.description) > MAX_DESCRIPTION:
            raise InvalidArgument(f"description: is longer than {MAX_DESCRIPTION} characters")
        if len(self._tokens) >= MAX_TOKENS:
            raise InvalidArgument(f"there are {MAX_TOKENS} join tokens already: revoke some")


def _view(token: IssuedToken, joined: dict[str, datetime | None], now: datetime) -> TokenView:
    if token.revoked is not None:
        state = TokenState.REVOKED
    elif token.expires is not None and token.expires <= now:
        state = TokenState.EXPIRED
    elif token.agents is not None and len(joined) >= token.agents:
        state = TokenState.SPENT
    else:
        state = TokenState.USABLE
    times = [at for at in joined.values() if at is not None]
    return TokenView(
        token=token, joined=tuple(sorted(joined)), last_used=max(times, default=None), state=state
    )


def _ended(view: TokenView) -> datetime | None:
    spent = view.last_used if view.state is TokenState.SPENT else None
    times = [at for at in (view.token.revoked, view.token.expires, spent) if at is not None]
    return min(times, default=None)


def _row(token: IssuedToken) -> dict[str, object]:
    return {
        "id": token.id,
        "token_hash": token.token_hash,
        "pool": token.pool,
        "description": token.description,
        "names": sorted(token.names),
        "agents": token.agents,
        "created_at": token.created,
        "created_by": token.created_by,
        "expires": token.expires,
        "revoked_at": token.revoked,
    }


def _from_row(row: tables.JoinToken) -> IssuedToken:
    return IssuedToken(
        id=row.id,
        token_hash=row.token_hash,
        pool=row.pool,
        description=row.description,
        names=frozenset(row.names),
        agents=row.agents,
        created=row.created_at,
        created_by=row.created_by,
        expires=row.expires,
        revoked=row.revoked_at,
    )
