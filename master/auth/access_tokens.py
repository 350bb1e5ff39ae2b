"""Access tokens of users: what programs log in with. Made, described, revoked. Only their hashes are kept.

Those that are valid are in memory, as sessions are; lists are read from the database (`login_queries`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy import ColumnElement, Executable, delete, func, or_, select, update

from master.auth.rights import Rights
from master.config.sections import TokenLifespan, lifespan_days
from master.core.actor import Actor
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument, NotFound
from windlass.base.formats.durations import parse_duration
from windlass.base.ids import Ids, token_hash

log = structlog.get_logger(__name__)

PREFIX = "wat_"
"""By which scanners for secrets know one."""
LONGEST = "-1"
"""The lifespan that asks for the longest."""
MAX_TOKENS = 1_000
"""Valid ones of one user."""
MAX_DESCRIPTION = 1_000
KEPT = timedelta(days=90)
"""How long one that has ended stays in the list."""

_T = tables.AccessToken


@dataclass(frozen=True, slots=True)
class Lifespans:
    """Of master.yaml: how long tokens are valid."""

    default: timedelta = timedelta(days=30)
    longest: timedelta = timedelta(days=30)

    def of(self, asked: str) -> timedelta:
        """`asked`: a duration, LONGEST, or empty for the default. Raises InvalidArgument, with the limit."""
        limit = f"{self.longest.days} days (security.token.max_lifespan_days)"
        if not self.longest:
            raise InvalidArgument(f"lifespan: access tokens are switched off: the most is {limit}")
        if asked == LONGEST:
            return self.longest
        try:
            lifespan = parse_duration(asked) if asked else self.default
        except (ValueError, OverflowError):
            raise InvalidArgument(
                f'lifespan: "{asked[:40]}" is not a duration such as "48h", up to {limit}; {LONGEST} is the longest'
            ) from None
        if not timedelta(0) < lifespan <= self.longest:
            raise InvalidArgument(
                f'lifespan: "{asked[:40]}" must be longer than nothing, and is at most {limit}'
            )
        return lifespan


def lifespans_of(section: TokenLifespan) -> Lifespans:
    return Lifespans(
        timedelta(days=lifespan_days(section.default_lifespan_days)),
        timedelta(days=lifespan_days(section.max_lifespan_days)),
    )


@dataclass(frozen=True, slots=True)
class LiveToken:
    """One that is neither revoked nor, when it was read, expired."""

    id: int
    user_id: int
    expires_at: datetime


class AccessTokens:
    """Changes are made in `mailbox`, which users are changed in, too."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        mailbox: SerialQueue,
        lifespans: Lifespans,
        rights: Rights,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._mailbox = mailbox
        self._lifespans = lifespans
        self._rights = rights
        self._live: dict[str, LiveToken] = {}

    async def load(self) -> None:
        """Once, after the lease was taken."""
        valid = (_T.revoked_at.is_(None), _T.expires_at > self._clock.now())
        rows = await self._store.read(select(_T).where(*valid))
        self._live = {
            row.token_hash: LiveToken(row.id, row.user_id, row.expires_at) for row in rows
        }

    def find(self, hashed: str) -> LiveToken | None:
        token = self._live.get(hashed)
        return token if token is not None and token.expires_at > self._clock.now() else None

    async def create(
        self, user_id: int, *, lifespan: str = "", description: str = "", by: Actor
    ) -> tuple[str, int]:
        """The token, which is shown this once, and its id. Raises InvalidArgument."""
        _require_description(description)
        length = self._lifespans.of(lifespan)

        async def create() -> tuple[str, int]:
            if sum(one.user_id == user_id for one in self._live.values()) >= MAX_TOKENS:
                raise InvalidArgument(
                    f"userId: has {MAX_TOKENS} valid access tokens already: revoke some"
                )
            now = self._clock.now()
            text = PREFIX + self._ids.token()
            live = LiveToken(self._store.next_id(_T), user_id, now + length)
            unit = UnitOfWork()
            row = {
                "id": live.id,
                "user_id": user_id,
                "token_hash": token_hash(text),
                "description": description,
                "created_at": now,
                "created_by": by.user_id,
                "expires_at": live.expires_at,
            }
            unit.insert(_T, row)
            await self._store.commit(unit)
            self._live[token_hash(text)] = live
            log.info("access token created", token=live.id, user=user_id, by=str(by))
            return text, live.id

        return await self._mailbox.run(create)

    async def edit(
        self, token_id: int, *, description: str | None = None, revoke: bool = False, by: Actor
    ) -> None:
        """Revoking cannot be taken back; repeating it changes nothing. Raises NotFound, InvalidArgument."""
        if description is not None:
            _require_description(description)

        async def edit() -> None:
            if await self._store.read_one(select(_T.id).where(_T.id == token_id)) is None:
                raise NotFound("access token", token_id)
            unit = UnitOfWork()
            if description is not None:
                unit.update(_T, {"id": token_id}, {"description": description}, expect=1)
            if revoke:
                unit.execute(_revoke(_T.id == token_id, now=self._clock.now()))
            if unit:
                await self._store.commit(unit)
            if revoke:
                self.forget(hashed for hashed, one in self._live.items() if one.id == token_id)
            log.info("access token changed", token=token_id, revoked=revoke, by=str(by))

        await self._mailbox.run(edit)

    def revoke_all(self, unit: UnitOfWork, user_ids: Collection[int]) -> Sequence[str]:
        """Adds that to the unit. What `forget` takes once it is committed."""
        theirs = {
            hashed: one.user_id for hashed, one in self._live.items() if one.user_id in user_ids
        }
        for user_id in sorted(set(theirs.values())):
            unit.execute(_revoke(_T.user_id == user_id, now=self._clock.now()))
        return tuple(theirs)

    def forget(self, hashes: Iterable[str]) -> None:
        """They are revoked."""
        for hashed in list(hashes):
            self._live.pop(hashed, None)
        self._rights.changed()

    async def remove_old(self) -> None:
        """Those that ended long ago; from memory all that have expired."""

        async def remove() -> None:
            now = self._clock.now()
            self.forget(hashed for hashed, one in self._live.items() if one.expires_at <= now)
            old = or_(_T.expires_at < now - KEPT, _T.revoked_at < now - KEPT)
            if await self._store.read_one(select(func.count()).select_from(_T).where(old)):
                unit = UnitOfWork()
                unit.execute(delete(_T).where(old))
                await self._store.commit(unit)

        await self._mailbox.run(remove)


def _revoke(which: ColumnElement[bool], *, now: datetime) -> Executable:
    return update(_T).where(which, _T.revoked_at.is_(None)).values(revoked_at=now)


def _require_description(description: str) -> None:
    if len(description) > MAX_DESCRIPTION:
        raise InvalidArgument(f"description: is longer than {MAX_DESCRIPTION} characters")
