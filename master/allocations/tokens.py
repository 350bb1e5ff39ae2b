"""Allocation tokens: what a task shows to the master. Derived, never stored; valid while the hash is on the row.

token = HMAC-SHA256(cluster secret, "allocation:" + id). A restarted master can thus start a granted allocation with the
token it would have had, and ending the allocation (which clears the hash) is all it takes to revoke it.
"""

from __future__ import annotations

import hashlib
import hmac

from windlass.base.ids import token_hash


class AllocationTokenMint:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def token(self, allocation_id: str) -> str:
        message = f"allocation:{allocation_id}".encode()
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()

    def hash(self, allocation_id: str) -> str:
        return token_hash(self.token(allocation_id))
