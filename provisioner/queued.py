"""Launches that their provider has accepted and not delivered for a while: who waits for them tries other offers, too.

Such a launch is kept, and cancelled once another offer has delivered. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from provisioner.bins import Bin
from provisioner.plan_types import Machine, PoolInput
from provisioner.types import OfferKey


class Overdue:
    """The queued launches of one pool that nobody counts on any more, and the gangs that still wait for them."""

    def __init__(self, pool: PoolInput) -> None:
        patience_s = pool.settings.on_demand_after_s
        machines = [m for m in pool.machines if m.queued and m.age_s >= patience_s]
        self.names = frozenset(machine.name for machine in machines)
        waiting = {gang.request_id for gang in pool.demand.gangs} if machines else ()
        self.held: dict[str, list[Machine]] = {}
        """Gang -> what is queued for it."""
        for machine in machines:
            for request_id in machine.claims:
                if request_id in waiting:
                    self.held.setdefault(request_id, []).append(machine)
        self.offers: Mapping[str, frozenset[OfferKey]] = {
            request_id: frozenset(machine.offer.key for machine in of)
            for request_id, of in self.held.items()
        }
        """Gang -> the offers where it is queued, and need not queue again."""

    def still_wanted(
        self, served_by: Mapping[str, tuple[Bin, ...]], pool: PoolInput
    ) -> Collection[str]:
        """Those that some gang waits for that no machine that exists is for."""
        coming = {m.name for m in pool.machines if m.asking or m.queued}
        unserved = {
            request_id
            for request_id in self.held
            if not (bins := served_by.get(request_id)) or any(b.name in coming for b in bins)
        }
        return {machine.name for id_ in unserved for machine in self.held[id_]}
