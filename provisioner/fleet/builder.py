"""A fleet's state while one pass changes it."""

from __future__ import annotations

from provisioner.capacity.refusals import scope_of
from provisioner.fleet.state import CallRefused, FleetCatalogue, FleetState
from provisioner.providers.base import FoundGroup, FoundInstance
from provisioner.types import Offer


class FleetStateBuilder:
    """Copies of what may change; frozen into a new state at the end of the pass."""

    def __init__(self, state: FleetState, catalogue: FleetCatalogue, now: float) -> None:
        self.state = state
        self.catalogue = catalogue
        self.now = now
        self.intents = dict(state.intents)
        self.instances = dict(state.instances)
        self.bakes = dict(state.bakes)
        self.memory = state.memory
        self.unseen = dict(state.unseen)
        self.stages = dict(state.stages)

    def offer_of(self, found: FoundInstance | FoundGroup) -> Offer:
        """What is for sale now, or else what its tags say; a price that nobody knows is the dearest of its size."""
        setup = self.catalogue.pools.get(found.pool)
        offer = setup.offer(found.offer_key) if setup is not None else None
        if offer is not None:
            return offer
        tags = found if isinstance(found, FoundInstance) else None
        slots = (tags.slots if tags else None) or 0
        usd = tags.usd_per_hour if tags else None
        return Offer(
            key=found.offer_key,
            slots=slots,
            usd_per_hour=self.catalogue.dearest_usd(slots) if usd is None else usd,
            boot_s=0.0,
        )

    def learn(self, offer: Offer, said: CallRefused) -> None:
        """Its provider refused."""
        self.memory = self.memory.refused(
            said.scope or scope_of(said.kind, offer),
            said.kind,
            said.message,
            now=self.now,
            quota=said.quota,
            number=said.number,
            until=said.until,
        )

    def is_unseen(self, offer: Offer) -> bool:
        return any(scope.covers(offer) for scope in self.unseen)
