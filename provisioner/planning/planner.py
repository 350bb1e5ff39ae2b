"""The decision: what to launch, what to end, and why each gang waits. Pure: one snapshot in, one plan out.

All pools are planned at once, because capacity memory and probes are shared. Per pool, in this order:

1. gangs claim what exists or is coming (`bins`), old claims first;
2. gangs over several nodes buy whole, on one offer in one zone, topping up free whole nodes there;
3. the rest is covered greedily by expected cost (`quotes`: who may buy what now; `purchase`: the cover), and
   part-filled machines whose gangs find room on others are left out again (`cart`);
4. the pool's minimum is kept, and what is to be ready; idle nodes that nobody claimed go (`idle`);
5. where the pool allows it, work is moved so that machines can go (`consolidation`);
6. every gang gets a reason (`explain`), the pool an availability (`availability`).

Work is done on classes of equal gangs with counts, so ten thousand gangs cost little more than their shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf

from master.core.reasons import Reason
from provisioner.capacity.open_offers import MAX_INDEPENDENT_GROUP, OpenOffers
from provisioner.planning import explain
from provisioner.planning.availability import availability
from provisioner.planning.bins import Bin, Bins, bins_of, whole_place
from provisioner.planning.gang_classes import GangClass, gang_classes, nodes_needed
from provisioner.planning.plan_types import (
    Cancellation,
    KeepReason,
    Launch,
    MachinePhase,
    Move,
    Plan,
    PlanInput,
    PoolInput,
    Termination,
)
from provisioner.planning.queued import Overdue
from provisioner.planning.scale_down.consolidation import Consolidation
from provisioner.planning.scale_down.idle import (
    idle_decision,
    leaving,
    ready_machines,
    unclaimed_launches,
)
from provisioner.planning.scale_down.idle_time import IdleTimes
from provisioner.planning.scale_down.stop_value import StopChoice, stopped_ends, with_starts
from provisioner.planning.scale_up.limits import PoolLimits, cluster_purse
from provisioner.planning.scale_up.purchase import Purchase, Quote, next_purchase, slot_share
from provisioner.planning.scale_up.purchase_list import NewNode, PurchaseList
from provisioner.planning.scale_up.quotes import Quotes
from provisioner.planning.scale_up.user_budgets import within_user_budgets
from provisioner.planning.unschedulable import UnmetDemand
from provisioner.types import Offer, PoolAvailability


def plan(state: PlanInput) -> Plan:
    """Plan all pools on one snapshot. Same input, same plan."""
    return within_user_budgets(state, _plan_pools)


def _plan_pools(state: PlanInput) -> Plan:
    open_offers = OpenOffers(state)
    cluster = cluster_purse(state)
    launches: list[Launch] = []
    terminations: list[Termination] = []
    cancellations: list[Cancellation] = []
    reasons: dict[str, Reason] = {}
    availabilities: list[PoolAvailability] = []
    claims: dict[str, tuple[str, ...]] = {}
    goes: dict[str, tuple[float, str]] = {}
    kept: dict[str, KeepReason] = {}
    moves: list[Move] = []
    for pool in state.pools:
        times = IdleTimes(pool, state.memory)
        limits = PoolLimits(pool, state, cluster, times, open_offers.quotas)
        planned = _PoolPlan(pool, open_offers, limits, times, state.now)
        planned.run()
        launches += planned.launches
        terminations += planned.terminations
        cancellations += planned.cancellations
        reasons |= planned.reasons
        availabilities.append(planned.availability())
        claims |= planned.claims()
        goes |= planned.leaving
        kept |= planned.kept
        moves += planned.moves
    return Plan(
        launches=tuple(launches),
        terminations=tuple(terminations),
        cancellations=tuple(cancellations),
        reasons=reasons,
        availabilities=tuple(availabilities),
        claims=claims,
        leaving=goes,
        kept=kept,
        moves=tuple(moves),
    )


class _PoolPlan:
    """The working state of planning one pool. Lives for one call of `plan`."""

    def __init__(
        self,
        pool: PoolInput,
        open_offers: OpenOffers,
        limits: PoolLimits,
        idle_times: IdleTimes,
        now: float,
    ) -> None:
        self.pool = pool
        self.open_offers = open_offers
        self.now = now
        self.launches: list[Launch] = []
        self.terminations: list[Termination] = []
        self.cancellations: list[Cancellation] = []
        self.moves: Sequence[Move] = ()
        self.reasons: dict[str, Reason] = {}
        self._quotes = Quotes(pool, open_offers, now)
        self._limits = limits
        self._idle_times = idle_times
        self.leaving: Mapping[str, tuple[float, str]] = {}
        self.kept: Mapping[str, KeepReason] = {}
        self._cart = PurchaseList()
        self._starts = {offer.key: offer for offer in pool.offers if offer.key.stopped}
        self._overdue = Overdue(pool)
        bins = bins_of(pool, now, self._quotes.facts, without=self._overdue.names)
        self._bins = Bins(bins)
        self._picky = False
        """Some gangs ask for certain machines."""
        self._timed = self._quotes.end or any(node.left_s < inf for node in bins)

    def run(self) -> None:
        classes = self._place_existing()
        self._picky = any(gangs.wants.requires is not None for gangs in classes)
        if self.pool.hold is None:
            waiting = [gang_class for gang_class in classes if gang_class.left]
            self._buy(waiting)
            self._keep_minimum()
        self._launch()
        self._explain(classes)
        served_by = self._bins.claimed.by_request
        claimed = {node.name for node in self._bins.all if node.claims}
        claimed.update(self._overdue.still_wanted(served_by, self.pool))
        self.cancellations = list(unclaimed_launches(self.pool, claimed, self.now))
        spent = self._limits.must_leave()
        stops = StopChoice(self.pool, self.open_offers.memory)
        idle = idle_decision(self.pool, claimed, self._idle_times, self.now, spent, stops)
        self.terminations, self.kept = list(idle.terminations), idle.kept
        if self.pool.settings.disruption.is_on and self.pool.hold is None and spent is None:
            self._consolidate()
        starts = {name for launch in self.launches for name in launch.starts}
        ends = (x for x in stopped_ends(self.pool, spent) if x.instance_id not in starts)
        self.terminations += ends
        self.leaving = leaving(self.pool, spent, self.now)

    def _consolidate(self) -> None:
        """Disrupt work where that pays."""
        facts = self._quotes.facts
        found = Consolidation(self.pool, self.open_offers, self._limits, facts, self.now)
        found.run({termination.instance_id for termination in self.terminations})
        self.moves = found.moves
        self.launches += found.launches
        self.terminations += found.terminations

    def claims(self) -> dict[str, tuple[str, ...]]:
        return {
            node.name: tuple(node.claims)
            for node in self._bins.all
            if node.coming and tuple(node.claims) != node.old_claims
        }

    def availability(self) -> PoolAvailability:
        return availability(
            self.pool,
            self.reasons,
            self.launches,
            self._could_buy(),
            self._still,
            self.open_offers.memory,
            self.now,
        )

    def _place_existing(self) -> list[GangClass]:
        """What exists or is coming is claimed first. All classes of gangs that had no claim yet."""
        gangs = self.pool.demand.gangs
        self._bins.honour_old_claims(gangs)
        self._bins.index()
        after_s = self.pool.settings.on_demand_after_s
        classes = gang_classes(
            gangs,
            without=self._bins.claimed.by_request,
            timed=self._timed,
            run_matters=self._quotes.run_matters,
            late_since=self.now - after_s if self._quotes.have_both else None,
            queued_at=self._overdue.offers,
        )
        for gang_class in classes:
            self._bins.place(gang_class)
            if self._needs_free_nodes(gang_class):
                # Smaller gangs behind it would claim them, and wait for it: neither would ever start.
                self._buy_over_nodes(gang_class, classes)
        return classes

    def _needs_free_nodes(self, gangs: GangClass) -> bool:
        """It takes several nodes, more than the pool may still buy: those that are free are a part of them."""
        places = self._limits.places
        if (
            not gangs.left
            or gangs.single_agent
            or places >= gangs.slots
            or self.pool.hold is not None
        ):
            return False
        sizes = {quote.offer.slots for quote in self._quotes.of(gangs, over_nodes=True)}
        counts = [nodes_needed(gangs.slots, False, size) for size in sizes]
        return places < min(
            (count for count in counts if count is not None and count > 1), default=0
        )

    def _buy(self, waiting: Sequence[GangClass]) -> None:
        ones = [c for c in waiting if c.slots]
        for gang_class in waiting:
            self._buy_over_nodes(gang_class, ones)
        self._buy_single(waiting)
        spared = self._cart.repair(self._quotes.suits, self._exchange)
        for offer in spared:
            self._limits.bought(offer, -1)
        if spared:
            self._buy_single(waiting)
        self._buy_aux(waiting)

    def _exchange(self, old: Offer, rest: Sequence[GangClass]) -> Offer | None:
        """The cheapest that is cheaper than this one and holds one gang of each of these classes."""
        first, size = rest[0], sum(gangs.slots for gangs in rest)
        may = [{quote.offer.key for quote in self._quotes.of(gangs)} for gangs in rest[1:]]
        fits = [
            quote
            for quote in self._buyable(self._quotes.of(first))
            if quote.offer.slots >= size and all(quote.offer.key in keys for keys in may)
        ]
        best = min(fits, key=lambda quote: (quote.usd, quote.offer.key), default=None)
        if best is None or best.usd >= self._quotes.usd(old, first):
            return None
        self._limits.bought(old, -1)
        self._book(best.offer, 1)
        return best.offer

    def _buyable(self, quotes: Sequence[Quote]) -> list[Quote]:
        """Those that the limits allow, and that nothing bought meanwhile has closed."""
        return [
            quote
            for quote in quotes
            if self._limits.affordable(quote.offer) and self.open_offers.may_buy(quote.offer)
        ]

    def _book(self, offer: Offer, machines: int) -> None:
        self._limits.bought(offer, machines)
        self.open_offers.bought(offer)

    def _buy_over_nodes(self, gangs: GangClass, ones: Sequence[GangClass]) -> None:
        """Gangs that take several nodes: whole, on one offer, free whole nodes beside it counted in."""
        if gangs.single_agent or gangs.slots == 0:
            return
        while gangs.left:
            choice = self._cheapest_over_nodes(gangs, ones)
            if choice is None:
                return
            offer, bins, missing = choice
            start, starts = self._startable(offer, missing)
            times = 1 if bins else min(gangs.left, self._limits.affordable(offer) // missing)
            if self.open_offers.most(offer) is not None or starts:
                times = 1
            ids = gangs.take(times)
            if bins:
                self._bins.take_whole(bins, ids)
            if start is not None:
                self._cart.add_gangs(start, ids, starts)
                self._book(start, starts)
            self._cart.add_gangs(offer, ids, missing - starts)
            self._book(offer, (missing - starts) * times)

    def _startable(self, offer: Offer, missing: int) -> tuple[Offer | None, int]:
        """Stopped machines of that kind, for a part of so many that are missing."""
        key = replace(offer.key, stopped=True)
        start = None if offer.key.stopped else self._starts.get(key)
        if start is None or not self.open_offers.is_open(start):
            return None, 0
        count = min(
            missing - 1, self._limits.affordable(start), self.open_offers.most(start) or missing
        )
        return (start, count) if count > 0 else (None, 0)

    def _is_for_one(self, offer: Offer, ones: Sequence[GangClass]) -> bool:
        """It is being probed, and some gang needs but one machine: where there is one left, there may be no two.

        A gang that is refused again and again would keep from it whoever could have what there is.
        """
        return self.open_offers.most(offer) is not None and any(
            gangs.left and gangs.slots <= offer.slots and self._quotes.suits(offer, gangs)
            for gangs in ones
        )

    def _cheapest_over_nodes(
        self, gangs: GangClass, ones: Sequence[GangClass]
    ) -> tuple[Offer, list[Bin], int] | None:
        """Offer, free nodes to use beside it, machines to buy. None: one bigger node is no dearer, or nothing fits."""
        quotes = self._quotes.of(gangs, over_nodes=True)
        best: tuple[float, int, Offer, list[Bin], int] | None = None
        whole = {
            where: self._bins.whole(where, gangs)
            for where in self._bins.whole_places()
            if (nodes_needed(gangs.slots, False, where[0]) or 1) > 1
        }
        beside = [quote for where in whole for quote in self._quotes.at(where, gangs)]
        for offer, usd in [*quotes, *beside]:
            count = nodes_needed(gangs.slots, False, offer.slots)
            if count is None or count == 1:
                continue
            free = whole.get(whole_place(offer.slots, self._quotes.facts(offer)), [])
            if offer.ends_together:  # a job for the rest alone might start hours later
                free = []
            missing = max(1, count - len(free))
            if missing > (offer.most_together or missing):
                continue
            cost = round(missing * usd, 9)
            if best is not None and (cost, missing) >= best[:2]:
                continue
            if missing > self._limits.affordable(offer) or not self.open_offers.may_buy(offer):
                continue
            if self._is_for_one(offer, ones):
                continue
            bins = free[len(free) - (count - missing) :] if count > missing else []
            best = (cost, missing, offer, bins, missing)
        if best is None:
            return None
        bigger = self._buyable([quote for quote in quotes if quote.offer.slots >= gangs.slots])
        return None if best[0] >= round(slot_share(gangs.slots, bigger), 9) else best[2:]

    def _buy_single(self, waiting: Sequence[GangClass]) -> None:
        """Gangs that fit one node, those together that may buy the same; again while purchases close offers."""
        version = None
        while version != (version := self.open_offers.version):
            groups: dict[tuple[Quote, ...], list[GangClass]] = {}
            for gangs in waiting:
                if gangs.slots and gangs.left:
                    groups.setdefault(tuple(self._quotes.of(gangs)), []).append(gangs)
            for quotes, alike in groups.items():
                self._cover(alike, quotes)

    def _cover(self, classes: Sequence[GangClass], quotes: Sequence[Quote]) -> None:
        """Greedy cover, many gangs to a node where that is cheaper."""
        by_slots: dict[int, list[GangClass]] = {}
        for gang_class in classes:
            by_slots.setdefault(gang_class.slots, []).append(gang_class)
        counts = {
            slots: sum(c.left for c in by_slots[slots]) for slots in sorted(by_slots, reverse=True)
        }
        quotes = self._buyable(quotes)
        share = {slots: slot_share(slots, quotes) for slots in counts}
        while quotes and (purchase := next_purchase(counts, quotes, share)):
            bought = min(purchase.count, self._limits.affordable(purchase.offer))
            most = self.open_offers.most(purchase.offer)
            bought = bought if most is None else min(bought, most)
            self._cart.add(self._filled(purchase, bought, by_slots))
            self._book(purchase.offer, bought)
            for slots, fits in purchase.filling.items():
                counts[slots] -= fits * bought
            quotes = self._buyable(quotes)

    def _filled(
        self, purchase: Purchase, count: int, by_slots: Mapping[int, list[GangClass]]
    ) -> list[NewNode]:
        aux = self.pool.settings.aux_places
        nodes = [NewNode(purchase.offer, aux) for _ in range(count)]
        for slots, fits in purchase.filling.items():
            taken = list(_take(by_slots[slots], fits * count))
            for gangs, ids in taken if len(taken) == 1 else ():
                for i, node in enumerate(nodes):
                    node.give(gangs, ids[i * fits : (i + 1) * fits])
            if len(taken) > 1:
                singles = [(gangs, one) for gangs, ids in taken for one in ids]
                for i, (gangs, one) in enumerate(singles):
                    nodes[i // fits].give(gangs, [one])
        return nodes

    def _buy_aux(self, classes: Sequence[GangClass]) -> None:
        """Zero-slot tasks ride on what is bought anyway, else on the cheapest machines."""
        places = self.pool.settings.aux_places
        zero_slot = [gangs for gangs in classes if not gangs.slots and gangs.left]
        if not places or not zero_slot:
            return
        nodes = [*self._cart.gang_nodes(places), *self._cart.nodes()]
        for gangs in zero_slot:
            for node in nodes:
                if not gangs.left:
                    break
                if node.aux and self._quotes.suits(node.offer, gangs):
                    node.give(gangs, gangs.take(node.aux))
            while gangs.left and (offer := self._cheapest_machine(gangs)):
                most = self.open_offers.most(offer) or MAX_INDEPENDENT_GROUP
                count = min(-(-gangs.left // places), self._limits.affordable(offer), most)
                new = [NewNode(offer, places) for _ in range(count)]
                for node in new:
                    node.give(gangs, gangs.take(places))
                nodes += new
                self._cart.add(new)
                self._book(offer, count)

    def _cheapest_machine(self, gangs: GangClass) -> Offer | None:
        best = min(
            self._buyable(self._quotes.of(gangs)),
            key=lambda q: (q.usd, q.offer.usd_per_hour, q.offer.boot_s, q.offer.key),
            default=None,
        )
        return None if best is None else best.offer

    def _keep_minimum(self) -> None:
        kept = sum(machine.phase is not MachinePhase.OUT for machine in self.pool.machines)
        missing = self.pool.settings.min_instances - kept - self._cart.machines
        warm = self.pool.settings.warm(self.now)
        if warm:
            claimed = {node.name for node in self._bins.all if node.claims}
            missing = max(missing, warm - ready_machines(self.pool, claimed))
        while missing > 0:
            best = min(
                self._buyable(self._quotes.cheapest()),
                key=lambda q: (q.usd / q.offer.slots if q.offer.slots else inf, q.usd, q.offer.key),
                default=None,
            )
            if best is None:
                return
            most = self.open_offers.most(best.offer) or MAX_INDEPENDENT_GROUP
            count = min(missing, self._limits.affordable(best.offer), most)
            self._cart.add([NewNode(best.offer, 0) for _ in range(count)])
            self._book(best.offer, count)
            missing -= count

    def _launch(self) -> None:
        launches = self._cart.launches(self.pool.settings.pool)
        self.launches = list(with_starts(launches, self.pool.stopped))
        known: dict[tuple[int, int, bool, tuple[str, ...]], Reason] = {}
        for launch in self.launches:
            key = (id(launch.offer), launch.count, launch.is_of_one_gang, launch.starts)
            asked = known.get(key)
            if asked is None:
                over = launch.count if launch.is_of_one_gang else 1
                slower = self._quotes.slowdown_over(launch.offer, over)
                asked = known[key] = explain.after_failed_boot(
                    explain.asking_now(
                        launch.offer,
                        launch.count,
                        launch.starts,
                        is_of_one_gang=launch.is_of_one_gang,
                        slower=slower,
                    ),
                    launch.offer,
                    self.open_offers.memory,
                )
            self.reasons.update(dict.fromkeys(chain.from_iterable(launch.claims), asked))

    def _explain(self, classes: Sequence[GangClass]) -> None:
        machines = {machine.name: machine for machine in self.pool.machines}
        texts: dict[tuple[str, ...], Reason] = {}
        for request_id, bins in self._bins.claimed.by_request.items():
            if request_id in self.reasons:
                continue  # it tops up free nodes with machines being bought: the purchase is the reason
            names = tuple(node.name for node in bins)
            reason = texts.get(names)
            if reason is None:
                coming = [machines[node.name] for node in bins if node.coming]
                reason = explain.claimed(names, coming)
                if coming:
                    memory = self.open_offers.memory
                    reason = explain.after_failed_boot(reason, coming[0].offer, memory)
                texts[names] = reason
            self.reasons[request_id] = reason
        left = [gangs for gangs in classes if gangs.left]
        if left:
            unmet = UnmetDemand(self.pool, self._quotes, self._limits, self.now)
            for gangs in left:
                ids = gangs.remaining_ids()
                if gangs.wants.queued_at:
                    for id_ in ids:
                        self.reasons[id_] = explain.claimed((), self._overdue.held[id_])
                    continue
                self.reasons.update(dict.fromkeys(ids, unmet.reason(gangs)))

    def _could_buy(self) -> list[Offer]:
        """Of each size the cheapest, and of each kind of machine one where gangs ask for certain machines."""
        if self._picky:
            return self._quotes.open_kinds()
        return [quote.offer for quote in self._quotes.cheapest()]

    def _still(self, offer: Offer) -> int:
        """How many of that offer could be bought after this plan."""
        if self.pool.hold is not None:
            return 0
        most = self.open_offers.most(offer)
        more = self._limits.affordable(offer)
        return more if most is None else min(more, most)


def _take(classes: Sequence[GangClass], count: int) -> Iterator[tuple[GangClass, list[str]]]:
    """`count` gangs of classes that differ only in what no new node is blocked for."""
    for gang_class in classes:
        if not count:
            return
        if gang_class.left:
            ids = gang_class.take(count)
            count -= len(ids)
            yield gang_class, ids
