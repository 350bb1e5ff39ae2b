"""Logins, sessions, tokens and users."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest
from argon2 import PasswordHasher
from sqlalchemy import select

from master.auth import sessions
from master.auth.passwords import Passwords, client_hash
from master.auth.principal import Principal, TaskIdentity
from master.auth.service import SESSION_LENGTH, AuthService
from master.auth.throttle import FREE_FAILURES, LoginThrottled
from master.auth.user_rules import UserPatch
from master.store.store import Store
from master.store.tables import User, UserSession
from tests.fakes.actors import ADMIN
from tests.fakes.counting_hasher import CountingHasher
from windlass.base.clock import ManualClock
from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    StoreUnavailable,
    Unauthenticated,
)
from windlass.base.ids import Ids, token_hash

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class LiveAllocations:
    def __init__(self) -> None:
        self.owners: dict[str, TaskIdentity] = {}

    def owner_of(self, token_hash: str) -> TaskIdentity | None:
        return self.owners.get(token_hash)


def service(store: Store, clock: ManualClock, seed: int = 1) -> AuthService:
    return AuthService(
        store, clock, Ids.seeded(seed), passwords=Passwords(CHEAP), allow_empty_password=True
    )


@pytest.fixture
async def auth(memory_store: Store, clock: ManualClock) -> AuthService:
    auth = service(memory_store, clock)
    await auth.ensure_users()
    return auth


async def give_password(
    auth: AuthService, user_id: int, password: str, *, is_hashed: bool, keep: int | None = None
) -> None:
    hashed = await auth.password_hash(password, is_hashed=is_hashed)
    await auth.patch(user_id, UserPatch(password_hash=hashed), by=ADMIN, keep=keep)


async def login(auth: AuthService, name: str = "admin", password: str = "") -> str:
    token, _ = await auth.login(name, password, is_hashed=False, loopback=True, address="x")
    return token


async def test_the_first_start_makes_the_two_users_once(
    auth: AuthService, memory_store: Store, clock: ManualClock
) -> None:
    assert [(user.id, user.username, user.admin) for user in auth.users()] == [
        (1, "admin", True),
        (2, "determined", False),
    ]
    again = service(memory_store, clock)
    await again.ensure_users()
    assert again.users() == auth.users()


async def test_the_first_password_is_for_those_that_have_none(
    auth: AuthService, memory_store: Store, clock: ManualClock
) -> None:
    """`auth` has users without passwords, as earlier releases left them."""
    await give_password(auth, 2, "Mine-pass-1", is_hashed=False)
    asked = []

    def first() -> str:
        asked.append(1)
        return "first"

    for seed in (2, 3):
        again = service(memory_store, clock, seed)
        await again.ensure_users(first)
        with pytest.raises(Unauthenticated):
            await login(again)
        assert await login(again, password="first")
        assert await login(again, "determined", "Mine-pass-1")
    assert len(asked) == 1


async def test_an_empty_password_needs_leave(memory_store: Store, clock: ManualClock) -> None:
    strict = AuthService(memory_store, clock, Ids.seeded(1), passwords=Passwords(CHEAP))
    await strict.ensure_users()
    with pytest.raises(Unauthenticated, match="the empty password is not accepted here"):
        await login(strict)
    with pytest.raises(InvalidArgument, match="password: must not be empty"):
        await strict.password_hash("", is_hashed=True)


async def test_a_session_lasts_until_logout_or_seven_days(
    auth: AuthService, clock: ManualClock
) -> None:
    token, user = await auth.login("Admin ", "", is_hashed=True, loopback=True)
    assert user.last_auth_at == clock.now()
    assert auth.identify(token) == Principal(user_id=1, name="admin", admin=True)
    other = await login(auth, "determined")
    await auth.logout(other)
    with pytest.raises(Unauthenticated):
        auth.identify(other)
    with pytest.raises(Unauthenticated):
        await auth.logout(other)
    clock.advance(SESSION_LENGTH.total_seconds() - 1)
    auth.identify(token)
    clock.advance(1)
    with pytest.raises(Unauthenticated):
        auth.identify(token)


@pytest.mark.parametrize("hours", [5, -5])
async def test_a_clock_that_is_set_by_hours_ends_no_session(
    auth: AuthService, clock: ManualClock, hours: int
) -> None:
    before = await login(auth)
    clock.jump(hours * 3600)
    await auth.remove_expired_sessions()
    for token in (before, await login(auth)):
        assert auth.identify(token).name == "admin"


async def test_sessions_survive_a_restart_and_their_tokens_are_not_stored(
    auth: AuthService, memory_store: Store, clock: ManualClock
) -> None:
    token = await login(auth)
    (row,) = await memory_store.read(select(UserSession))
    assert token not in str(dict(row))
    assert row.token_hash == token_hash(token)
    again = service(memory_store, clock, seed=2)
    await again.load()
    assert (again.identify(token)).name == "admin"


@pytest.mark.parametrize("password", ["", "wrong"])
@pytest.mark.parametrize("name", ["admin", "nobody", "remote"])
async def test_the_empty_password_works_on_loopback_only(
    auth: AuthService, name: str, password: str
) -> None:
    await auth.create_user("remote", remote=True, by=ADMIN)
    with pytest.raises(Unauthenticated) as refused:
        await auth.login(name, password, is_hashed=True, loopback=False)
    with pytest.raises(Unauthenticated) as nobody:
        await auth.login("nobody", password, is_hashed=True, loopback=False)
    assert refused.value.message == nobody.value.message, "a refusal tells who exists"


@pytest.mark.parametrize("name", ["nobody", "remote"])
async def test_unknown_and_remote_users_cannot_log_in(auth: AuthService, name: str) -> None:
    await auth.create_user("remote", remote=True, by=ADMIN)
    with pytest.raises(Unauthenticated, match="invalid credentials"):
        await login(auth, name)


async def test_a_login_needs_a_name(auth: AuthService) -> None:
    with pytest.raises(InvalidArgument, match="username"):
        await auth.login("", "x", is_hashed=True, loopback=True)


@pytest.mark.parametrize("token", ["", "x", "ä"])
async def test_no_such_token(auth: AuthService, token: str) -> None:
    with pytest.raises(Unauthenticated):
        auth.identify(token)


async def test_a_right_password_passes_whatever_others_guess(auth: AuthService) -> None:
    """A flood of guesses for an account, from one address and from many, and its owner from home and from elsewhere."""
    await auth.create_user("alice", password="Right-pass-1", is_hashed=False, by=ADMIN)

    async def guess(address: str) -> None:
        with suppress(Unauthenticated, LoginThrottled):
            await auth.login("alice", "wrong", is_hashed=False, loopback=False, address=address)
            raise AssertionError("a wrong password")

    async def right(address: str) -> str:
        token, _ = await auth.login(
            "alice", "Right-pass-1", is_hashed=False, loopback=False, address=address
        )
        return token

    await right("10.0.0.1")
    flood = [asyncio.create_task(guess(f"192.0.2.{n % 50}")) for n in range(20 * FREE_FAILURES)]
    try:
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(3):
            assert await asyncio.wait_for(right("10.0.0.1"), 90)
    finally:
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


async def test_a_refusal_costs_the_same_whoever_is_asked_for(
    memory_store: Store, clock: ManualClock
) -> None:
    """By the number of hashes, which are all that takes time."""
    hasher = CountingHasher()
    auth = AuthService(memory_store, clock, Ids.seeded(1), passwords=Passwords(hasher))
    await auth.ensure_users(lambda: "first")
    await auth.create_user("empty", by=ADMIN)
    await auth.create_user("remote", remote=True, by=ADMIN)
    await auth.create_user("gone", password="Right-pass-1", is_hashed=False, by=ADMIN)
    gone = auth.user_by_name("gone").id
    await auth.set_active([gone], False, by=ADMIN)
    await auth.login("admin", "first", is_hashed=False, loopback=True)
    for name in ("admin", "empty", "remote", "gone", "nobody", "x" * 300):
        for password in ("", "wrong", "x" * 10_000):
            for is_hashed in (True, False):
                hasher.computed = 0
                with pytest.raises(Unauthenticated) as refused:
                    await auth.login(
                        name, password, is_hashed=is_hashed, loopback=True, address=name[:9]
                    )
                assert hasher.computed == 1, (name, password, is_hashed)
                assert refused.value.message.startswith("invalid credentials"), name
        clock.advance(60)
    hasher.computed = 0
    with pytest.raises(PermissionDenied, match="user is not active"):
        await auth.login("gone", "Right-pass-1", is_hashed=False, loopback=True, address="z")
    assert hasher.computed == 1


async def test_an_allocation_token_acts_for_its_owner_while_it_lives(auth: AuthService) -> None:
    live = LiveAllocations()
    live.owners[token_hash("secret")] = TaskIdentity(2, "1.abc.1", "1.abc", 1)
    with pytest.raises(Unauthenticated):
        auth.identify("secret")
    auth.register_allocation_tokens(live)
    assert auth.identify("secret") == Principal(
        user_id=2,
        name="determined",
        admin=False,
        allocation_id="1.abc.1",
        task_id="1.abc",
        experiment_id=1,
    )
    with pytest.raises(InvalidArgument):
        await auth.logout("secret")
    await auth.set_active([2], False, by=ADMIN)
    with pytest.raises(PermissionDenied):
        auth.identify("secret")
    live.owners.clear()
    with pytest.raises(Unauthenticated):
        auth.identify("secret")


async def test_a_new_password_ends_the_sessions_of_that_user(auth: AuthService) -> None:
    admin, determined = await login(auth), await login(auth, "determined")
    await give_password(auth, 2, client_hash("New-pass-1"), is_hashed=True)
    with pytest.raises(Unauthenticated):
        auth.identify(determined)
    auth.identify(admin)
    with pytest.raises(Unauthenticated):
        await login(auth, "determined")
    assert await login(auth, "determined", "New-pass-1")


async def test_an_inactive_user_is_out_until_active_again(auth: AuthService) -> None:
    token = await login(auth, "determined")
    await auth.set_active([2], False, by=ADMIN)
    with pytest.raises(Unauthenticated):
        auth.identify(token)
    with pytest.raises(PermissionDenied, match="user is not active"):
        await login(auth, "determined")
    await auth.set_active([2], True, by=ADMIN)
    assert await login(auth, "determined")


async def test_a_password_changed_during_a_login_refuses_it(
    auth: AuthService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await auth.create_user("alice", password="Old-pass-1", is_hashed=False, by=ADMIN)
    real = auth._passwords.verify

    async def verify(stored: str | None, password: str, *, is_hashed: bool) -> bool:
        verified = await real(stored, password, is_hashed=is_hashed)
        await give_password(auth, 3, "New-pass-1", is_hashed=False)
        return verified

    monkeypatch.setattr(auth._passwords, "verify", verify)
    with pytest.raises(Unauthenticated):
        await login(auth, "alice", "Old-pass-1")


@pytest.mark.parametrize("name", ["a", " a ", "", "äää", "a\nb", "x" * 256])
async def test_odd_names_are_refused(auth: AuthService, name: str) -> None:
    with pytest.raises(InvalidArgument, match="username"):
        await auth.create_user(name, by=ADMIN)


async def test_names_are_unique_in_any_case(auth: AuthService) -> None:
    results = await asyncio.gather(
        *(auth.create_user(name, by=ADMIN) for name in ("Alice", "alice ", "ALICE")),
        return_exceptions=True,
    )
    assert [isinstance(result, Conflict) for result in results] == [False, True, True]
    assert "user already exists" in str(results[1])
    assert auth.user_by_name("aLiCe").username == "alice"


async def test_a_remote_user_has_no_password(auth: AuthService) -> None:
    with pytest.raises(InvalidArgument, match="remote"):
        await auth.create_user("remote", remote=True, password="x", by=ADMIN)


async def test_unknown_users_are_not_found(auth: AuthService) -> None:
    with pytest.raises(NotFound, match="user '99' not found"):
        await auth.patch(99, UserPatch(admin=True), by=ADMIN)
    assert await auth.set_active([99, 2], True, by=ADMIN) == {99: "user '99' not found"}


@pytest.mark.parametrize("name", ["Admin", "admin ", "DETERMINED"])
async def test_nobody_may_be_shown_as_one_of_the_first_users(auth: AuthService, name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"display_name: .* is the name of another user"):
        await auth.create_user("eve", display_name=name, by=ADMIN)
    eve = await auth.create_user("eve", by=ADMIN)
    with pytest.raises(InvalidArgument, match="display_name: "):
        await auth.patch(eve.id, UserPatch(display_name=name), by=ADMIN)
    assert auth.user(eve.id).display_name == ""
    await auth.patch(eve.id, UserPatch(admin=True), by=ADMIN)
    await auth.patch(eve.id, UserPatch(display_name="Admin"), by=ADMIN)
    await auth.patch(2, UserPatch(display_name="Determined"), by=ADMIN)


async def test_changes_are_stored(auth: AuthService, memory_store: Store) -> None:
    await auth.patch(2, UserPatch(admin=True), by=ADMIN)
    await auth.patch(2, UserPatch(display_name="Det"), by=ADMIN)
    row = await memory_store.read_one(select(User).where(User.id == 2))
    assert row is not None
    assert (row.admin, row.display_name) == (True, "Det")
    assert auth.user(2).admin


async def test_a_failed_commit_changes_nothing_in_memory(
    auth: AuthService, memory_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(_: object) -> None:
        raise StoreUnavailable("disk full")

    token = await login(auth)
    before = auth.users()
    monkeypatch.setattr(memory_store, "commit", full)
    for change in (
        auth.create_user("alice", by=ADMIN),
        auth.set_active([2], False, by=ADMIN),
        login(auth, "determined"),
        auth.logout(token),
    ):
        with pytest.raises(StoreUnavailable):
            await change
    assert auth.users() == before
    auth.identify(token)


async def test_expired_sessions_are_removed(
    auth: AuthService, memory_store: Store, clock: ManualClock
) -> None:
    await login(auth)
    await login(auth)
    clock.advance(timedelta(days=4).total_seconds())
    fresh = await login(auth)
    clock.advance(timedelta(days=4).total_seconds())
    assert await auth.remove_expired_sessions() == 2
    assert await auth.remove_expired_sessions() == 0
    assert len(await memory_store.read(select(UserSession))) == 1
    auth.identify(fresh)


def test_a_password_hash_is_not_printed(clock: ManualClock) -> None:
    from master.auth.users import User as LiveUser

    user = LiveUser(
        id=1, username="a", password_hash="HASH", created_at=clock.now(), modified_at=clock.now()
    )
    assert "HASH" not in repr(user)


async def test_a_user_has_so_many_sessions_and_those_unused_for_longest_end(
    auth: AuthService, memory_store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    others = await login(auth, "determined")
    tokens = [await login(auth) for _ in range(3)]
    auth.identify(tokens[0])
    tokens.append(await login(auth))
    with pytest.raises(Unauthenticated):
        auth.identify(tokens[1])
    for token in (others, tokens[0], tokens[2], tokens[3]):
        auth.identify(token)
    kept = await memory_store.read(select(UserSession.token_hash))
    assert set(kept) == {token_hash(t) for t in (others, tokens[0], tokens[2], tokens[3])}
    again = service(memory_store, clock, seed=2)
    await again.ensure_users()
    await login(again)
    with pytest.raises(Unauthenticated):
        again.identify(tokens[0])  # the oldest: which was used when is not stored


async def test_a_login_ends_only_so_many_of_the_sessions_that_an_earlier_release_left(
    auth: AuthService, memory_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        await login(auth)
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    monkeypatch.setattr(sessions, "ENDED_AT_ONCE", 3)
    for left in (3, 2, 2):
        await login(auth)
        assert len(await memory_store.read(select(UserSession.id))) == left


async def test_a_session_that_a_commit_could_not_end_goes_on(
    auth: AuthService, memory_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 1)
    token = await login(auth)

    async def fails(*_: object) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(memory_store, "commit", fails)
        with pytest.raises(StoreUnavailable):
            await login(auth)
    auth.identify(token)
