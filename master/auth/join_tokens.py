"""Join tokens that are derived from one secret, so that none has to be stored. `issued_tokens` has those that are.

token of a pool    hex of HMAC(secret, "agent:" + pool): always the same, never spent
any other          <kind>.<what it allows: base64 of JSON>.<hex of HMAC(secret, all before)>
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from rm_backends.ports import JoinGrant, JoinKind
from windlass.base.errors import InvalidConfig

SECRET_BYTES = 32
MAX_TOKEN_CHARS = 8192


class _Claims(BaseModel):
    """What a token says, as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pool: str
    id: str
    names: tuple[str, ...] = ()
    agents: int | None = None
    expires: AwareDatetime | None = None


class JoinTokenSigner:
    """Implements `rm_backends.ports.JoinTokens`. Tokens are good until the secret changes, or as they say."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < SECRET_BYTES:
            raise InvalidConfig(
                [f"the agents' secret has {len(secret)} bytes: it needs {SECRET_BYTES} or more"]
            )
        self._secret = secret

    def token(self, pool: str) -> str:
        """Of a pool: for any agent, any number of times."""
        return self._sign(f"agent:{pool}")

    def made_for(self, grant: JoinGrant) -> str:
        """A token that allows just this."""
        claims = _Claims(
            pool=grant.pool,
            id=grant.id,
            names=tuple(sorted(grant.names)),
            agents=grant.agents,
            expires=grant.expires,
        )
        written = base64.urlsafe_b64encode(
            claims.model_dump_json(exclude_defaults=True).encode()
        ).decode()
        said = f"{grant.kind}.{written.rstrip('=')}"
        return f"{said}.{self._sign(f'join:{said}')}"

    def find(self, pools: Collection[str], token: str) -> JoinGrant | None:
        """What it allows, expired or not; None if it is not one of ours for one of `pools`."""
        for pool in pools:
            if _same(self.token(pool), token):
                return JoinGrant(pool=pool)
        if len(token) > MAX_TOKEN_CHARS:
            return None
        said, _, signature = token.rpartition(".")
        if not _same(self._sign(f"join:{said}"), signature):
            return None
        grant = _read(said)
        return grant if grant is not None and grant.pool in pools else None

    def _sign(self, text: str) -> str:
        content = text.encode("utf-8", "replace")
        return hmac.new(self._secret, content, hashlib.sha256).hexdigest()


def _same(ours: str, given: str) -> bool:
    return hmac.compare_digest(ours.encode(), given.encode("utf-8", "replace"))


def _read(said: str) -> JoinGrant | None:
    """None: signed by us, but of a release that says more than we know."""
    kind, _, written = said.partition(".")
    try:
        padded = written + "=" * (-len(written) % 4)
        claims = _Claims.model_validate_json(base64.urlsafe_b64decode(padded))
        return JoinGrant(
            kind=JoinKind(kind),
            pool=claims.pool,
            id=claims.id,
            names=frozenset(claims.names),
            agents=claims.agents,
            expires=claims.expires,
        )
    except (binascii.Error, ValidationError, ValueError):
        return None


def load_or_create(path: Path) -> bytes:
    """The secret in this file, made (mode 0600) if there is none. Blocking; for the start of the master."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        _create(path)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return read_secret(path)


def read_secret(path: Path) -> bytes:
    """Raises InvalidConfig for a file that does not hold one."""
    try:
        secret = bytes.fromhex(path.read_text().strip())
    except ValueError:
        secret = b""
    if len(secret) < SECRET_BYTES:
        raise InvalidConfig(
            [f"{path} does not hold a secret of {SECRET_BYTES} bytes in hexadecimal: restore it"]
        )
    return secret


def _create(path: Path) -> None:
    """Whole or not at all: a crash in between must not leave an empty secret."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_bytes(SECRET_BYTES).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(temporary)
    finally:
        temporary.unlink()
