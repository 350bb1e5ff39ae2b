"""Budgets in USD per hour and per month, of pools, of users, and of the whole cluster; and what was spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from master.core.expconf.models.schema import Number, Section
from provisioner.money.months import month_end

Usd = Annotated[Number, Field(ge=0)]


class WhenSpent(StrEnum):
    """What happens to running work once a budget is spent."""

    KEEP = "keep"
    PREEMPT = "preempt"


class Budget(Section):
    """What machines may cost."""

    usd_per_hour: Usd | None = None
    """Of all machines at a time."""
    usd_per_month: Usd | None = None
    """In a calendar month, UTC."""

    def __bool__(self) -> bool:
        return self.usd_per_hour is not None or self.usd_per_month is not None

    @property
    def preempts(self) -> bool:
        """Running work leaves in time, once it is spent."""
        return False


NO_BUDGET = Budget()


class PoolBudget(Budget):
    """What the machines of a pool may cost."""

    when_spent: WhenSpent = Field(default=WhenSpent.KEEP, strict=False)
    """Of usd_per_month: keep what runs, or preempt it in time."""

    @property
    def preempts(self) -> bool:
        return self.when_spent is WhenSpent.PREEMPT


class ClusterBudget(PoolBudget):
    """What all elastic pools together may cost, and the work of users."""

    each_user: Budget = NO_BUDGET
    """The share of machines that the work of one user holds."""
    users: dict[str, Budget] = Field(default_factory=dict)
    """By username, instead of each_user."""

    def of_user(self, name: str) -> Budget:
        return self.users.get(name, self.each_user) if name else NO_BUDGET

    @property
    def limit_users(self) -> bool:
        return bool(self.each_user) or any(self.users.values())


NO_BUDGETS = ClusterBudget()


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
    """The budget and what counts against them, as the planner reads them."""

    budget: ClusterBudget = NO_BUDGETS
    users: Callable[[], UserSpending] = _nobody_spent
    """As it is known now."""


NO_LIMITS = Money()
