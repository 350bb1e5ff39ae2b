"""A pass without its effects: what answers mean, and the plan that follows. In a thread where it takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeAlias, TypeVar

from provisioner.fleet.plan_input import plan_input
from provisioner.fleet.reconcile_pass import ReconcilePass
from provisioner.fleet.state import Agents, Event, FleetCatalogue, FleetState
from provisioner.journal.unmet import Weighing, weighing
from provisioner.money.budgets import Money
from provisioner.planning.plan_types import Plan
from provisioner.planning.planner import plan
from provisioner.types import PoolDemand
from windlass.base.collector import paused_collector

THREAD_FROM = 1_000
"""With so many machines and gangs a pass may take 20 ms: it leaves the event loop."""
_T = TypeVar("_T")
Decided: TypeAlias = tuple[ReconcilePass, Plan, Weighing, float]


def decide(
    state: FleetState,
    catalogue: FleetCatalogue,
    events: Sequence[Event],
    demand: Sequence[PoolDemand],
    agents: Agents,
    now: float,
    money: Money,
) -> Decided:
    """All of a pass that needs nothing but its arguments; and how long planning took, in seconds."""
    with paused_collector():
        reconcile_pass = ReconcilePass(state, catalogue, now)
        reconcile_pass.absorb(events, agents)
        begun = perf_counter()
        state = reconcile_pass.result()
        given = plan_input(state, demand, catalogue.pools, agents, now, money)
        planned = plan(given)
        planning_s = perf_counter() - begun
        known = {each.key: each for each in state.decisions.values()}
        return reconcile_pass, planned, weighing(given, planned, known), planning_s


async def computed(call: Callable[[], _T], size: int) -> _T:
    """Its answer; of many machines and gangs in a thread, where it may take long."""
    return await asyncio.to_thread(call) if size >= THREAD_FROM else call()
