"""How long an idle machine is kept: as its pool says, or (`auto`) as long as that is cheaper than a new boot. Pure.

A boot costs the price of the machine while it boots, and the wait of whoever needs it. Kept idle for as long as that is
worth, and then ended, a machine costs at most twice what it would if one knew when work comes next.
"""

from __future__ import annotations

from provisioner.capacity.memory import CapacityMemory
from provisioner.money.expected_cost import WAIT_SHARE, slot_usd_of
from provisioner.planning.plan_types import Machine, PoolInput
from provisioner.types import PAID_MARKETS, Offer

LEAST_IDLE_S = 30.0
MOST_IDLE_S = 1800.0
"""Bounds of `auto`."""


class IdleTimes:
    """Of the machines of one pool, within one plan."""

    def __init__(self, pool: PoolInput, memory: CapacityMemory) -> None:
        self._settings = pool.settings
        self._memory = memory
        self._slot_usd = slot_usd_of(pool.offers) if pool.settings.idle_auto else 0.0
        self._known: dict[int, float] = {}

    def of(self, offer: Offer) -> float:
        """After so many seconds without work a machine of that offer is ended."""
        if not self._settings.idle_auto:
            return self._settings.max_idle_s
        known = self._known.get(id(offer))
        if known is None:
            boot_s = self._memory.boot_p50_s(offer)
            known = self._known[id(offer)] = break_even_s(
                offer, boot_s=boot_s, slot_usd=self._slot_usd
            )
        return known

    def limit_s(self, machine: Machine) -> float:
        """The same, and with `auto` no sooner than what its launch has paid for ends."""
        limit_s = self.of(machine.offer)
        if not self._settings.idle_auto or machine.idle_s is None:
            return limit_s
        return max(limit_s, machine.idle_s + machine.offer.least_billed_s - machine.age_s)

    def why(self, machine: Machine) -> str:
        """Why it is kept until then."""
        limit_s = self.limit_s(machine)
        if not self._settings.idle_auto:
            return f"work may come: kept for {limit_s:.0f} s (max_idle_agent_period)"
        if machine.offer.key.market in PAID_MARKETS or machine.offer.usd_per_hour <= 0:
            return f"it costs nothing more: kept for {limit_s:.0f} s"
        if limit_s > self.of(machine.offer):
            return f"its first {machine.offer.least_billed_s:.0f} s are paid for"
        boot_s = self._memory.boot_p50_s(machine.offer)
        return f"cheaper until then than another boot of {boot_s:.0f} s"


def break_even_s(offer: Offer, *, boot_s: float, slot_usd: float) -> float:
    """How long keeping a machine costs no more than a boot in its place and the wait for it.

    `slot_usd`: what an hour of a slot costs that is not waited for.
    """
    if offer.usd_per_hour <= 0 or offer.key.market in PAID_MARKETS:
        return MOST_IDLE_S
    waiting = WAIT_SHARE * slot_usd * offer.slots / offer.usd_per_hour
    return min(MOST_IDLE_S, max(LEAST_IDLE_S, boot_s * (1.0 + waiting)))
