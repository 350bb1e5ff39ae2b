"""Budgets in USD per hour and per month, of pools, of users, and of the whole cluster; and what was spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from provisioner.money.months import month_end


class WhenSpent(StrEnum):
    """What happens to running work once a budget is spent."""

    KEEP = "keep"
    PREEMPT = "preempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """None: no limit."""

    usd_per_hour: float | None = None
    """Of all machines at a time."""
    usd_per_month: float | None = None
    """In a calendar month, UTC."""
    when_spent: WhenSpent = WhenSpent.KEEP

    def __bool__(self) -> bool:
        return self.usd_per_hour is not None or self.usd_per_month is not None


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Of the cluster and its users; those of pools are in their settings."""

    cluster: Budget = NO_BUDGET
    each_user: Budget = NO_BUDGET
    users: Mapping[str, Budget] = field(default_factory=dict)
    """By username, instead of `each_user`."""

    def of_user(self, name: str) -> Budget:
        return self.users.get(name, self.each_user) if name else NO_BUDGET

    @property
    def limit_users(self) -> bool:
        return bool(self.each_user) or any(self.users.values())


NO_BUDGETS = Budgets()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpending:
    """What users' work on elastic machines cost in the month of `at`, and costs then. By username."""

    at: float = 0.0
    month_usd: Mapping[str, float] = field(default_factory=dict)
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)

    def month_usd_of(self, name: str, now: float, usd_per_hour: float) -> float:
        """By now, at the rate of now; of a month that began since, only that."""
        since, known = self.at, self.month_usd.get(name, 0.0)
        if month_end(since) <= now:
            since, known = month_end(since), 0.0
        return known + usd_per_hour * max(0.0, now - since) / 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What machines cost in the current month so far, gone ones included."""

    pools: Mapping[str, float] = field(default_factory=dict)
    users: UserSpending = field(default_factory=UserSpending)

    @property
    def cluster(self) -> float:
        return sum(self.pools.values())


def _nobody_spent() -> UserSpending:
    return UserSpending()


@dataclass(frozen=True, slots=True)
class Money:
    """The budgets and what counts against them, as the planner reads them."""

    budgets: Budgets = NO_BUDGETS
    users: Callable[[], UserSpending] = _nobody_spent
    """As it is known now."""


NO_LIMITS = Money()
