"""When a waiting request will probably start."""

from __future__ import annotations

from master.core.scheduler.types import PoolState


def expected_start(pool: PoolState, request_id: str) -> float | None:
    """Seconds since the epoch; None if run times that it depends on are unknown, or if it does not wait."""
    return None
