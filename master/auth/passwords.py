"""Passwords: hashed once by the client (SHA-512 with a fixed salt, part of the wire contract), then by us (argon2)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor

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
    """Hashes and verifies in threads of its own. Give it a cheaper `hasher` in tests only."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        # Written out: with another release's defaults old hashes would take another time than the decoy.
        self._hasher = hasher or PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4)
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._decoy = ""

    async def hash(self, password: str, *, is_hashed: bool) -> str:
        """What is stored; empty for the empty password."""
        sent = _sent(password, is_hashed)
        if not sent:
            return ""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._hasher.hash, sent)

    async def verify(self, stored: str | None, password: str, *, is_hashed: bool) -> bool:
        """`stored` None: no such user; empty: the empty password.

        One hash is computed whatever the answer is, so that its time tells nothing.
        """
        sent = _sent(password, is_hashed)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._verify, stored, sent)

    def _verify(self, stored: str | None, sent: bytes) -> bool:
        # Made at the first check, whosever it is.
        self._decoy = self._decoy or self._hasher.hash(secrets.token_hex())
        try:
            self._hasher.verify(stored or self._decoy, sent)
        except (VerificationError, InvalidHashError):
            return stored == "" and not sent
        return bool(stored)


def _sent(password: str, is_hashed: bool) -> bytes:
    return (password if is_hashed else client_hash(password)).encode("utf-8", "surrogatepass")
