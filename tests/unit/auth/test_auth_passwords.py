"""What is kept of a password, and who may try again when."""

from __future__ import annotations

import hashlib

import pytest
from argon2 import PasswordHasher

from master.auth.passwords import Passwords, client_hash
from master.auth.throttle import (
    FORGET_S,
    FREE_FAILURES,
    LONGEST_WAIT_S,
    LoginThrottle,
    LoginThrottled,
)
from windlass.base.clock import ManualClock

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def test_the_client_form_is_the_published_one() -> None:
    expected = hashlib.sha512(b"GubPEmmotfiK9TMD6Zdwsecret").hexdigest()
    assert client_hash("secret") == expected
    assert client_hash("") == ""


@pytest.mark.parametrize("password", ["secret", "pässwörd", "\ud800", "x" * 1000])
async def test_plain_and_client_hashed_are_the_same_password(password: str) -> None:
    passwords = Passwords(CHEAP)
    stored = await passwords.hash(password, is_hashed=False)
    assert stored.startswith("$argon2id$")
    assert await passwords.verify(stored, client_hash(password), is_hashed=True)
    assert await passwords.verify(stored, password, is_hashed=False)
    assert not await passwords.verify(stored, password + "x", is_hashed=False)
    assert not await passwords.verify(stored, "", is_hashed=True)
    assert not await passwords.verify("", password, is_hashed=False)


async def test_the_empty_password_stays_empty() -> None:
    passwords = Passwords(CHEAP)
    assert await passwords.hash("", is_hashed=False) == ""
    assert await passwords.verify("", "", is_hashed=True)
    assert not await passwords.verify("garbage", "x", is_hashed=True)


@pytest.mark.parametrize("password", ["", "nobody", "x"])
async def test_nobody_has_no_password(password: str) -> None:
    assert not await Passwords(CHEAP).verify(None, password, is_hashed=True)


def waits(throttle: LoginThrottle, key: tuple[str, str] = ("u", "a")) -> float:
    try:
        throttle.begin(key)
    except LoginThrottled as error:
        return error.retry_after_s
    return 0.0


def test_waiting_times_double_up_to_a_limit() -> None:
    clock = ManualClock()
    throttle = LoginThrottle(clock)
    assert [waits(throttle) for _ in range(FREE_FAILURES)] == [0.0] * FREE_FAILURES
    seen = []
    for _ in range(10):
        seen.append(waits(throttle))
        clock.advance(seen[-1])
        assert waits(throttle) == 0.0
    assert seen[:4] == [1.0, 2.0, 4.0, 8.0]
    assert seen[-1] == LONGEST_WAIT_S
    assert waits(throttle, ("u", "another address")) == 0.0
    assert waits(throttle, ("another user", "a")) == 0.0


def test_success_and_time_forgive() -> None:
    clock = ManualClock()
    throttle = LoginThrottle(clock)

    def succeed() -> None:
        throttle.succeeded(("u", "a"))

    def wait() -> None:
        clock.advance(FORGET_S + 1)

    for forgive in (succeed, wait):
        while not waits(throttle):
            pass
        forgive()
        assert waits(throttle) == 0.0


def test_memory_is_bounded_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("master.auth.throttle.MAX_KEYS", 3)
    throttle = LoginThrottle(ManualClock())
    for _ in range(FREE_FAILURES):
        waits(throttle, ("old", ""))
        waits(throttle, ("busy", ""))
    for name in ("a", "b"):
        waits(throttle, (name, ""))
    assert len(throttle._records) == 3
    assert waits(throttle, ("busy", "")) > 0
    assert waits(throttle, ("old", "")) == 0.0
