"""What is left of quotas that providers tell beforehand, within one plan: nothing is asked for beyond. Pure."""

from __future__ import annotations

from math import floor, inf

from master.core.reasons import Reason, ReasonKind
from provisioner.explain import offer_name
from provisioner.plan_types import Phase, PlanInput
from provisioner.types import Offer


def over_quota(offer: Offer, machines: int) -> Reason | None:
    """Why so many of that offer are not asked for. None: it has no quota that is known."""
    quota = offer.quota
    if quota is None:
        return None
    needs = f"needs {machines * quota.each:g} of quota {quota.name}"
    text = f"{offer_name(offer)}: {needs}, {quota.left:g} are left"
    return Reason(kind=ReasonKind.QUOTA, text=text)


class QuotasLeft:
    """Over all pools. Launches that were not answered yet are not in what the provider counted."""

    def __init__(self, state: PlanInput) -> None:
        self._used: dict[tuple[str, str], float] = {}
        for pool in state.pools:
            for machine in pool.machines:
                if machine.asking and machine.phase is Phase.COMING:
                    self.bought(machine.offer, 1)

    def machines(self, offer: Offer) -> float:
        """How many more of that offer are within its quota; infinite if nothing is known."""
        quota = offer.quota
        if quota is None or quota.each <= 0:
            return inf
        used = self._used.get((offer.key.provider, quota.name), 0.0)
        return max(0, floor((quota.left - used) / quota.each))

    def bought(self, offer: Offer, machines: int) -> None:
        if offer.quota is not None:
            key = (offer.key.provider, offer.quota.name)
            self._used[key] = self._used.get(key, 0.0) + machines * offer.quota.each
