"""Which offers may be bought now, over all pools: none that a block covers, and recovering ones one probe at a time."""

from __future__ import annotations

from collections.abc import Iterable

from provisioner.capacity.memory import Block, CapacityMemory
from provisioner.capacity.refusals import BlockKind
from provisioner.planning.plan_types import MachinePhase, PlanInput
from provisioner.planning.scale_up.remaining_quota import QuotasLeft
from provisioner.types import Offer, Scope

MAX_INDEPENDENT_GROUP = 8
"""Machines per launch when they do not belong to one gang: one refused call costs at most so many at once."""


class OpenOffers:
    """What memory allows at one instant. Changes only by what the plan itself buys."""

    def __init__(self, state: PlanInput) -> None:
        self.now = state.now
        self.memory: CapacityMemory = state.memory
        self.unseen = {
            offer.key: why
            for pool in (state.pools if state.unseen else ())
            for offer in pool.offers
            if (why := state.unseen_because(offer)) is not None
        }
        """Offers where it is not known what exists, and why."""
        self.quotas = QuotasLeft(state)
        self.version = 0
        """Changes whenever an offer closes."""
        self._covering: dict[int, tuple[Block, ...]] = {}
        """By the identity of an offer: the snapshot keeps them all."""
        self._probed: set[Scope] = set()
        """Keys whose probe is under way."""
        for pool in state.pools:
            for machine in pool.machines:
                if machine.phase is MachinePhase.COMING:
                    self._probed.update(
                        block.scope
                        for block in self._blocks(machine.offer)
                        if machine.asking or block.kind is BlockKind.BOOT
                    )

    def is_open(self, offer: Offer) -> bool:
        return self.may_buy(offer) and not self._is_spared(offer)

    def may_buy(self, offer: Offer) -> bool:
        """Open, or only spared because a machine of it is taken back: for whom no other offer serves."""
        if self.unseen and offer.key in self.unseen:
            return False
        if offer.quota is not None and self.quotas.machines(offer) < 1:
            return False
        blocks = self._blocks(offer)
        return not blocks or not any(
            (block.is_shut(self.now) and block.kind is not BlockKind.TAKEN_BACK)
            or block.scope in self._probed
            for block in blocks
        )

    def has_refused(self, offer: Offer) -> bool:
        """It is shut, over its quota, or nobody knows what exists there. One that is being probed is not."""
        if offer.quota is not None and self.quotas.machines(offer) < 1:
            return True
        shut = any(block.is_shut(self.now) for block in self._blocks(offer))
        return shut or offer.key in self.unseen

    def only_open(self, offers: Iterable[Offer]) -> list[Offer]:
        return [offer for offer in offers if self.is_open(offer)]

    def only_spared(self, offers: Iterable[Offer]) -> list[Offer]:
        """Those that nothing else keeps from being bought."""
        return [offer for offer in offers if self._is_spared(offer) and self.may_buy(offer)]

    def _is_spared(self, offer: Offer) -> bool:
        blocks = self._blocks(offer)
        return bool(blocks) and any(
            block.kind is BlockKind.TAKEN_BACK and block.is_shut(self.now) for block in blocks
        )

    def most(self, offer: Offer) -> int | None:
        """How many machines that belong together in no gang one purchase may have; None: as many as wanted.

        1 means that the offer is being probed: one purchase, then it is closed until the answer is known. A launch is
        all or nothing: asked for more than there is, a provider with a little left would refuse for ever.
        """
        return 1 if self._blocks(offer) else None

    def bought(self, offer: Offer) -> None:
        """A launch of it is in the plan."""
        blocks = self._blocks(offer)
        if blocks:
            self._probed.update(block.scope for block in blocks)
        if blocks or (offer.quota is not None and self.quotas.machines(offer) < 1):
            self.version += 1

    def _blocks(self, offer: Offer) -> tuple[Block, ...]:
        known = self._covering.get(id(offer))
        if known is None:
            known = self._covering[id(offer)] = tuple(self.memory.covering(offer))
        return known
