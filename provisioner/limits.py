"""How much more a pool may buy: machines and money. Every purchase of a plan is booked here before it is made."""

from __future__ import annotations

from math import inf

from master.core.reasons import Reason, ReasonKind
from provisioner.plan_types import PoolInput
from provisioner.types import Offer

ROUNDING_USD = 1e-9


class Limits:
    """What is left of the limits of one pool within one plan."""

    def __init__(self, pool: PoolInput) -> None:
        settings = pool.settings
        self.places = max(0, settings.max_instances - len(pool.machines))
        """Machines below `max_instances`."""
        limit = settings.usd_per_hour_limit
        spent = sum(machine.offer.usd_per_hour for machine in pool.machines)
        self._pool = settings.pool
        self._usd_limit = limit
        self._usd_left = inf if limit is None else max(0.0, limit - spent)

    def affordable(self, offer: Offer) -> int:
        """How many more machines of that offer are allowed."""
        if offer.usd_per_hour <= 0 or self._usd_left == inf:
            return self.places
        return min(self.places, int((self._usd_left + ROUNDING_USD) // offer.usd_per_hour))

    def bought(self, offer: Offer, machines: int) -> None:
        self.places -= machines
        self._usd_left -= offer.usd_per_hour * machines

    def reason(self, usd: float) -> Reason:
        """Why machines for `usd` per hour are not bought although they are to be had."""
        return Reason(
            kind=ReasonKind.OVER_BUDGET,
            text=f"needs {usd:.2f} USD per hour more, which would exceed the budget of pool {self._pool} "
            f"({self._usd_limit or 0.0:.2f} USD per hour)",
        )
