"""`prices` and `budget`: what machines cost, and how much may be spent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from master.config.providers import PositiveDuration
from master.core.expconf.schema import Items, Number, Section
from provisioner.price_book import STALE_AFTER, Override
from provisioner.types import Market

Usd = Annotated[Number, Field(ge=0)]
Share = Annotated[Number, Field(ge=0, lt=1)]


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
    stale_after: PositiveDuration = STALE_AFTER
    """A price book older than this is warned about."""

    def rules(self) -> tuple[Override, ...]:
        everything = (Override(discount=self.discount),) if self.discount else ()
        return (*(override.rule() for override in self.overrides), *everything)
