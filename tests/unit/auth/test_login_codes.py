"""One-time codes that log a browser in."""

from __future__ import annotations

import pytest

from master.auth.login_codes import MAX_WAITING, VALID
from master.auth.service import AuthService
from master.auth.user_rules import UserPatch
from master.store.store import Store
from tests.fakes.actors import ADMIN
from tests.unit.auth.test_auth_service import login, service
from windlass.base.clock import ManualClock
from windlass.base.errors import Conflict, PermissionDenied, Unauthenticated


@pytest.fixture
async def auth(memory_store: Store, clock: ManualClock) -> AuthService:
    auth = service(memory_store, clock)
    await auth.ensure_users()
    return auth


async def code_of(auth: AuthService, name: str = "determined") -> tuple[str, str]:
    """A code, and the token of the session that it is from."""
    token = await login(auth, name)
    code, _ = auth.issue_login_code(auth.identify(token))
    return code, token


async def test_a_code_logs_in_once_and_no_longer_than_its_session(
    auth: AuthService, clock: ManualClock
) -> None:
    code, token = await code_of(auth)
    clock.advance(59)
    browser, user = await auth.login_with_code(code, address="y")
    assert user.username == "determined"
    assert browser != token
    principal, issuer = auth.identify(browser), auth.identify(token)
    assert principal.session_id is not None
    assert issuer.session_id is not None
    until = auth.session(principal.session_id).session.expires_at
    assert until == auth.session(issuer.session_id).session.expires_at
    with pytest.raises(Unauthenticated):
        await auth.login_with_code(code)


async def test_a_code_expires(auth: AuthService, clock: ManualClock) -> None:
    code, _ = await code_of(auth)
    clock.advance(VALID.total_seconds())
    with pytest.raises(Unauthenticated, match="used or has expired"):
        await auth.login_with_code(code)


async def test_a_code_is_over_with_its_session_or_its_user(auth: AuthService) -> None:
    code, token = await code_of(auth)
    await auth.logout(token)
    with pytest.raises(Unauthenticated, match="has ended"):
        await auth.login_with_code(code)
    code, _ = await code_of(auth)
    await auth.patch(2, UserPatch(active=False), by=ADMIN)
    with pytest.raises(Unauthenticated):
        await auth.login_with_code(code)


async def test_a_browser_of_another_user_stays_theirs(auth: AuthService) -> None:
    code, _ = await code_of(auth)
    other = await login(auth, "admin")
    with pytest.raises(Conflict, match="another user"):
        await auth.login_with_code(code, before=other)
    _, user = await auth.login_with_code(code, before="a token that has expired")
    assert user.username == "determined", "the code was not lost"


async def test_only_sessions_get_codes_and_not_any_number(
    auth: AuthService, clock: ManualClock
) -> None:
    token, _ = await auth.create_access_token(2, by=ADMIN)
    with pytest.raises(PermissionDenied):
        auth.issue_login_code(auth.identify(token))
    session = auth.identify(await login(auth))
    for _ in range(MAX_WAITING):
        auth.issue_login_code(session)
    with pytest.raises(Conflict):
        auth.issue_login_code(session)
    clock.advance(VALID.total_seconds())
    auth.issue_login_code(session)
