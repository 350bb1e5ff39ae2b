"""Logins and users. All of them live in memory; a change is committed before it shows.

Only the hash of a session token is kept anywhere: whoever reads the database cannot log in with what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog
from sqlmodel import select

from agent_bootstrap.container_options import OsUser
from master.auth.passwords import Passwords
from master.auth.principal import AllocationTokens, Principal, Rules, TaskIdentity
from master.auth.sessions import LoginSession, Sessions
from master.auth.throttle import LoginThrottle, Source
from master.auth.users import (
    ADMIN,
    DETERMINED,
    MAX_NAME,
    User,
    normalise_username,
    require_display_name,
    row_of,
    user_from_row,
)
from master.core.actor import Actor
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unauthenticated,
)
from windlass.base.ids import Ids, token_hash

log = structlog.get_logger(__name__)

SESSION_LENGTH = timedelta(days=7)
MASTER = Actor(user_id=0, name="the master")
_INVALID = "invalid credentials"
_INVALID_EMPTY = "invalid credentials (the empty password is not accepted here)"
_TOKEN_MISSING = "token missing"  # noqa: S105


class AuthService:
    """One mailbox serialises all changes; authenticating is a look into a dictionary."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        passwords: Passwords | None = None,
        allow_empty_password: bool = False,
        others_change_work: bool = False,
    ) -> None:
        """`others_change_work`: `security.authz.others_work` is `any`."""
        self._store = store
        self._clock = clock
        self._ids = ids
        self._passwords = passwords or Passwords()
        self._allow_empty = allow_empty_password
        self._throttle = LoginThrottle(clock)
        self._others_change_work = others_change_work
        self._mailbox = SerialQueue("auth")
        self._users: dict[int, User] = {}
        self._sessions = Sessions()
        self._allocation_tokens: AllocationTokens | None = None
        self._rules_of: Callable[[int], Rules | None] = lambda user_id: None

    def register_rules(self, rules_of: Callable[[int], Rules | None]) -> None:
        """What decides for each user from now on, in the place of the basic rules."""
        self._rules_of = rules_of

    def register_allocation_tokens(self, tokens: AllocationTokens) -> None:
        """Who can say which allocation a token belongs to. Until then no allocation token is valid."""
        self._allocation_tokens = tokens

    async def load(self) -> None:
        """Read users and sessions. Once, after the lease was taken."""
        users = await self._store.read(select(tables.User))
        sessions = await self._store.read(select(tables.UserSession))
        self._users = {row.id: user_from_row(row) for row in users}
        self._sessions = Sessions()
        for row in sorted(sessions, key=lambda row: row.id):
            self._sessions.add(row.token_hash, LoginSession(row.id, row.user_id, row.expires_at))

    async def ensure_users(self, first_password: Callable[[], str] = str) -> None:
        """Load, and make `admin` (1) and `determined` (2) at the first start.

        `first_password` is asked, in plain text, only while one of them has none; a password that is there stays.
        """
        await self.load()
        bare = [n for n in (ADMIN, DETERMINED) if not ((u := self._by_name(n)) and u.password_hash)]
        password = first_password() if bare else ""
        for name in bare:
            user = self._by_name(name)
            if user is None:
                await self._insert_user(
                    name, admin=name == ADMIN, password=password, is_hashed=False
                )
            elif password:
                await self.change_password(user.id, password, is_hashed=False, by=MASTER)

    # Sessions

    async def login(
        self,
        username: str,
        password: str,
        *,
        is_hashed: bool,
        loopback: bool,
        address: str = "",
    ) -> tuple[str, User]:
        """A new session's token. `loopback`: the caller is on this machine, where an empty password may do.

        Raises Unauthenticated, PermissionDenied (inactive), LoginThrottled, InvalidArgument (no username).
        """
        if not username:
            raise InvalidArgument("username: missing")
        name = username.strip().lower()
        async with self._throttle.turn(Source.of(name[:MAX_NAME], address)) as turn:
            user = self._by_name(name)
            stored = user.password_hash if user is not None and not user.remote else None
            verified = await self._passwords.verify(stored, password, is_hashed=is_hashed)
            if not verified or user is None or not (stored or (self._allow_empty and loopback)):
                known = user.username if user is not None else ""
                log.warning("login refused", user=known, address=address)
                raise Unauthenticated(_INVALID if password else _INVALID_EMPTY)
            turn.passed()
        return await self._mailbox.run(lambda: self._open_session(user, stored))

    async def logout(self, token: str) -> None:
        """End the session. Raises InvalidArgument for an allocation's token, Unauthenticated for an unknown one."""
        hashed = token_hash(token)
        if self._allocation_owner(hashed) is not None:
            raise InvalidArgument(
                "the token of an allocation cannot log out: it ends with its task"
            )
        session = self._sessions.get(hashed)
        if session is None:
            raise Unauthenticated(_INVALID)
        await self._mailbox.run(lambda: self._end_sessions([hashed]))

    def identify(self, token: str) -> Principal:
        """Whose token it is, from memory alone: a user's session, or a task that acts for its owner.

        Raises Unauthenticated, or PermissionDenied for an inactive user.
        """
        if not token:
            raise Unauthenticated(_TOKEN_MISSING)
        hashed = token_hash(token)
        session = self._sessions.use(hashed, self._clock.now())
        if session is not None:
            return self._principal(session.user_id)
        task = self._allocation_owner(hashed)
        if task is None:
            raise Unauthenticated(_INVALID)
        return self._principal(task.user_id, task)

    async def remove_expired_sessions(self) -> int:
        """Clean-up, to be run now and then; how many there were."""

        async def remove() -> int:
            old = list(self._sessions.expired(self._clock.now()))
            await self._end_sessions(old)
            return len(old)

        return await self._mailbox.run(remove)

    # Users

    def users(self) -> Sequence[User]:
        """By id."""
        return sorted(self._users.values(), key=lambda user: user.id)

    def user(self, user_id: int) -> User:
        if (user := self._users.get(user_id)) is None:
            raise NotFound("user", user_id)
        return user

    def user_by_name(self, username: str) -> User:
        if (user := self._by_name(username.strip().lower())) is None:
            raise NotFound("user", username)
        return user

    async def create_user(
        self,
        username: str,
        *,
        password: str = "",
        is_hashed: bool = True,
        admin: bool = False,
        active: bool = True,
        remote: bool = False,
        display_name: str = "",
        agent_user_group: OsUser | None = None,
        by: Actor,
    ) -> User:
        """Raises InvalidArgument (odd name, remote with a password) or Conflict (it exists)."""
        name = normalise_username(username)
        if remote and password:
            raise InvalidArgument("password: a remote user logs in elsewhere and must not have one")
        require_display_name(display_name, username=name, admin=admin)
        user = await self._insert_user(
            name,
            admin=admin,
            active=active,
            remote=remote,
            display_name=display_name,
            agent_user_group=agent_user_group,
            password=password,
            is_hashed=is_hashed,
        )
        log.info("user created", user=user.username, by=str(by))
        return user

    async def change_password(
        self, user_id: int, password: str, *, is_hashed: bool, by: Actor
    ) -> User:
        """Ends all sessions of the user. Raises InvalidArgument for an empty one where nobody could log in with it."""
        self.user(user_id)
        if not password and not self._allow_empty:
            raise InvalidArgument("password: must not be empty")
        hashed = await self._passwords.hash(password, is_hashed=is_hashed)
        return await self._change(user_id, by, end_sessions=True, password_hash=hashed)

    async def set_active(self, user_id: int, active: bool, *, by: Actor) -> User:
        """An inactive user cannot log in, and its sessions end."""
        return await self._change(user_id, by, end_sessions=not active, active=active)

    async def set_admin(self, user_id: int, admin: bool, *, by: Actor) -> User:
        return await self._change(user_id, by, end_sessions=False, admin=admin)

    async def set_display_name(self, user_id: int, display_name: str, *, by: Actor) -> User:
        """Raises InvalidArgument for the name of another user."""
        user = self.user(user_id)
        require_display_name(display_name, username=user.username, admin=user.admin)
        return await self._change(user_id, by, end_sessions=False, display_name=display_name)

    async def link_agent_user(self, user_id: int, linked: OsUser | None, *, by: Actor) -> User:
        """Whom the user's tasks run as from their next start on. None: as the cluster's default."""
        return await self._change(user_id, by, end_sessions=False, agent_user_group=linked)

    def agent_user(self, user_id: int) -> OsUser | None:
        """Whom the user's tasks run as; None if no administrator has said."""
        user = self._users.get(user_id)
        return user.agent_user_group if user is not None else None

    # Inside the mailbox

    async def _open_session(self, user: User, verified_hash: str | None) -> tuple[str, User]:
        user = self.user(user.id)
        if user.password_hash != verified_hash:
            raise Unauthenticated(_INVALID)
        if not user.active:
            raise PermissionDenied("user is not active")
        now = self._clock.now()
        token = self._ids.token()
        session = LoginSession(
            self._store.next_id(tables.UserSession), user.id, now + SESSION_LENGTH
        )
        surplus = self._sessions.surplus(user.id)
        unit = UnitOfWork()
        self._delete(unit, surplus)
        unit.insert(
            tables.UserSession,
            {
                "id": session.id,
                "user_id": user.id,
                "token_hash": token_hash(token),
                "created_at": now,
                "expires_at": session.expires_at,
            },
        )
        unit.update(tables.User, {"id": user.id}, {"last_auth_at": now}, expect=1)
        await self._store.commit(unit)
        self._forget(surplus)
        self._sessions.add(token_hash(token), session)
        self._users[user.id] = replace(user, last_auth_at=now)
        return token, self._users[user.id]

    async def _end_sessions(self, hashes: Sequence[str]) -> None:
        unit = UnitOfWork()
        self._delete(unit, hashes)
        await self._store.commit(unit)
        self._forget(hashes)

    def _delete(self, unit: UnitOfWork, hashes: Sequence[str]) -> None:
        for hashed in hashes:
            if (session := self._sessions.get(hashed)) is not None:
                unit.delete(tables.UserSession, {"id": session.id})

    def _forget(self, hashes: Sequence[str]) -> None:
        """They have been deleted."""
        for hashed in hashes:
            self._sessions.remove(hashed)

    async def _insert_user(
        self, name: str, *, password: str, is_hashed: bool, **fields: Any
    ) -> User:
        password_hash = await self._passwords.hash(password, is_hashed=is_hashed)

        async def insert() -> User:
            if self._by_name(name) is not None:
                raise Conflict(f"user already exists: {name}")
            now = self._clock.now()
            user = User(
                id=self._store.next_id(tables.User),
                username=name,
                password_hash=password_hash,
                created_at=now,
                modified_at=now,
                **fields,
            )
            unit = UnitOfWork()
            row = {key: getattr(user, key) for key in User.__slots__}
            unit.insert(tables.User, row_of(row))
            await self._store.commit(unit)
            self._users[user.id] = user
            return user

        return await self._mailbox.run(insert)

    async def _change(self, user_id: int, by: Actor, *, end_sessions: bool, **changes: Any) -> User:
        changed = sorted(changes)

        async def change() -> User:
            changes["modified_at"] = self._clock.now()
            user = replace(self.user(user_id), **changes)
            unit = UnitOfWork()
            unit.update(tables.User, {"id": user_id}, row_of(changes), expect=1)
            if end_sessions:
                unit.delete(tables.UserSession, {"user_id": user_id})
            await self._store.commit(unit)
            self._users[user_id] = user
            if end_sessions:
                self._forget(self._sessions.of_user(user_id))
            return user

        user = await self._mailbox.run(change)
        log.info("user changed", user=user.username, changed=changed, by=str(by))
        return user

    def _by_name(self, name: str) -> User | None:
        return next((user for user in self._users.values() if user.username == name), None)

    def _principal(self, user_id: int, task: TaskIdentity | None = None) -> Principal:
        user = self._users.get(user_id)
        if user is None:
            raise Unauthenticated(_INVALID)
        if not user.active:
            raise PermissionDenied("user does not have permission")
        if task is None:
            return Principal(
                user_id=user.id,
                name=user.username,
                admin=user.admin,
                changes_others_work=self._others_change_work,
                rules=self._rules_of(user.id),
            )
        return Principal(
            user_id=user.id,
            name=user.username,
            admin=user.admin,
            rules=self._rules_of(user.id),
            allocation_id=task.allocation_id,
            task_id=task.task_id,
            experiment_id=task.experiment_id,
        )

    def _allocation_owner(self, hashed: str) -> TaskIdentity | None:
        return self._allocation_tokens.owner_of(hashed) if self._allocation_tokens else None
