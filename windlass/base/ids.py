"""Where identities and secrets come from: one object, passed in, so that a simulation can be replayed from a seed."""

from __future__ import annotations

import hashlib
import random
import uuid


class Ids:
    """Makes UUIDs and tokens. The default draws from the operating system; `Ids.seeded(n)` replays."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._random = source or random.SystemRandom()

    @classmethod
    def seeded(cls, seed: int) -> Ids:
        return cls(random.Random(seed))

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def token(self, n_bytes: int = 32) -> str:
        """A secret of `n_bytes` random bytes, as URL-safe hex."""
        return self._random.getrandbits(8 * n_bytes).to_bytes(n_bytes, "big").hex()


def token_hash(token: str) -> str:
    """SHA-256 of a random token, hex: what the store keeps instead of the token."""
    return hashlib.sha256(token.encode()).hexdigest()
