"""The headers by which a receiver knows that a call is of this cluster, and when it was made."""

from __future__ import annotations

import hashlib
import hmac

CONTENT_TYPE = "application/json; charset=UTF-8"
PREFIXES = ("X-Determined-AI", "X-Windlass")


def headers(body: bytes, key: str, at: int) -> dict[str, str]:
    """`at`: seconds since the epoch, of this attempt."""
    signature = signature_of(body, key, at)
    return {
        "Content-Type": CONTENT_TYPE,
        **{f"{prefix}-Signature-Timestamp": str(at) for prefix in PREFIXES},
        **{f"{prefix}-Signature": signature for prefix in PREFIXES},
    }


def signature_of(body: bytes, key: str, at: int) -> str:
    """Lower-case hexadecimal HMAC-SHA256 of the time, a comma and the body."""
    return hmac.new(key.encode(), f"{at},".encode() + body, hashlib.sha256).hexdigest()
