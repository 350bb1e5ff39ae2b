"""The decision: what to launch, what to end, and why each gang waits. Pure: one snapshot in, one plan out.

All pools are planned at once, because capacity memory and probes are shared. Per pool, in this order:

1. gangs claim what exists or is coming (`provisioner.bins`), old claims first;
2. gangs over several nodes buy whole, on one offer, topping up free whole nodes of that size;
3. the rest is covered greedily by price (`provisioner.purchase`);
4. the pool's minimum is kept; idle nodes that nobody claimed go;
5. every gang gets a reason, the pool an availability.

Work is done on classes of equal gangs with counts, so ten thousand gangs cost little more than their shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from math import inf

from master.core.reasons import Reason
from provisioner import explain
from provisioner.bins import Bin, Bins, bins_of
from provisioner.demand import GangClass, gang_classes, nodes_needed
from provisioner.idle import idle_terminations, unclaimed_launches
from provisioner.limits import Limits
from provisioner.open_offers import MAX_INDEPENDENT_GROUP, OpenOffers
from provisioner.outlook import availability
from provisioner.plan_types import (
    Cancellation,
    Launch,
    Phase,
    Plan,
    PlanInput,
    PoolInput,
    Termination,
)
from provisioner.prices import usd_per_slot_hour
from provisioner.purchase import Purchase, cheapest_by_size, next_purchase, slot_share
from provisioner.types import Offer, OfferKey, PoolAvailability


def plan(state: PlanInput) -> Plan:
    """Plan all pools on one snapshot. Same input, same plan."""
    open_offers = OpenOffers(state)
    launches: list[Launch] = []
    terminations: list[Termination] = []
    cancellations: list[Cancellation] = []
    reasons: dict[str, Reason] = {}
    availabilities: list[PoolAvailability] = []
    claims: dict[str, tuple[str, ...]] = {}
    for pool in state.pools:
        planned = _PoolPlan(pool, open_offers, state.now)
        planned.run()
        launches += planned.launches
        terminations += planned.terminations
        cancellations += planned.cancellations
        reasons |= planned.reasons
        availabilities.append(planned.availability())
        claims |= planned.claims()
    return Plan(
        launches=tuple(launches),
        terminations=tuple(terminations),
        cancellations=tuple(cancellations),
        reasons=reasons,
        availabilities=tuple(availabilities),
        claims=claims,
    )


class _PoolPlan:
    """The working state of planning one pool. Lives for one call of `plan`."""

    def __init__(self, pool: PoolInput, open_offers: OpenOffers, now: float) -> None:
        self.pool = pool
        self.open_offers = open_offers
        self.now = now
        self.launches: list[Launch] = []
        self.terminations: list[Termination] = []
        self.cancellations: list[Cancellation] = []
        self.reasons: dict[str, Reason] = {}
        self._machines = {machine.name: machine for machine in pool.machines}
        bins = bins_of(pool, now)
        self._bins = Bins(bins)
        self._offers_end = any(offer.end_of(now) is not None for offer in pool.offers)
        self._timed = self._offers_end or any(node.left_s < inf for node in bins)
        self._limits = Limits(pool)
        self._open: dict[float, list[Offer]] = {}
        """By how long they must last."""
        self._open_version = -1

    def run(self) -> None:
        gangs = self.pool.demand.gangs
        self._bins.honour_old_claims(gangs)
        self._bins.index()
        classes = gang_classes(gangs, without=self._bins.claimed.by_request, timed=self._timed)
        for gang_class in classes:
            self._bins.place(gang_class)
        if self.pool.hold is None:
            waiting = [gang_class for gang_class in classes if gang_class.left]
            for gang_class in waiting:
                self._buy_over_nodes(gang_class)
            for least_s in sorted({each.least_s for each in waiting}, reverse=True):
                alike = [each for each in waiting if each.least_s == least_s]
                self._buy_single(alike, least_s)
            self._buy_aux(waiting)
            self._keep_minimum()
        self._explain(classes)
        claimed = {node.name for node in self._bins.all if node.claims}
        self.cancellations = list(unclaimed_launches(self.pool, claimed))
        self.terminations = list(idle_terminations(self.pool, claimed))

    def claims(self) -> dict[str, tuple[str, ...]]:
        return {
            node.name: tuple(node.claims)
            for node in self._bins.all
            if node.coming and tuple(node.claims) != node.old_claims
        }

    def _open_offers(self, least_s: float = 0.0) -> list[Offer]:
        """Of each size the cheapest offer that is not blocked and lasts so long; largest first."""
        if self._open_version != self.open_offers.version:
            self._open_version = self.open_offers.version
            self._open = {}
        if not self._offers_end:
            least_s = 0.0
        if least_s not in self._open:
            able = self.open_offers.only_open(self._lasting(least_s))
            self._open[least_s] = cheapest_by_size(able)
        return self._open[least_s]

    def _lasting(self, least_s: float) -> Sequence[Offer]:
        """Offers whose machines, bought now, are of use for so long."""
        if not self._offers_end or not least_s:
            return self.pool.offers
        return [offer for offer in self.pool.offers if self._lasts_s(offer) >= least_s]

    def _lasts_s(self, offer: Offer) -> float:
        ready_at = self.now + self.open_offers.memory.boot_p50_s(offer)
        end = offer.end_of(ready_at)
        return inf if end is None else end - ready_at

    def _buyable(self, least_s: float = 0.0) -> list[Offer]:
        return [offer for offer in self._open_offers(least_s) if self._limits.affordable(offer)]

    def _buy(
        self, offer: Offer, groups: Sequence[tuple[tuple[str, ...], ...]], ids: Iterable[str]
    ) -> None:
        """Ask for groups of machines: for each group, for each machine, its claims. `ids`: all gangs in them, once."""
        pool = self.pool.settings.pool
        self.launches += [Launch(pool=pool, offer=offer, claims=claims) for claims in groups]
        machines = sum(map(len, groups))
        self._limits.bought(offer, machines)
        self.open_offers.bought(offer)
        self.reasons.update(dict.fromkeys(ids, explain.asking_now(offer, len(groups[0]))))

    def _buy_over_nodes(self, gangs: GangClass) -> None:
        """Gangs that take several nodes: whole, on one offer, free whole nodes of that size counted in."""
        if gangs.single_agent or gangs.slots == 0:
            return
        while gangs.left:
            choice = self._cheapest_over_nodes(gangs)
            if choice is None:
                return
            offer, bins, missing = choice
            times = 1 if bins else min(gangs.left, self._limits.affordable(offer) // missing)
            if self.open_offers.most(offer) is not None:
                times = 1
            ids = gangs.take(times)
            if bins:
                self._bins.take_whole(bins, ids)
            self._buy(offer, [((request_id,),) * missing for request_id in ids], ids)

    def _cheapest_over_nodes(self, gangs: GangClass) -> tuple[Offer, list[Bin], int] | None:
        """Offer, free nodes to use beside it, machines to buy. None: one bigger node is no dearer, or nothing fits."""
        offers = self._buyable(gangs.least_s)
        best: tuple[float, int, Offer, list[Bin], int] | None = None
        whole = {size: self._bins.whole(size, gangs) for size in self._bins.whole_sizes()}
        for offer in offers:
            count = nodes_needed(gangs.slots, False, offer.slots)
            if count is None or count == 1:
                continue
            free = whole.get(offer.slots, [])
            missing = max(1, count - len(free))
            bins = free[len(free) - (count - missing) :] if count > missing else []
            if missing > self._limits.affordable(offer):
                continue
            cost = missing * offer.usd_per_hour
            if best is None or (cost, missing) < best[:2]:
                best = (cost, missing, offer, bins, missing)
        if best is None or best[0] >= slot_share(gangs.slots, offers):
            return None
        return best[2:]

    def _buy_single(self, classes: Sequence[GangClass], least_s: float) -> None:
        """Gangs that fit one node: greedy cover, many gangs to a node where that is cheaper."""
        by_slots: dict[int, list[GangClass]] = {}
        for gang_class in classes:
            if gang_class.slots and gang_class.left:
                by_slots.setdefault(gang_class.slots, []).append(gang_class)
        counts = {
            slots: sum(c.left for c in by_slots[slots]) for slots in sorted(by_slots, reverse=True)
        }
        offers = self._buyable(least_s)
        share = {slots: slot_share(slots, offers) for slots in counts}
        while offers and (purchase := next_purchase(counts, offers, share)):
            bought = min(purchase.count, self._limits.affordable(purchase.offer))
            most = self.open_offers.most(purchase.offer)
            bought = bought if most is None else min(bought, most)
            self._buy_filled(purchase, bought, by_slots)
            for slots, fits in purchase.filling.items():
                counts[slots] -= fits * bought
            offers = self._buyable(least_s)

    def _buy_filled(
        self, purchase: Purchase, count: int, by_slots: Mapping[int, list[GangClass]]
    ) -> None:
        columns = [
            (fits, _take(by_slots[slots], fits * count)) for slots, fits in purchase.filling.items()
        ]
        nodes = [
            tuple(chain.from_iterable(ids[i * fits : (i + 1) * fits] for fits, ids in columns))
            for i in range(count)
        ]
        step = MAX_INDEPENDENT_GROUP
        groups = [tuple(nodes[start : start + step]) for start in range(0, count, step)]
        self._buy(purchase.offer, groups, chain.from_iterable(nodes))

    def _buy_aux(self, classes: Sequence[GangClass]) -> None:
        """Zero-slot tasks ride on what is bought anyway, else on the cheapest machines."""
        places = self.pool.settings.aux_places
        zero_slot = [gang_class for gang_class in classes if not gang_class.slots]
        if not places or not zero_slot:
            return
        left = [
            [number, machine, places]
            for number, launch in enumerate(self.launches)
            for machine in range(launch.count)
        ]
        for gang_class in zero_slot:
            for place in left:
                number, machine, free = place
                if not gang_class.left:
                    break
                if free and self._lasts_s(self.launches[number].offer) >= gang_class.least_s:
                    ids = gang_class.take(free)
                    self._ride(number, machine, ids)
                    place[2] -= len(ids)
            while gang_class.left and (offer := self._cheapest_machine(gang_class.least_s)):
                most = self.open_offers.most(offer) or MAX_INDEPENDENT_GROUP
                count = min(-(-gang_class.left // places), self._limits.affordable(offer), most)
                machines = tuple(tuple(gang_class.take(places)) for _ in range(count))
                self._buy(offer, [machines], chain.from_iterable(machines))

    def _ride(self, number: int, machine: int, request_ids: Sequence[str]) -> None:
        """Zero-slot tasks on one machine of a launch that is bought in this plan."""
        launch = self.launches[number]
        self.launches[number] = launch.also_for(machine, request_ids)
        asked = explain.asking_now(launch.offer, launch.count)
        self.reasons.update(dict.fromkeys(request_ids, asked))

    def _cheapest_machine(self, least_s: float) -> Offer | None:
        return min(
            self._buyable(least_s), key=lambda o: (o.usd_per_hour, o.boot_s, o.key), default=None
        )

    def _keep_minimum(self) -> None:
        kept = sum(machine.phase is not Phase.OUT for machine in self.pool.machines)
        missing = self.pool.settings.min_instances - kept - sum(x.count for x in self.launches)
        while missing > 0:
            offer = min(
                self._buyable(),
                key=lambda o: (usd_per_slot_hour(o), o.usd_per_hour, o.key),
                default=None,
            )
            if offer is None:
                return
            most = self.open_offers.most(offer) or MAX_INDEPENDENT_GROUP
            count = min(missing, self._limits.affordable(offer), most)
            self._buy(offer, [((),) * count], ())
            missing -= count

    def _explain(self, classes: Sequence[GangClass]) -> None:
        texts: dict[tuple[str, ...], Reason] = {}
        for request_id, bins in self._bins.claimed.by_request.items():
            if request_id in self.reasons:
                continue  # it tops up free nodes with machines being bought: the purchase is the reason
            names = tuple(node.name for node in bins)
            reason = texts.get(names)
            if reason is None:
                coming = [self._machines[node.name] for node in bins if node.coming]
                reason = texts[names] = explain.claimed(names, coming)
            self.reasons[request_id] = reason
        open_keys = frozenset(o.key for o in self.open_offers.only_open(self.pool.offers))
        for gang_class in classes:
            if not gang_class.left:
                continue
            reason = self._unserved(gang_class, open_keys)
            self.reasons.update(dict.fromkeys(gang_class.remaining_ids(), reason))

    def _unserved(self, gangs: GangClass, open_keys: Collection[OfferKey]) -> Reason:
        lasting = self._lasting(gangs.least_s)
        if self.pool.offers and not lasting:
            return explain.ends_too_soon(gangs.least_s)
        return explain.unserved(
            gangs.slots,
            gangs.single_agent,
            pool=self.pool.settings,
            offers=lasting,
            memory=self.open_offers.memory,
            open_keys=open_keys,
            unseen=self.open_offers.unseen,
            hold=self.pool.hold,
            places_left=self._limits.places,
            now=self.now,
        )

    def availability(self) -> PoolAvailability:
        return availability(
            self.pool,
            self.reasons,
            self.launches,
            self._open_offers(),
            self._still,
            self.open_offers.memory,
            self.now,
        )

    def _still(self, offer: Offer) -> int:
        """How many of that offer could be bought after this plan."""
        if self.pool.hold is not None:
            return 0
        most = self.open_offers.most(offer)
        return (
            self._limits.affordable(offer)
            if most is None
            else min(self._limits.affordable(offer), most)
        )


def _take(classes: Sequence[GangClass], count: int) -> list[str]:
    """`count` request ids from classes that differ only in what no new node is blocked for."""
    ids: list[str] = []
    for gang_class in classes:
        if len(ids) == count:
            break
        ids += gang_class.take(count - len(ids))
    return ids
