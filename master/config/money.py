"""`prices` and `budget`: what machines cost, and how much may be spent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from pydantic import Field, model_validator

from master.core.expconf.models.durations import NonNegativeDuration, PositiveDuration
from master.core.expconf.models.schema import Items, Number, Section
from provisioner.money.budgets import Budget, Budgets, WhenSpent
from provisioner.money.price_book import STALE_AFTER, Override
from provisioner.types import Market

Usd = Annotated[Number, Field(ge=0)]
Share = Annotated[Number, Field(ge=0, lt=1)]


class BudgetSection(Section):
    """What machines may cost."""

    usd_per_hour: Usd | None = None
    """Of all machines at a time."""
    usd_per_month: Usd | None = None
    """In a calendar month, UTC."""

    def budget(self) -> Budget:
        return Budget(usd_per_hour=self.usd_per_hour, usd_per_month=self.usd_per_month)


class PoolBudget(BudgetSection):
    """What the machines of a pool may cost."""

    when_spent: WhenSpent = Field(default=WhenSpent.KEEP, strict=False)
    """Of usd_per_month: keep what runs, or preempt it in time."""

    def budget(self) -> Budget:
        return replace(super().budget(), when_spent=self.when_spent)


class ClusterBudget(PoolBudget):
    """What all elastic pools together may cost, and the work of users."""

    each_user: BudgetSection = BudgetSection()
    """The share of machines that the work of one user holds."""
    users: dict[str, BudgetSection] = Field(default_factory=dict)
    """By username, instead of each_user."""

    def budgets(self) -> Budgets:
        users = {name: section.budget() for name, section in self.users.items()}
        return Budgets(cluster=self.budget(), each_user=self.each_user.budget(), users=users)


class PriceOverride(Section):
    """What is paid for some offers instead of their list price. Keys that are not given match any."""

    cloud: str = ""
    """aws or gcp."""
    region: str = ""
    """As the cloud calls it."""
    instance_type: str = ""
    """As the cloud calls it."""
    market: Market | None = Field(default=None, strict=False)
    """reserved, capacity_block, spot, on_demand or queued."""
    usd_per_hour: Usd | None = None
    """The price of a machine."""
    discount: Share | None = None
    """Or the share taken off the list price: 0.2 is a fifth less."""

    @model_validator(mode="after")
    def _one_of_both(self) -> PriceOverride:
        if (self.usd_per_hour is None) == (self.discount is None):
            raise ValueError("give either usd_per_hour or discount")
        return self

    def rule(self) -> Override:
        return Override(**self.model_dump())


class Prices(Section):
    """What machines cost, beside the price book that comes with the package."""

    discount: Share = 0.0
    """The share taken off every list price that no override covers."""
    overrides: Items[PriceOverride] = ()
    """The first that covers an offer counts."""
    refresh: NonNegativeDuration = timedelta(days=1)
    """Our own key: how often the price APIs of AWS and Google Cloud are asked for what pools buy there. 0: never."""
    stale_after: PositiveDuration = STALE_AFTER
    """A price book older than this is warned about."""

    def rules(self) -> tuple[Override, ...]:
        everything = (Override(discount=self.discount),) if self.discount else ()
        return (*(override.rule() for override in self.overrides), *everything)
