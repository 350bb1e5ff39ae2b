"""The token with which an agent joins a pool: derived from one secret, so that none has to be stored."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from windlass.base.errors import InvalidConfig

SECRET_BYTES = 32


class JoinTokenSigner:
    """Implements `rm_backends.ports.JoinTokens`. A token is good for one pool, until the secret changes."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < SECRET_BYTES:
            raise InvalidConfig(
                [f"the agents' secret has {len(secret)} bytes: it needs {SECRET_BYTES} or more"]
            )
        self._secret = secret

    def token(self, pool: str) -> str:
        return hmac.new(self._secret, f"agent:{pool}".encode(), hashlib.sha256).hexdigest()

    def verify(self, pool: str, token: str) -> bool:
        return hmac.compare_digest(self.token(pool).encode(), token.encode("utf-8", "replace"))


def load_or_create(path: Path) -> bytes:
    """The secret in this file, made (mode 0600) if there is none. Blocking; for the start of the master."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        _create(path)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    try:
        return bytes.fromhex(path.read_text().strip())
    except ValueError:
        raise InvalidConfig(
            [f"{path} does not hold a secret in hexadecimal: remove or restore it"]
        ) from None


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
