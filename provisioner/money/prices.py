"""What machines cost: one instance over its life, and the whole fleet against one that never sleeps.

An offer brings its own price; this bin only adds time. Billing starts at the launch, the moment the provider was
asked, and ends when the machine is certainly gone: both err on the expensive side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from provisioner.money.months import by_month
from provisioner.types import CostView, Offer

SECONDS_PER_HOUR = 3600.0
MONTHS_KEPT = 2
"""In the ledger of the provisioner: budgets ask for the current one. The table of costs keeps all."""


def usd_for(usd_per_hour: float, seconds: float) -> float:
    return usd_per_hour * max(0.0, seconds) / SECONDS_PER_HOUR


def usd_per_slot_hour(offer: Offer) -> float:
    """What offers are compared by; an offer without slots only serves zero-slot tasks and compares last."""
    return offer.usd_per_hour / offer.slots if offer.slots else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendLedger:
    """Money that outlives the machines it was spent on. Persisted with the capacity memory."""

    gone_usd: float = 0.0
    peak_instances: int = 0
    peak_usd_per_hour: float = 0.0
    first_launch_at: float | None = None
    months: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Month -> pool -> what machines that are gone cost in it. The newest two months."""

    def with_fleet(self, *, instances: int, usd_per_hour: float, now: float) -> SpendLedger:
        """Remember the peak and the first launch."""
        if not instances:
            return self
        return replace(
            self,
            peak_instances=max(self.peak_instances, instances),
            peak_usd_per_hour=max(self.peak_usd_per_hour, usd_per_hour),
            first_launch_at=now if self.first_launch_at is None else self.first_launch_at,
        )

    def with_gone(
        self, pool: str, usd_between: Callable[[float, float], float], start: float, end: float
    ) -> SpendLedger:
        """Book a machine that is gone. Once per machine: in the commit that forgets it."""
        months = {month: dict(pools) for month, pools in self.months.items()}
        for month, since, until in by_month(start, end):
            pools = months.setdefault(month, {})
            pools[pool] = pools.get(pool, 0.0) + usd_between(since, until)
        return replace(
            self,
            gone_usd=self.gone_usd + usd_between(start, end),
            months={month: months[month] for month in sorted(months)[-MONTHS_KEPT:]},
        )

    def view(self, *, living_usd: float, usd_per_hour: float, now: float) -> CostView:
        since = 0.0 if self.first_launch_at is None else now - self.first_launch_at
        return CostView(
            spent_usd=self.gone_usd + living_usd,
            usd_per_hour=usd_per_hour,
            peak_instances=self.peak_instances,
            peak_usd_per_hour=self.peak_usd_per_hour,
            first_launch_at=self.first_launch_at,
            always_on_usd=usd_for(self.peak_usd_per_hour, since),
        )
