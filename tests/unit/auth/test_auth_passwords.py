"""What is kept of a password, and what checking one costs."""

from __future__ import annotations

import hashlib

import pytest
from argon2 import PasswordHasher

from master.auth.passwords import Passwords, client_hash
from tests.fakes.counting_hasher import CountingHasher

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


@pytest.mark.parametrize("password", ["", "wrong", "right"])
@pytest.mark.parametrize("is_hashed", [True, False])
@pytest.mark.parametrize("kind", ["nobody", "no password", "password", "garbage"])
async def test_every_check_computes_one_hash(kind: str, is_hashed: bool, password: str) -> None:
    """Whatever is asked: time tells nothing of who exists."""
    hasher = CountingHasher()
    passwords = Passwords(hasher)
    stored = {
        "nobody": None,
        "no password": "",
        "password": await passwords.hash("right", is_hashed=is_hashed),
        "garbage": "garbage",
    }[kind]
    await passwords.verify(None, "the first of all", is_hashed=is_hashed)
    hasher.computed = 0
    right = await passwords.verify(stored, password, is_hashed=is_hashed)
    assert hasher.computed == 1
    assert right == ((kind, password) in {("password", "right"), ("no password", "")})
