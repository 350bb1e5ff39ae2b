"""Join tokens: one per pool, from one secret that only its owner can read."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime
from pathlib import Path

import pytest

from master.auth.join_tokens import JoinTokenSigner, load_or_create
from rm_backends.ports import JoinGrant, JoinKind
from windlass.base.errors import InvalidConfig

SECRET = bytes(range(32))


def test_a_token_is_good_for_its_pool_only() -> None:
    signer = JoinTokenSigner(SECRET)
    token = signer.token("gpu")
    assert token == hmac.new(SECRET, b"agent:gpu", "sha256").hexdigest()
    assert signer.find(("gpu",), token) == JoinGrant(pool="gpu")
    assert signer.find(("cpu",), token) is None
    assert JoinTokenSigner(SECRET[::-1]).find(("gpu",), token) is None


def test_a_token_allows_what_it_was_made_for() -> None:
    signer = JoinTokenSigner(SECRET)
    grant = JoinGrant(
        kind=JoinKind.LAUNCH,
        pool="gpu",
        id="intent-1",
        names=frozenset({"gpu-1-0", "gpu-1-1"}),
        agents=2,
        expires=datetime(2026, 8, 1, tzinfo=UTC),
    )
    token = signer.made_for(grant)
    assert signer.find(("gpu",), token) == grant
    assert signer.find(("cpu",), token) is None
    assert JoinTokenSigner(SECRET[::-1]).find(("gpu",), token) is None
    kind, claims, signature = token.split(".")
    assert kind == "launch"
    for forged in (
        f"job.{claims}.{signature}",
        f"launch.{claims[:-2]}A=.{signature}",
        f"launch.{claims}.{'0' * 64}",
        f"launch.{claims}.",
        "launch..",
        token + "0" * 10_000,
    ):
        assert signer.find(("gpu",), forged) is None, forged


def test_the_token_of_a_pool_cannot_be_made_by_naming_a_pool_like_claims() -> None:
    signer = JoinTokenSigner(SECRET)
    forged = f"pool.e30.{signer.token('join:pool.e30')}"
    assert signer.find(("gpu",), forged) is None


@pytest.mark.parametrize("token", ["", "x", "ä", "\ud800", "0" * 64])
def test_anything_else_is_refused(token: str) -> None:
    assert JoinTokenSigner(SECRET).find(("gpu",), token) is None


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
