"""How long a storage may take to answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    connect_s: float
    request_s: float
    """For one request with its body: one part of a large file."""
    retries: int
    """After answers of 5xx and lost connections, with growing pauses."""
    retry_for_s: float


TRANSFERS = Patience(connect_s=10, request_s=300, retries=10, retry_for_s=240)
"""A part of 8 MiB in 5 minutes: slower than any line that checkpoints are sent over."""
CHECKS = Patience(connect_s=3, request_s=5, retries=1, retry_for_s=5)
"""Somebody waits for the answer."""
