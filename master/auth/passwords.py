"""Passwords: hashed once by the client (SHA-512 with a fixed salt, part of the wire contract), then by us (argon2)."""

from __future__ import annotations

import asyncio
import hashlib

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

CLIENT_SALT = "GubPEmmotfiK9TMD6Zdw"
AT_ONCE = 2
"""Hashes computed at the same time: each takes 64 MiB and a tenth of a second."""


def client_hash(password: str) -> str:
    """What clients send instead of the password. The empty password stays empty."""
    if not password:
        return ""
    return hashlib.sha512((CLIENT_SALT + password).encode("utf-8", "surrogatepass")).hexdigest()


class Passwords:
    """Hashes and verifies in threads. Give it a cheaper `hasher` in tests only."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._decoy: str | None = None

    async def hash(self, password: str, *, is_hashed: bool) -> str:
        """What is stored; empty for the empty password."""
        sent = _sent(password, is_hashed)
        if not sent:
            return ""
        async with self._places:
            return await asyncio.to_thread(self._hasher.hash, sent)

    async def verify(self, stored: str | None, password: str, *, is_hashed: bool) -> bool:
        """`stored` None: no such user. That takes as long as a wrong password, so that it does not tell."""
        sent = _sent(password, is_hashed)
        if stored == "" or not sent:
            return stored == "" and not sent
        async with self._places:
            return await asyncio.to_thread(self._verify, stored, sent)

    def _verify(self, stored: str | None, sent: bytes) -> bool:
        if stored is None and self._decoy is None:
            self._decoy = self._hasher.hash("nobody")
        try:
            verified = self._hasher.verify(stored or self._decoy or "", sent)
        except (VerificationError, InvalidHashError):
            return False
        return verified and stored is not None


def _sent(password: str, is_hashed: bool) -> bytes:
    return (password if is_hashed else client_hash(password)).encode("utf-8", "surrogatepass")
