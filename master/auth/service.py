"""Logins and users. All of them live in memory; a change is committed before it shows.

Only the hash of a session token is kept anywhere: whoever reads the database cannot log in with what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import delete
from sqlmodel import select

from agent_bootstrap.container_options import OsUser
from master.auth.access_tokens import AccessTokens, Lifespans
from master.auth.login_codes import LoginCodes
from master.auth.passwords import Passwords
from master.auth.principal import AllocationTokens, Principal, Rules, TaskIdentity
from master.auth.rights import Rights
from master.auth.sessions import LoginSession, Sessions, SessionUse
from master.auth.throttle import LoginThrottle, Source
from master.auth.user_rules import (
    MAX_NAME,
    UserPatch,
    normalise_username,
    patched,
    require_display_name,
    require_password,
)
from master.auth.users import (
    ADMIN,
    DETERMINED,
    User,
    UserDirectory,
    fields_of,
    row_of,
    user_from_row,
)
from master.core.actor import Actor
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork, changed_values
from windlass.base.clock import Clock
from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    WindlassError,
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
        lifespans: Lifespans | None = None,
    ) -> None:
        """`others_change_work`: `security.authz.others_work` is `any`. `lifespans`: of access tokens."""
        self._store = store
        self._clock = clock
        self._ids = ids
        self._passwords = passwords or Passwords()
        self._allow_empty = allow_empty_password
        self._throttle = LoginThrottle(clock)
        self._others_change_work = others_change_work
        self._mailbox = SerialQueue("auth")
        self._users = UserDirectory()
        self._sessions = Sessions()
        self._login_codes = LoginCodes(clock, ids)
        self._session_codes = LoginCodes(clock, ids)
        self.rights = Rights()
        """What else changes them tells it here, too."""
        self.access_tokens = AccessTokens(
            store,
            clock,
            ids,
            mailbox=self._mailbox,
            lifespans=lifespans or Lifespans(),
            rights=self.rights,
        )
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
        self._users = UserDirectory(map(user_from_row, users))
        self._sessions = Sessions()
        await self.access_tokens.load()
        for row in sorted(sessions, key=lambda row: row.id):
            self._sessions.add(row.token_hash, LoginSession(row.id, row.user_id, row.expires_at))

    async def ensure_users(self, first_password: Callable[[], str] = str) -> None:
        """Load, and make `admin` (1) and `determined` (2) at the first start.

        `first_password` is asked, in plain text, only while one of them has none; a password that is there stays.
        """
        await self.load()
        first = {name: self._users.by_name(name) for name in (ADMIN, DETERMINED)}
        bare = [name for name, u in first.items() if not (u and (u.password_hash or u.remote))]
        password = first_password() if bare else ""
        for name in bare:
            user = self._users.by_name(name)
            if user is None:
                await self._insert_user(
                    name, admin=name == ADMIN, password=password, is_hashed=False
                )
            elif password:
                hashed = await self._passwords.hash(password, is_hashed=False)
                await self.patch(user.id, UserPatch(password_hash=hashed), by=MASTER)

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
            user = self._users.by_name(name)
            stored = user.password_hash if user is not None and not user.remote else None
            verified = await self._passwords.verify(stored, password, is_hashed=is_hashed)
            if not verified or user is None or not (stored or (self._allow_empty and loopback)):
                known = user.username if user is not None else ""
                log.warning("login refused", user=known, address=address)
                raise Unauthenticated(_INVALID if password else _INVALID_EMPTY)
            turn.passed()
        verified_user = user

        async def open_session() -> tuple[str, User]:
            current = self.user(verified_user.id)
            if current.remote or current.password_hash != stored:
                raise Unauthenticated(_INVALID)
            return await self._open_session(current, address)

        return await self._mailbox.run(open_session)

    def issue_login_code(self, by: Principal) -> tuple[str, datetime]:
        """For a browser, and when it expires. Raises PermissionDenied where no session asks, Conflict."""
        return self._login_codes.issue(by.user_id, _session_of(by))

    def issue_session_code(self, by: Principal, token: str) -> str:
        """For another origin of the same browser, which gets the very session: it ends as one.

        Raises PermissionDenied where no session asks, Conflict.
        """
        return self._session_codes.issue(by.user_id, _session_of(by), token)[0]

    def session_of_code(self, code: str, *, before: str = "") -> str:
        """The token of the session, once. `before`: the token that the browser had.

        Raises Unauthenticated, Conflict (the browser is logged in as another user).
        """
        return self._session_codes.redeem(code, in_place_of=self._user_of_session(before)).token

    def _user_of_session(self, token: str) -> int | None:
        session = self._sessions.use(token_hash(token), self._clock.now()) if token else None
        return session.user_id if session is not None else None

    async def login_with_code(
        self, code: str, *, before: str = "", address: str = ""
    ) -> tuple[str, User]:
        """A new session's token; it ends when the session that the code is from expires.

        `before`: the token that the browser had. Raises Unauthenticated, PermissionDenied (inactive), Conflict (the
        browser is logged in as another user).
        """
        issued = self._login_codes.redeem(code, in_place_of=self._user_of_session(before))

        async def open_session() -> tuple[str, User]:
            found = self._sessions.by_id(issued.session_id)
            if found is None:
                raise Unauthenticated("the session that this code is from has ended: log in")
            user = self.user(issued.user_id)
            return await self._open_session(user, address, until=found.session.expires_at)

        return await self._mailbox.run(open_session)

    async def logout(self, token: str) -> None:
        """End the session; an access token stays valid until it is revoked.

        Raises InvalidArgument for an allocation's token, Unauthenticated for an unknown one.
        """
        hashed = token_hash(token)
        if self.access_tokens.find(hashed) is not None:
            return
        if self._allocation_owner(hashed) is not None:
            raise InvalidArgument(
                "the token of an allocation cannot log out: it ends with its task"
            )
        session = self._sessions.get(hashed)
        if session is None:
            raise Unauthenticated(_INVALID)
        await self._mailbox.run(lambda: self._end_sessions([hashed]))

    def identify(self, token: str) -> Principal:
        """Whose token it is, from memory alone: a session or an access token of a user, or a task that acts for one.

        Raises Unauthenticated, or PermissionDenied for an inactive user.
        """
        if not token:
            raise Unauthenticated(_TOKEN_MISSING)
        hashed = token_hash(token)
        session = self._sessions.use(hashed, self._clock.now())
        if session is not None:
            return self._principal(session.user_id, session_id=session.id)
        live = self.access_tokens.find(hashed)
        if live is not None:
            return self._principal(live.user_id, access_token_id=live.id)
        task = self._allocation_owner(hashed)
        if task is None:
            raise Unauthenticated(_INVALID)
        return self._principal(task.user_id, task)

    def session(self, session_id: int) -> SessionUse:
        """Raises NotFound, also for one that has expired."""
        found = self._sessions.by_id(session_id)
        if found is None or found.session.expires_at <= self._clock.now():
            raise NotFound("session", session_id)
        return found

    def session_used_at(self, session_id: int) -> datetime | None:
        """When its token was shown last; None: not since the master started."""
        found = self._sessions.by_id(session_id)
        return found.used_at if found is not None else None

    async def end_session(self, session_id: int, *, by: Actor) -> None:
        """Its token is worth nothing any more. Raises NotFound."""

        async def end() -> None:
            user_id = self.session(session_id).session.user_id
            await self._end_sessions([self._sessions.token_hash(session_id)])
            log.info("session ended", session=session_id, user=user_id, by=str(by))

        await self._mailbox.run(end)

    async def end_sessions(self, user_id: int, *, keep: int | None = None, by: Actor) -> int:
        """All of the user but `keep`; how many they were."""

        async def end() -> int:
            hashes = self._sessions.of_user(user_id, but=keep)
            await self._end_sessions(hashes)
            log.info("sessions ended", user=user_id, number=len(hashes), by=str(by))
            return len(hashes)

        return await self._mailbox.run(end)

    async def create_access_token(
        self, user_id: int, *, lifespan: str = "", description: str = "", by: Actor
    ) -> tuple[str, int]:
        """Raises NotFound, InvalidArgument, also for a user who is not active."""
        if not self.user(user_id).active:
            raise InvalidArgument(f"userId: {self.user(user_id).username} is not active")
        return await self.access_tokens.create(
            user_id, lifespan=lifespan, description=description, by=by
        )

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
        return self._users.all()

    def user(self, user_id: int) -> User:
        return self._users.get(user_id)

    def user_by_name(self, username: str) -> User:
        if (user := self._users.by_name(username.strip().lower())) is None:
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
        """Raises InvalidArgument (odd name, weak password, remote with a password) or Conflict (it exists)."""
        name = normalise_username(username)
        if remote and password:
            raise InvalidArgument("password: a remote user logs in elsewhere and must not have one")
        if not is_hashed:
            require_password(password)
        user = await self._insert_user(
            name,
            admin=admin,
            active=active,
            remote=remote,
            display_name=display_name.strip(),
            agent_user_group=agent_user_group,
            password=password,
            is_hashed=is_hashed,
        )
        log.info("user created", user=user.username, by=str(by))
        return user

    async def password_hash(self, password: str, *, is_hashed: bool) -> str:
        """What is stored of a new password. Raises InvalidArgument for a weak one, as far as that can be seen, and for
        an empty one where nobody could log in with it."""
        if not password and not self._allow_empty:
            raise InvalidArgument("password: must not be empty")
        if not is_hashed:
            require_password(password)
        return await self._passwords.hash(password, is_hashed=is_hashed)

    async def patch(
        self, user_id: int, patch: UserPatch, *, by: Actor, keep: int | None = None
    ) -> User:
        """A new password ends all sessions but `keep`; deactivation, and being made remote, ends all of them, and
        deactivation revokes the access tokens.

        Raises NotFound, InvalidArgument, Conflict, InvalidState: all or nothing is changed.
        """

        async def change() -> User:
            after = patched(self.user(user_id), patch, self._users.all())
            return (await self._swap([after], by, keep=keep))[0]

        return await self._mailbox.run(change)

    async def set_active(
        self, user_ids: Sequence[int], active: bool, *, by: Actor
    ) -> Mapping[int, str]:
        """Of each that could not be changed: why."""

        async def change() -> Mapping[int, str]:
            errors: dict[int, str] = {}
            everybody = {user.id: user for user in self._users.all()}
            for user_id in user_ids:
                try:
                    if not active and user_id == by.user_id:
                        raise InvalidArgument("nobody can deactivate themselves: ask another admin")
                    user = self.user(user_id)
                    everybody[user_id] = patched(user, UserPatch(active=active), everybody.values())
                except WindlassError as error:
                    errors[user_id] = error.message
            changed = [everybody[id_] for id_ in dict.fromkeys(user_ids) if id_ not in errors]
            await self._swap(changed, by)
            return errors

        return await self._mailbox.run(change)

    def agent_user(self, user_id: int) -> OsUser | None:
        """Whom the user's tasks run as; None if no administrator has said."""
        user = self._users.find(user_id)
        return user.agent_user_group if user is not None else None

    # Inside the mailbox

    async def _open_session(
        self, user: User, address: str, *, until: datetime | None = None
    ) -> tuple[str, User]:
        if not user.active:
            raise PermissionDenied("user is not active")
        now = self._clock.now()
        token = self._ids.token()
        session = LoginSession(
            self._store.next_id(tables.UserSession), user.id, until or now + SESSION_LENGTH
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
                "address": address,
            },
        )
        unit.update(tables.User, {"id": user.id}, {"last_auth_at": now}, expect=1)
        await self._store.commit(unit)
        self._forget(surplus)
        self._sessions.add(token_hash(token), session)
        self._users.put(replace(user, last_auth_at=now))
        return token, self.user(user.id)

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
        if hashes:
            self.rights.changed()

    async def _insert_user(
        self, name: str, *, password: str, is_hashed: bool, **fields: Any
    ) -> User:
        password_hash = await self._passwords.hash(password, is_hashed=is_hashed)

        async def insert() -> User:
            if self._users.by_name(name) is not None:
                raise Conflict(f"user already exists: {name}")
            require_display_name(
                fields.get("display_name", ""),
                username=name,
                admin=fields.get("admin", False),
                others=self._users.all(),
            )
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
            unit.insert(tables.User, row_of(fields_of(user)))
            await self._store.commit(unit)
            self._users.put(user)
            return user

        return await self._mailbox.run(insert)

    async def _swap(
        self, users: Sequence[User], by: Actor, *, keep: int | None = None
    ) -> Sequence[User]:
        """One commit, in which logins end that these users may not keep."""
        unit, now, session = UnitOfWork(), self._clock.now(), tables.UserSession
        after: list[User] = []
        ended: list[str] = []
        said: list[tuple[str, list[str]]] = []
        for user in users:
            before = self.user(user.id)
            changes = changed_values(fields_of(before), fields_of(user))
            if not changes:
                after.append(before)
                continue
            after.append(replace(user, modified_at=now))
            said.append((before.username, sorted(changes)))
            values = row_of({**changes, "modified_at": now})
            unit.update(tables.User, {"id": user.id}, values, expect=1)
            is_out = not user.active or user.remote
            kept = None if is_out else keep
            if is_out or "password_hash" in changes:
                hashes = self._sessions.of_user(user.id, but=kept)
                ended += hashes
                others = (session.user_id == user.id, session.id != (kept or 0))
                if hashes:
                    unit.execute(delete(session).where(*others))
        left = {user.id for user in users if not user.active}
        revoked = self.access_tokens.revoke_all(unit, left) if left else ()
        if unit:
            await self._store.commit(unit)
        for user in after:
            self._users.put(user)
        for name, changed in said:
            log.info("user changed", user=name, changed=changed, by=str(by))
        self._forget(ended)
        self.access_tokens.forget(revoked)
        self.rights.changed()
        return after

    def _principal(
        self,
        user_id: int,
        task: TaskIdentity | None = None,
        *,
        session_id: int | None = None,
        access_token_id: int | None = None,
    ) -> Principal:
        user = self._users.find(user_id)
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
                session_id=session_id,
                access_token_id=access_token_id,
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


def _session_of(by: Principal) -> int:
    if by.session_id is None:
        raise PermissionDenied("only who logged in with a password can open a browser")
    return by.session_id
