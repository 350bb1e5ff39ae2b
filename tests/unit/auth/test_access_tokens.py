"""Access tokens: how long they are valid, and what ends them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from argon2 import PasswordHasher
from sqlalchemy import select

from master.auth import access_tokens
from master.auth.access_tokens import KEPT, LONGEST, Lifespans, lifespans_of
from master.auth.login_queries import LoginQueries, TokenFilter
from master.auth.passwords import Passwords
from master.auth.service import AuthService
from master.auth.user_rules import UserPatch
from master.config.sections import TokenLifespan
from master.store.paging import Page
from master.store.store import Store
from master.store.tables import AccessToken
from tests.fakes.actors import ADMIN
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument, NotFound, Unauthenticated
from windlass.base.ids import Ids, token_hash

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
LIFESPANS = Lifespans(timedelta(days=3), timedelta(days=10))


def service(store: Store, clock: ManualClock, seed: int = 1) -> AuthService:
    return AuthService(
        store, clock, Ids.seeded(seed), passwords=Passwords(CHEAP), lifespans=LIFESPANS
    )


@pytest.fixture
async def auth(memory_store: Store, clock: ManualClock) -> AuthService:
    auth = service(memory_store, clock)
    await auth.ensure_users(lambda: "first")
    return auth


def test_lifespans_are_durations_within_the_limit() -> None:
    assert LIFESPANS.of("") == timedelta(days=3)
    assert LIFESPANS.of("48h") == timedelta(days=2)
    assert LIFESPANS.of(LONGEST) == LIFESPANS.of("240h") == timedelta(days=10)
    for wrong in ("0", "-5h", "241h", "soon", "5", "-2", "9" * 400 + "h"):
        with pytest.raises(InvalidArgument, match=r"^lifespan: .* 10 days"):
            LIFESPANS.of(wrong)


def test_the_configuration_may_allow_all_or_nothing() -> None:
    without_end = lifespans_of(TokenLifespan(default_lifespan_days=-1, max_lifespan_days=-1))
    assert without_end.of("") == timedelta(days=106751)
    nothing = lifespans_of(TokenLifespan(default_lifespan_days=0, max_lifespan_days=0))
    for asked in ("", LONGEST, "1h"):
        with pytest.raises(InvalidArgument, match="switched off"):
            nothing.of(asked)


async def test_a_token_acts_for_its_user_until_it_ends(
    auth: AuthService, clock: ManualClock
) -> None:
    token, id_ = await auth.create_access_token(2, lifespan="2h", by=ADMIN)
    who = auth.identify(token)
    assert (who.user_id, who.access_token_id, who.session_id) == (2, id_, None)
    await auth.logout(token)
    clock.advance(7199)
    auth.identify(token)
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="invalid credentials"):
        auth.identify(token)


async def test_only_its_hash_is_kept_and_it_survives_a_restart(
    auth: AuthService, memory_store: Store, clock: ManualClock
) -> None:
    token, _ = await auth.create_access_token(2, description="ci", by=ADMIN)
    gone, gone_id = await auth.create_access_token(2, by=ADMIN)
    await auth.access_tokens.edit(gone_id, revoke=True, by=ADMIN)
    rows = await memory_store.read(select(AccessToken))
    assert token not in str([dict(row) for row in rows])
    assert rows[0].token_hash == token_hash(token)
    again = service(memory_store, clock, seed=2)
    await again.load()
    assert again.identify(token).name == "determined"
    with pytest.raises(Unauthenticated):
        again.identify(gone)


async def test_a_revoked_token_is_worth_nothing_at_once(auth: AuthService) -> None:
    token, id_ = await auth.create_access_token(2, by=ADMIN)
    other, _ = await auth.create_access_token(2, by=ADMIN)
    for _ in range(2):
        await auth.access_tokens.edit(id_, revoke=True, by=ADMIN)
        with pytest.raises(Unauthenticated):
            auth.identify(token)
    auth.identify(other)
    with pytest.raises(NotFound, match="access token '99' not found"):
        await auth.access_tokens.edit(99, revoke=True, by=ADMIN)


async def test_deactivation_revokes_and_a_new_password_does_not(auth: AuthService) -> None:
    token, _ = await auth.create_access_token(2, by=ADMIN)
    hashed = await auth.password_hash("Another-pass-1", is_hashed=False)
    await auth.patch(2, UserPatch(password_hash=hashed), by=ADMIN)
    auth.identify(token)
    await auth.set_active([2], False, by=ADMIN)
    with pytest.raises(Unauthenticated):
        auth.identify(token)
    with pytest.raises(InvalidArgument, match="userId: determined is not active"):
        await auth.create_access_token(2, by=ADMIN)
    await auth.patch(2, UserPatch(active=True), by=ADMIN)
    with pytest.raises(Unauthenticated):
        auth.identify(token)


async def test_a_remote_user_has_tokens_and_no_password(auth: AuthService) -> None:
    session, _ = await auth.login("determined", "first", is_hashed=False, loopback=False)
    token, _ = await auth.create_access_token(2, by=ADMIN)
    await auth.patch(2, UserPatch(remote=True), by=ADMIN)
    auth.identify(token)
    with pytest.raises(Unauthenticated):
        auth.identify(session)
    with pytest.raises(Unauthenticated):
        await auth.login("determined", "first", is_hashed=False, loopback=True)


async def test_a_user_has_only_so_many(
    auth: AuthService, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setattr(access_tokens, "MAX_TOKENS", 2)
    for _ in range(2):
        await auth.create_access_token(2, lifespan="1h", by=ADMIN)
    with pytest.raises(InvalidArgument, match="revoke some"):
        await auth.create_access_token(2, by=ADMIN)
    await auth.create_access_token(1, by=ADMIN)
    clock.advance(3600)
    await auth.access_tokens.remove_old()
    await auth.create_access_token(2, by=ADMIN)


async def test_those_that_ended_long_ago_are_forgotten(
    auth: AuthService, memory_store: Store, clock: ManualClock
) -> None:
    _, revoked = await auth.create_access_token(2, by=ADMIN)
    _, expired = await auth.create_access_token(2, lifespan="24h", by=ADMIN)
    await auth.access_tokens.edit(revoked, revoke=True, by=ADMIN)
    left = select(AccessToken.id)
    clock.advance(KEPT.total_seconds())
    await auth.access_tokens.remove_old()
    assert await memory_store.read(left) == [revoked, expired]
    clock.advance(1)
    await auth.access_tokens.remove_old()
    assert await memory_store.read(left) == [expired]
    clock.advance(86400)
    await auth.access_tokens.remove_old()
    assert await memory_store.read(left) == []


async def test_lists_are_filtered_sorted_and_paged(
    auth: AuthService, memory_store: Store, clock: ManualClock
) -> None:
    made = [
        (await auth.create_access_token(user, description=text, lifespan=life, by=ADMIN))[1]
        for user, text, life in ((1, "b", "3h"), (2, "a", "1h"), (2, "c", "2h"))
    ]
    first, second, third = made
    await auth.access_tokens.edit(third, revoke=True, description="d", by=ADMIN)
    queries = LoginQueries(memory_store)

    async def found(page: Page | None = None, **where: object) -> list[int]:
        filter_ = TokenFilter(**{"reader": None, **where})  # type: ignore[arg-type]
        paged = await queries.tokens(filter_, page or Page(), now=clock.now())
        return [row.token.id for row in paged.rows]

    assert await found() == [first, second]
    assert await found(ended=True) == made
    assert await found(reader=2, ended=True) == [second, third]
    assert await found(username="admin", ended=True) == [first]
    assert await found(ids=(third, first), ended=True) == [first, third]
    assert await found(Page(sort="description"), ended=True) == [second, first, third]
    assert await found(Page(sort="expiry"), ended=True) == [second, third, first]
    assert await found(Page(sort="revoked", descending=True), ended=True) == [third, second, first]
    assert await found(Page(sort="user_id", limit=1, offset=1), ended=True) == [second]
    clock.advance(3600)
    assert await found() == [first]
