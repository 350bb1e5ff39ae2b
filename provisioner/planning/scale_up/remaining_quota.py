"""What is left of quotas that providers tell beforehand, within one plan: nothing is asked for beyond. Pure."""

from __future__ import annotations

from math import floor, inf

from master.core.reasons import Reason, ReasonKind
from provisioner.planning.explain import offer_name
from provisioner.planning.plan_types import Machine, MachinePhase, PlanInput
from provisioner.types import Offer, Quota


class QuotasLeft:
    """Over all pools. What the provider has not counted is: launches without an answer, and machines since then."""

    def __init__(self, state: PlanInput) -> None:
        self._used: dict[tuple[str, str], float] = {}
        for pool in state.pools:
            sold = {offer.key: offer for offer in pool.offers if offer.quota is not None}
            by_identity: dict[int, Offer] = {}
            for machine in pool.machines if sold else ():
                offer = by_identity.get(id(machine.offer))
                if offer is None:
                    # Machines keep the offer they were bought by, with what was known then.
                    offer = sold.get(machine.offer.key, machine.offer)
                    by_identity[id(machine.offer)] = offer
                if offer.quota is not None and _is_uncounted(machine, offer.quota, state.now):
                    self.bought(offer, 1)

    def machines(self, offer: Offer) -> float:
        """How many more of that offer are within its quota; infinite if nothing is known."""
        quota = offer.quota
        if quota is None or quota.each <= 0:
            return inf
        used = self._used.get((offer.key.provider, quota.name), 0.0)
        return max(0, floor((quota.left - used) / quota.each))

    def reason(self, offer: Offer, machines: int) -> Reason | None:
        """Why so many of that offer are not asked for. None: it has no quota that is known."""
        quota = offer.quota
        if quota is None:
            return None
        left = max(0.0, quota.left - self._used.get((offer.key.provider, quota.name), 0.0))
        needs = f"needs {machines * quota.each:g} of quota {quota.name}"
        text = f"{offer_name(offer)}: {needs}, {left:g} are left"
        return Reason(kind=ReasonKind.QUOTA, text=text)

    def bought(self, offer: Offer, machines: int) -> None:
        if offer.quota is not None:
            key = (offer.key.provider, offer.quota.name)
            self._used[key] = self._used.get(key, 0.0) + machines * offer.quota.each


def _is_uncounted(machine: Machine, quota: Quota, now: float) -> bool:
    if machine.asking:
        return machine.phase is MachinePhase.COMING
    return quota.counted_at is not None and now - machine.age_s > quota.counted_at
