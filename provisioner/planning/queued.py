"""Launches that nobody counts on any more: who waits for them tries other offers, too. Pure.

Those that their provider has accepted and not delivered for a while are kept, and cancelled once another offer has
delivered. Those that it has not answered count against all limits until it is known what became of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from provisioner.planning.bins import Bin
from provisioner.planning.plan_types import Machine, PoolInput
from provisioner.types import OfferKey

UNANSWERED_S = 10.0
"""A provider that has not answered a launch for so long is not waited for. Their answers take a second or two."""


def is_unanswered(machine: Machine) -> bool:
    return machine.asking and machine.unanswered_s >= UNANSWERED_S


class Overdue:
    """The launches of one pool that nobody counts on any more, and the gangs that still wait for them."""

    def __init__(self, pool: PoolInput) -> None:
        patience_s = pool.settings.on_demand_after_s
        machines = [
            m for m in pool.machines if is_unanswered(m) or (m.queued and m.age_s >= patience_s)
        ]
        self.names = frozenset(machine.name for machine in machines)
        waiting = {gang.request_id for gang in pool.demand.gangs} if machines else ()
        self.held: dict[str, list[Machine]] = {}
        """Gang -> what is queued for it."""
        for machine in machines:
            for request_id in machine.claims:
                if request_id in waiting:
                    self.held.setdefault(request_id, []).append(machine)
        silent = {m.offer.key.provider for m in machines if is_unanswered(m)}
        no_answer = frozenset(o.key for o in pool.offers if o.key.provider in silent)
        self.offers: Mapping[str, frozenset[OfferKey]] = {
            request_id: no_answer.union(machine.offer.key for machine in of)
            for request_id, of in self.held.items()
        }
        """Gang -> the offers where it need not ask again: it is queued there, or their provider does not answer."""

    def still_wanted(
        self, served_by: Mapping[str, tuple[Bin, ...]], pool: PoolInput
    ) -> Collection[str]:
        """Those that some gang waits for that no machine that exists is for."""
        coming = {m.name for m in pool.machines if m.asking or m.queued}
        unmet = {
            request_id
            for request_id in self.held
            if not (bins := served_by.get(request_id)) or any(b.name in coming for b in bins)
        }
        return {machine.name for id_ in unmet for machine in self.held[id_]}
