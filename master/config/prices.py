"""`prices`: what machines cost."""

from __future__ import annotations

from datetime import timedelta

from master.core.expconf.models.durations import NonNegativeDuration, PositiveDuration
from master.core.expconf.models.schema import Items, Section
from provisioner.money.price_book import STALE_AFTER, PriceOverride, Share


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

    def rules(self) -> tuple[PriceOverride, ...]:
        return (
            *self.overrides,
            *([PriceOverride(discount=self.discount)] if self.discount else []),
        )
