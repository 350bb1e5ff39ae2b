"""Requests and agents in, starts and releases out: `decide(PoolState) -> Decision`. Pure.

Each policy is one module of `policies` with a `decide` of its own; what they share has a module each: `fitting` (where
a gang can be placed), `queue_order` (who is before whom), `ledger` (the state by jobs), `usage` (slots in use),
`availability` (slots as they will be), `victims` (what to ask back), `decision_builder` (a decision in the making),
`aux_places` (zero-slot tasks), `explain` and `unplaced` (why something waits). Around every policy stand `limits` (a
`max_slots` that was lowered) and `guard` (gangs that starve: `reservations`, `release_forecast`), `end_times` (agents
that will end) and `unfit_agents` (machines that are not what a request asks for).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from master.core.scheduler.end_times import explain_kept_off, keep_off_ending
from master.core.scheduler.guard import decide_guarded
from master.core.scheduler.limits import over_limit
from master.core.scheduler.policies import fair_share, priority, round_robin
from master.core.scheduler.types import Decision, PoolState
from master.core.scheduler.unfit_agents import explain_unfit, keep_off_unfit

POLICIES: dict[str, Callable[[PoolState], Decision]] = {
    "fair_share": fair_share.decide,
    "priority": priority.decide,
    "round_robin": round_robin.decide,
}


def decide(pool: PoolState) -> Decision:
    """What to start and what to release now, and why the rest waits. The same state always gives the same answer."""
    pool, unfit = keep_off_unfit(pool)
    pool, kept_off = keep_off_ending(pool)
    pool, surplus = over_limit(pool)
    decision = decide_guarded(pool, POLICIES[pool.settings.type])
    decision = explain_kept_off(pool, decision, kept_off)
    decision = explain_unfit(pool, decision, unfit)
    return replace(decision, release=(*surplus, *decision.release)) if surplus else decision
