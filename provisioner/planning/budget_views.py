"""Budgets and what counts against them now, for people. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from provisioner.money.budgets import Budget
from provisioner.planning.plan_types import PlanInput


class BudgetKind(StrEnum):
    """Whose a budget is."""

    CLUSTER = "cluster"
    POOL = "pool"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    kind: BudgetKind
    name: str
    """Of the pool or user; empty: the cluster's."""
    budget: Budget
    spent_usd: float
    """In the month of now so far."""
    usd_per_hour: float
    """Now."""


def budget_views(state: PlanInput) -> list[BudgetView]:
    """Those that are set: the cluster's, pools', then users'."""
    rates = {
        pool.settings.pool: sum(machine.offer.usd_per_hour for machine in pool.machines)
        for pool in state.pools
    }
    spending = state.spending
    found = [
        BudgetView(
            kind=BudgetKind.CLUSTER,
            name="",
            budget=state.budget,
            spent_usd=spending.cluster,
            usd_per_hour=sum(rates.values()),
        )
    ]
    found += [
        BudgetView(
            kind=BudgetKind.POOL,
            name=name,
            budget=pool.settings.budget,
            spent_usd=spending.pools.get(name, 0.0),
            usd_per_hour=rates[name],
        )
        for pool in state.pools
        for name in [pool.settings.pool]
    ]
    users = spending.users
    for name in sorted({*state.budget.users, *users.month_usd, *users.usd_per_hour}):
        rate = users.usd_per_hour.get(name, 0.0)
        found.append(
            BudgetView(
                kind=BudgetKind.USER,
                name=name,
                budget=state.budget.of_user(name),
                spent_usd=users.month_usd_of(name, state.now, rate),
                usd_per_hour=rate,
            )
        )
    return [view for view in found if view.budget]
