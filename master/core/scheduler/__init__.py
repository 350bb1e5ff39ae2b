"""Requests and agents in, starts and releases out: `decide(PoolState) -> Decision`. Pure.

Each policy is one module with a `decide` of its own; what they share has a module each: `fitting` (where a gang can
be placed), `shares` (how much a job is entitled to), `victims` (what to ask back), `ledger` (the state by jobs),
`aux_places` (zero-slot tasks), `explain` (why something waits).
"""

from __future__ import annotations

from collections.abc import Callable

from master.core.scheduler import fair_share
from master.core.scheduler.types import Decision, PoolState, SchedulerType
from windlass.base.errors import InvalidConfig

POLICIES: dict[SchedulerType, Callable[[PoolState], Decision]] = {
    SchedulerType.FAIR_SHARE: fair_share.decide,
}


def decide(pool: PoolState) -> Decision:
    """What to start and what to release now, and why the rest waits. The same state always gives the same answer.

    Raises `InvalidConfig` for a policy that is not available.
    """
    policy = POLICIES.get(pool.settings.type)
    if policy is None:
        known = ", ".join(POLICIES)
        raise InvalidConfig(
            [f"scheduler.type: '{pool.settings.type}' is not available; use one of: {known}"],
            what="pool configuration",
        )
    return policy(pool)
