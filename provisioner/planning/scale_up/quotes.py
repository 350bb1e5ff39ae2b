"""What each kind of gang may buy now, and in which order: what is paid for anyway, then spot, then on-demand.

On-demand waits until every spot offer that could hold the gang has refused, or until the gang has waited for
`on_demand_after`; where it is cheaper than spot, with all that spot brings, it need not wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from provisioner.capacity.open_offers import OpenOffers
from provisioner.money.expected_cost import DEFAULT_RUN_S, slot_usd_of, slowdown, usd_per_hour
from provisioner.planning.bins import WholePlace, whole_place
from provisioner.planning.gang_classes import GangClass, Wants, nodes_needed
from provisioner.planning.plan_types import PoolInput
from provisioner.planning.scale_up.purchase import Quote, cheapest_by_size
from provisioner.types import PAID_MARKETS, MachineFacts, Market, Offer


class Row(NamedTuple):
    """The cheapest of some offers."""

    by_size: list[Quote]
    by_network: list[Quote]
    """Of each size and network, for gangs over several machines."""


class Shelf(NamedTuple):
    """For gangs that want the same: the cheapest offers that are open."""

    paid: Row
    patient: Row
    """Without on-demand that is dearer than spot."""
    all: Row
    spot_sizes: frozenset[int]
    """Of spot that did not refuse, being probed or not."""
    spared: Row
    """Spot of which a machine is taken back now."""


class Quotes:
    """The offers of one pool as its gangs see them. Lives for one plan; follows what that plan buys."""

    def __init__(self, pool: PoolInput, open_offers: OpenOffers, now: float) -> None:
        self.open_offers = open_offers
        self._offers = pool.offers
        self._now = now
        self._memory = open_offers.memory
        self._facts: dict[int, MachineFacts] = {}
        self._shelves: dict[tuple[Wants, int], Shelf] = {}
        self._over_nodes: dict[tuple[int, Wants, int], list[Quote]] = {}
        """By row, wants and slots."""
        self._at: dict[WholePlace, list[Offer]] = {}
        self._version = -1
        self.end = any(offer.end_of(now) is not None for offer in pool.offers)
        """Some offer's machines end by themselves."""
        markets = {offer.key.market for offer in pool.offers}
        self.have_both = {Market.SPOT, Market.ON_DEMAND} <= markets
        """On-demand may have to wait for spot."""
        self.run_matters = (
            len({(o.boot_s, o.interruptions_per_hour, o.starts_at) for o in pool.offers}) > 1
        )
        """Which offer is cheapest depends on how long work runs."""
        self._slot_usd = slot_usd_of(pool.offers)
        self._gbps_per_slot = pool.settings.network_gbps_per_slot
        self._slowed_sizes = {o.slots for o in pool.offers if self.slowdown_over(o, 2) > 1.0}
        """Of machines that run slower together than alone."""

    def facts(self, offer: Offer) -> MachineFacts:
        facts = self._facts.get(id(offer))
        if facts is None:
            facts = self._facts[id(offer)] = offer.facts
        return facts

    def lasts_s(self, offer: Offer) -> float:
        """How long a machine bought now is of use."""
        ready_at = self._now + self._memory.boot_p50_s(offer)
        end = offer.end_of(ready_at)
        return inf if end is None else end - ready_at

    def is_lasting(self, offer: Offer, least_s: float) -> bool:
        return not self.end or not least_s or self.lasts_s(offer) >= least_s

    def suits(self, offer: Offer, gangs: GangClass) -> bool:
        """Whether its machines are what these gangs want, now or when they are to be had again."""
        wants = gangs.wants
        if offer.key in wants.queued_at:
            return False
        if wants.requires is not None:
            machines = nodes_needed(gangs.slots, gangs.single_agent, offer.slots) or 1
            if not wants.requires.are_met_by(self.facts(offer), machines):
                return False
        return self.is_lasting(offer, wants.least_s)

    def suitable(self, gangs: GangClass) -> list[Offer]:
        return [offer for offer in self._offers if self.suits(offer, gangs)]

    def of(self, gangs: GangClass, *, over_nodes: bool = False) -> list[Quote]:
        """What these gangs may buy now; largest size first. What is spared only if nothing else would do.

        `over_nodes`: where a gang takes several machines, with what the network between them costs.
        """
        row = self._row(gangs)
        if over_nodes and any(0 < size < gangs.slots for size in self._slowed_sizes):
            return self._priced_over_nodes(row, gangs)
        return row.by_size

    def _row(self, gangs: GangClass) -> Row:
        shelf = self._shelf(gangs)
        if _hold(gangs, shelf.paid.by_size):
            return shelf.paid
        if self.waits_for_spot(gangs):
            return shelf.patient
        spared = shelf.spared.by_size and not _hold(gangs, shelf.all.by_size)
        return shelf.spared if spared and _hold(gangs, shelf.spared.by_size) else shelf.all

    def _priced_over_nodes(self, row: Row, gangs: GangClass) -> list[Quote]:
        key = (id(row.by_network), gangs.wants, gangs.slots)
        quotes = self._over_nodes.get(key)
        if quotes is None:
            priced = (
                Quote(x.offer, self._usd(x.offer, gangs.wants, gangs.slots)) for x in row.by_network
            )
            quotes = self._over_nodes[key] = cheapest_by_size(priced)
        return quotes

    def waits_for_spot(self, gangs: GangClass) -> bool:
        """On-demand is not bought yet: some spot offer that could hold them has not refused."""
        if not self.have_both or gangs.wants.late:
            return False
        return any(_holds(gangs, size) for size in self._shelf(gangs).spot_sizes)

    def at(self, where: WholePlace, gangs: GangClass) -> list[Quote]:
        """What these gangs may buy of machines of that size in that place."""
        if self._version != self.open_offers.version or not self._at:
            self._at = {}
            for offer in self.open_offers.only_open(self._offers):
                known = self._at.setdefault(whole_place(offer.slots, self.facts(offer)), [])
                known.append(offer)
        patient = self.waits_for_spot(gangs)
        return [
            Quote(offer, self._usd(offer, gangs.wants, gangs.slots))
            for offer in self._at.get(where, ())
            if self.suits(offer, gangs) and not (patient and offer.key.market is Market.ON_DEMAND)
        ]

    def usd(self, offer: Offer, gangs: GangClass) -> float:
        """What an hour of the work of these gangs is expected to cost on one of its machines."""
        return self._usd(offer, gangs.wants, gangs.slots)

    def slowdown(self, offer: Offer, gangs: GangClass) -> float:
        """How much longer their work takes on its machines than on a single one."""
        machines = nodes_needed(gangs.slots, gangs.single_agent, offer.slots) or 1
        return self.slowdown_over(offer, machines)

    def slowdown_over(self, offer: Offer, machines: int) -> float:
        """The same, of a run over so many machines."""
        return slowdown(offer, machines, self._gbps_per_slot)

    def cheapest(self) -> list[Quote]:
        """Of each size, for whoever asks for nothing and does not wait; what is paid for anyway before all else."""
        shelf = self._shelf_of(Wants(late=True), None)
        paid = {quote.offer.slots for quote in shelf.paid.by_size}
        sold = shelf.all.by_size or shelf.spared.by_size
        others = [quote for quote in sold if quote.offer.slots not in paid]
        return sorted([*shelf.paid.by_size, *others], key=lambda quote: -quote.offer.slots)

    def open_kinds(self) -> list[Offer]:
        """Of each size, GPU, market and place the cheapest that is open: what could still be launched."""
        kinds: dict[tuple[int, MachineFacts], Offer] = {}
        for offer in self.open_offers.only_open(self._offers):
            kinds.setdefault((offer.slots, self.facts(offer)), offer)
        return list(kinds.values())

    def _shelf(self, gangs: GangClass) -> Shelf:
        return self._shelf_of(gangs.wants, gangs)

    def _shelf_of(self, wants: Wants, gangs: GangClass | None) -> Shelf:
        if self._version != self.open_offers.version:
            self._version = self.open_offers.version
            self._shelves = {}
            self._over_nodes = {}
            self._at = {}
        # How many machines there are matters to what all of them cost, and to whether they are close.
        several = wants.requires is not None and gangs is not None
        key = (wants, gangs.slots if several and gangs is not None else 0)
        shelf = self._shelves.get(key)
        if shelf is None:
            offers = (
                [
                    offer
                    for offer in self._offers
                    if offer.key not in wants.queued_at and self.is_lasting(offer, wants.least_s)
                ]
                if wants.requires is None or gangs is None
                else self.suitable(gangs)
            )
            shelf = self._shelves[key] = self._filled(offers, wants)
        return shelf

    def _filled(self, offers: Sequence[Offer], wants: Wants) -> Shelf:
        quotes = [
            Quote(offer, self._usd(offer, wants)) for offer in self.open_offers.only_open(offers)
        ]
        spot = [
            Quote(offer, self._usd(offer, wants))
            for offer in offers
            if offer.key.market is Market.SPOT and not self.open_offers.has_refused(offer)
        ]
        sold = [quote for quote in quotes if quote.offer.key.market not in PAID_MARKETS]
        bargain = min((_per_slot(quote) for quote in spot), default=inf)

        every = self._cheapest(sold)

        def is_patient(quote: Quote) -> bool:
            return quote.offer.key.market is not Market.ON_DEMAND or _per_slot(quote) < bargain

        return Shelf(
            paid=self._cheapest(q for q in quotes if q.offer.key.market in PAID_MARKETS),
            patient=self._cheapest(filter(is_patient, sold)) if self.have_both else every,
            all=every,
            spot_sizes=frozenset(quote.offer.slots for quote in spot),
            spared=self._cheapest(
                Quote(offer, self._usd(offer, wants))
                for offer in self.open_offers.only_spared(offers)
            ),
        )

    def _cheapest(self, quotes: Iterable[Quote]) -> Row:
        if not self._slowed_sizes:
            found = cheapest_by_size(quotes)
            return Row(found, found)
        by_network = cheapest_by_size(quotes, apart=_network)
        return Row(cheapest_by_size(by_network), by_network)

    def _usd(self, offer: Offer, wants: Wants, slots: int = 0) -> float:
        """For gangs of so many slots."""
        slower = 1.0
        if offer.slots < slots and offer.slots in self._slowed_sizes:
            slower = self.slowdown_over(offer, nodes_needed(slots, False, offer.slots) or 1)
        return usd_per_hour(
            offer,
            run_s=wants.run_s or DEFAULT_RUN_S,
            boot_s=self._memory.boot_p50_s(offer),
            slot_usd=self._slot_usd,
            now=self._now,
            slower=slower,
        )


def _holds(gangs: GangClass, size: int) -> bool:
    return nodes_needed(gangs.slots, gangs.single_agent, size) is not None


def _hold(gangs: GangClass, quotes: Sequence[Quote]) -> bool:
    """Whether one of them does."""
    return any(_holds(gangs, quote.offer.slots) for quote in quotes)


def _per_slot(quote: Quote) -> float:
    return quote.usd / max(1, quote.offer.slots)


def _network(offer: Offer) -> float:
    return offer.network_gbps or 0.0
