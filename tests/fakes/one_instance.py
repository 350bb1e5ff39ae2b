"""A fleet of one machine whose numbers are known, in place of a provisioner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from master.core.actor import Actor
from provisioner.capacity.offer_views import OfferState, OfferView
from provisioner.fleet.counters import FleetCounters
from provisioner.money.budgets import Budget
from provisioner.planning.budget_views import BudgetKind, BudgetView
from provisioner.planning.plan_types import PlanInput, PoolInput
from provisioner.planning.preview import Preview, preview
from provisioner.types import (
    BlockedOffer,
    CostView,
    Gang,
    InstanceView,
    Market,
    Offer,
    OfferKey,
    PoolDemand,
    PoolSettings,
    Scope,
)
from tests.fakes.one_bake import OneBake
from windlass.base.clock import ManualClock


class OneInstance:
    """A provisioner that has one machine, for the shape of the answer."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._refuses = True
        self.counters = FleetCounters()
        self.bakery = OneBake(clock)

    def instances(self) -> list[InstanceView]:
        now = self._clock.now().timestamp()
        return [
            InstanceView(
                id="i-1",
                pool="default",
                offer=OfferKey(provider="default", market=Market.SPOT),
                slots=8,
                usd_per_hour=2.0,
                state="booting",
                created_at=now - 10,
            ),
            InstanceView(
                id="i-0",
                pool="default",
                offer=OfferKey(provider="default"),
                slots=8,
                usd_per_hour=2.0,
                state="gone",
                created_at=now - 100,
            ),
        ]

    def blocked_offers(self) -> list[BlockedOffer]:
        now = self._clock.now().timestamp()
        key = OfferKey(provider="default", instance_type="spot")
        return [BlockedOffer(offer=key, reason="no capacity", until=now + 120)]

    def offers(self) -> list[OfferView]:
        now = self._clock.now().timestamp()
        key = OfferKey(
            provider="site", region="east", zone="east-1", instance_type="gpu-8", market=Market.SPOT
        )
        offer = Offer(
            key=key, slots=8, usd_per_hour=2.0, boot_s=60.0, gpu_model="H200", image="img-1"
        )
        unpriced = replace(offer, key=replace(key, market=Market.ON_DEMAND), usd_per_hour=inf)
        known: dict[str, Any] = {"pool": "default", "boot_s": 42.0, "is_learned": True}
        open_ = OfferView(offer=offer, state=OfferState.OPEN, **known)
        refused = replace(
            open_,
            state=OfferState.REFUSED,
            reason="no capacity",
            scope=Scope(provider="site", zone="east-1", market=Market.SPOT),
            next_try_at=now + 120,
        )
        return [refused if self._refuses else open_, replace(open_, offer=unpriced)]

    async def retry(self, key: OfferKey, *, by: Actor) -> None:
        if key.market is Market.SPOT:
            self._refuses = False

    async def preview(self, gangs: Sequence[Gang] = ()) -> Preview:
        key = OfferKey(provider="site", instance_type="gpu-8")
        pools = [
            PoolInput(
                settings=PoolSettings(pool=name, max_instances=most),
                offers=(Offer(key=key, slots=8, usd_per_hour=2.0, boot_s=60.0),),
                demand=PoolDemand(pool=name),
            )
            for name, most in (("default", 2), ("spare", 3))
        ]
        return preview(PlanInput(now=self._clock.now().timestamp(), pools=tuple(pools)), gangs)

    def budgets(self) -> list[BudgetView]:
        month = Budget(usd_per_month=10.0)
        each: dict[str, Any] = {"budget": month, "spent_usd": 2.5, "usd_per_hour": 2.0}
        return [
            BudgetView(kind=BudgetKind.POOL, name="default", **each),
            BudgetView(kind=BudgetKind.USER, name="admin", **each),
        ]

    def cost(self) -> CostView:
        return CostView(
            spent_usd=0.25,
            usd_per_hour=2.0,
            peak_instances=3,
            peak_usd_per_hour=6.0,
            first_launch_at=self._clock.now().timestamp() - 3600,
            always_on_usd=6.0,
        )
