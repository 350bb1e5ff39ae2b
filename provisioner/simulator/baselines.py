"""Other ways to buy machines, to compare with: the same scheduler, machines and boots, another buyer.

- `AlwaysOn`: the machines that a result had when they cost most, from the beginning to the end.
- `SumOfSlots`: one type; machines for the sum of the waiting slots; idle 20 minutes. As the system that we succeed.
- `LeastWaste`: many types; waiting gangs are packed into machines of each type, and the type that leaves the smallest
  share unused is bought; idle 10 minutes, and no end within 10 minutes of a launch. As cluster-autoscaler's default
  expander does, for groups of nodes.

They buy on demand where that is sold, of each size the cheapest, and wait where it is out of stock.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import ceil, inf

from provisioner.planning.gang_classes import nodes_needed
from provisioner.providers.base import LaunchIntent
from provisioner.simulator.machines import SimulatedMachine, SimulatedMachines
from provisioner.simulator.pools import SimulatedCluster
from provisioner.simulator.replay import ClusterPlan, MakeBuyer, Played, PoolPlan
from provisioner.types import (
    BlockedOffer,
    BootingNode,
    Gang,
    LaunchableNode,
    Market,
    Offer,
    OfferKey,
    PoolAvailability,
    PoolDemand,
)
from windlass.base.clock import Clock
from windlass.base.errors import CapacityError


def baselines(ours: Played) -> Mapping[str, MakeBuyer]:
    """By name, what a result is compared with."""
    return {
        "always on": lambda *world: AlwaysOn(*world, fleet=dearest_fleet(ours)),
        "sum of slots": SumOfSlots,
        "least waste": LeastWaste,
    }


class Baseline(ABC):
    """What `provisioner.simulator.replay` needs of a provisioner."""

    idle_s = 600.0

    def __init__(
        self,
        plan: ClusterPlan,
        providers: Mapping[str, SimulatedMachines],
        cluster: SimulatedCluster,
        clock: Clock,
    ) -> None:
        self._pools = {pool.settings.pool: pool for pool in plan.pools}
        self._offers = {name: self.sold(pool) for name, pool in self._pools.items()}
        self._providers = providers
        self._cluster = cluster
        self._clock = clock
        self._idle_since: dict[str, float] = {}
        self._launches = 0
        self._last_launch = -inf
        self._refused_at: dict[OfferKey, float] = {}

    def sold(self, pool: PoolPlan) -> Sequence[Offer]:
        """What it buys for a pool."""
        return of_each_size(pool.offers)

    async def load(self) -> None:  # noqa: B027 - not every buyer has anything to do
        """Nothing was written down."""

    @asynccontextmanager
    async def owning_calls(self) -> AsyncIterator[None]:
        yield

    def look(self) -> None:  # noqa: B027 - as above
        """Machines are looked at."""

    def note_agent(self, instance_id: str, connected: bool) -> None:  # noqa: B027 - as above
        """Nodes are looked at."""

    def blocked_offers(self) -> Sequence[BlockedOffer]:
        return ()

    def idle_ends(self) -> Sequence[float]:
        start = self._clock.now().timestamp() - self._clock.monotonic()
        return [start + since + self.idle_s for since in self._idle_since.values()]

    async def reconcile_pass(self) -> None:
        await asyncio.sleep(0)
        demands = self._cluster.demand()
        for demand in demands:
            machines = self._machines(demand.pool)
            left = max(0, self._pools[demand.pool].settings.max_instances - len(machines))
            booting = Counter(m.offer.slots for m in machines if m.ready_s is None)
            for offer, count in self.wanted(demand, booting):
                await self._launch(demand.pool, offer, min(count, left))
                left = max(0, left - count)
        await self._end_idle(demands)
        for demand in demands:
            self._cluster.availability(self._availability(demand.pool))

    def _availability(self, pool: str) -> PoolAvailability:
        return PoolAvailability(
            pool=pool,
            booting=tuple(
                BootingNode(instance_id=m.id, slots=m.offer.slots, ready_in_s=m.offer.boot_s)
                for m in self._machines(pool)
                if m.ready_s is None
            ),
            launchable=tuple(
                LaunchableNode(slots=offer.slots, count=1000, ready_in_s=offer.boot_s)
                for offer in self._offers[pool]
            ),
        )

    def _machines(self, pool: str) -> list[SimulatedMachine]:
        every = (m for provider in self._providers.values() for m in provider.living.values())
        return [machine for machine in every if machine.intent.pool == pool]

    @abstractmethod
    def wanted(self, demand: PoolDemand, booting: Mapping[int, int]) -> Sequence[tuple[Offer, int]]:
        """What to launch now; `booting`: machines by their slots."""

    def may_end(self, now: float) -> bool:
        return True

    async def _launch(self, pool: str, offer: Offer, count: int) -> None:
        if self._refused_at.get(offer.key) == self._clock.monotonic():
            return  # it would be refused again and again at this instant
        for _ in range(count):
            self._launches += 1
            name = f"{self._launches:013}"
            intent = LaunchIntent(
                intent_id=name, token=name, cluster_id="simulation", pool=pool, generation=1, offer=offer, count=1
            )  # fmt: skip
            try:
                await self._providers[offer.key.provider].launch(intent)
            except CapacityError:
                self._refused_at[offer.key] = self._clock.monotonic()
                return
        self._last_launch = self._clock.monotonic()

    async def _end_idle(self, demands: Sequence[PoolDemand]) -> None:
        now = self._clock.monotonic()
        idle = {
            node.agent_id
            for demand in demands
            for node in demand.nodes
            if node.instance_id and not node.busy
        }
        self._idle_since = {id_: self._idle_since.get(id_, now) for id_ in idle}
        old = [id_ for id_, since in self._idle_since.items() if now - since >= self.idle_s - 1e-6]
        if old and self.may_end(now) and all(self._cluster.cordon(id_) for id_ in old):
            for provider in self._providers.values():
                if its := [id_ for id_ in old if id_ in provider.living]:
                    await provider.terminate(its)


class AlwaysOn(Baseline):
    idle_s = inf

    def __init__(
        self,
        plan: ClusterPlan,
        providers: Mapping[str, SimulatedMachines],
        cluster: SimulatedCluster,
        clock: Clock,
        *,
        fleet: Mapping[tuple[str, OfferKey], int],
    ) -> None:
        super().__init__(plan, providers, cluster, clock)
        self._fleet = fleet

    def wanted(self, demand: PoolDemand, booting: Mapping[int, int]) -> Sequence[tuple[Offer, int]]:
        there = Counter(machine.offer.key for machine in self._machines(demand.pool))
        return [
            (offer, self._fleet.get((demand.pool, offer.key), 0) - there[offer.key])
            for offer in self._pools[demand.pool].offers
        ]


class SumOfSlots(Baseline):
    idle_s = 1200.0

    def sold(self, pool: PoolPlan) -> Sequence[Offer]:
        return sorted(super().sold(pool), key=lambda offer: offer.slots)[-1:]

    def wanted(self, demand: PoolDemand, booting: Mapping[int, int]) -> Sequence[tuple[Offer, int]]:
        (offer,) = self._offers[demand.pool]
        slots = sum(
            gang.slots
            for gang in demand.gangs
            if nodes_needed(gang.slots, gang.single_agent, offer.slots)
        )
        return [(offer, max(0, ceil(slots / offer.slots) - sum(booting.values())))]


class LeastWaste(Baseline):
    def wanted(self, demand: PoolDemand, booting: Mapping[int, int]) -> Sequence[tuple[Offer, int]]:
        coming = [slots for slots, count in booting.items() for _ in range(count)]
        waiting = [gang for gang in _largest_first(demand.gangs) if not _packed(gang.slots, coming)]
        bought: list[tuple[Offer, int]] = []
        offers = self._offers[demand.pool]
        while waiting:
            options = [option for offer in offers if (option := _option(offer, waiting))]
            if not options:
                return bought
            _, offer, nodes, served = min(options, key=lambda option: (option[0], option[2]))
            bought.append((offer, nodes))
            waiting = [gang for gang in waiting if gang.request_id not in served]
        return bought

    def may_end(self, now: float) -> bool:
        return now - self._last_launch >= self.idle_s


def of_each_size(offers: Iterable[Offer]) -> Sequence[Offer]:
    """The cheapest that is sold on demand; of sizes that are not, the cheapest."""
    best: dict[int, Offer] = {}
    for offer in sorted(
        offers, key=lambda o: (o.key.market is not Market.ON_DEMAND, o.usd_per_hour)
    ):
        best.setdefault(offer.slots, offer)
    return [best[slots] for slots in sorted(best) if slots]


def dearest_fleet(played: Played) -> Mapping[tuple[str, OfferKey], int]:
    """By pool and offer, the machines that ran when those that ran cost most an hour."""
    changes = []
    for machine in played.machines:
        what, usd = (machine.intent.pool, machine.offer.key), machine.offer.usd_per_hour
        for since, until in machine.runs(
            played.ended_s if machine.ended_s is None else machine.ended_s
        ):
            changes += [(since, 1, usd, what), (until, -1, -usd, what)]
    running: Counter[tuple[str, OfferKey]] = Counter()
    dearest, usd_per_hour, most = Counter(running), 0.0, 0.0
    for _, count, usd, what in sorted(changes):
        running[what] += count
        usd_per_hour += usd
        if usd_per_hour > most + 1e-6:
            dearest, most = Counter(running), usd_per_hour
    return +dearest


def _largest_first(gangs: Sequence[Gang]) -> list[Gang]:
    return sorted(gangs, key=lambda gang: (-gang.slots, gang.since))


def _packed(slots: int, free: list[int]) -> bool:
    """Whether a gang fits on what is free, and allocates it if so; over several machines only whole ones."""
    fits = [n for n, each in enumerate(free) if each >= slots]
    if fits:
        free[min(fits, key=lambda n: free[n])] -= slots
        return True
    for size in set(free):
        count = nodes_needed(slots, False, size) if size else None
        if count and free.count(size) >= count:
            for _ in range(count):
                free.remove(size)
            return True
    return False


def _option(offer: Offer, gangs: Sequence[Gang]) -> tuple[float, Offer, int, frozenset[str]] | None:
    """Waste, offer, machines, and the gangs they hold: first fit, largest first."""
    free: list[int] = []
    served = set()
    for gang in gangs:
        needed = nodes_needed(gang.slots, gang.single_agent, offer.slots)
        if not needed:
            continue
        served.add(gang.request_id)
        if not _packed(gang.slots, free):
            free += [offer.slots - gang.slots if needed == 1 else 0] * needed
    if not served:
        return None
    return sum(free) / (len(free) * offer.slots), offer, len(free), frozenset(served)
