"""Join tokens: one per pool, from one secret that only its owner can read."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest

from master.auth.join_tokens import JoinTokenSigner, load_or_create
from windlass.base.errors import InvalidConfig

SECRET = bytes(range(32))


def test_a_token_is_good_for_its_pool_only() -> None:
    signer = JoinTokenSigner(SECRET)
    token = signer.token("gpu")
    assert token == hmac.new(SECRET, b"agent:gpu", "sha256").hexdigest()
    assert signer.verify("gpu", token)
    assert not signer.verify("cpu", token)
    assert not JoinTokenSigner(SECRET[::-1]).verify("gpu", token)


@pytest.mark.parametrize("token", ["", "x", "ä", "\ud800", "0" * 64])
def test_anything_else_is_refused(token: str) -> None:
    assert not JoinTokenSigner(SECRET).verify("gpu", token)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="32"):
        JoinTokenSigner(b"short")


def test_the_secret_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "master" / "secret"
    secret = load_or_create(path)
    assert len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_create(path) == secret
    assert [file.name for file in path.parent.iterdir()] == ["secret"]
    path.chmod(0o644)
    load_or_create(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("not hexadecimal")
    with pytest.raises(InvalidConfig, match=str(path)):
        load_or_create(path)
