"""Tokens that are good for the service of one task alone, such as a notebook's. Derived, never stored."""

from __future__ import annotations

import hashlib
import hmac


class ServiceTokens:
    """token = HMAC-SHA256(cluster secret, "service:" + task id): the same after a restart of the master."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def token(self, task_id: str) -> str:
        return hmac.new(self._secret, f"service:{task_id}".encode(), hashlib.sha256).hexdigest()

    def is_good(self, token: str, task_id: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token(task_id).encode())
