"""Other ways to buy machines, to compare with: the same scheduler, machines and boots, another buyer.

- `SumOfSlots`: one type; machines for the sum of the waiting slots; idle 20 minutes. As the system that we succeed.
- `LeastWaste`: many types; waiting gangs are packed into machines of each type, and the type that leaves the smallest
  share unused is bought; idle 10 minutes, and no end within 10 minutes of a launch. As cluster-autoscaler's default
  expander does, for groups of nodes.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from math import ceil

from provisioner.demand import nodes_needed
from provisioner.providers.base import LaunchIntent
from provisioner.simulator.machines import SimulatedMachines
from provisioner.simulator.pools import SimulatedCluster
from provisioner.types import (
    BlockedOffer,
    BootingNode,
    Gang,
    LaunchableNode,
    Offer,
    PoolAvailability,
    PoolDemand,
)
from windlass.base.clock import Clock
from windlass.base.errors import CapacityError


class Baseline(ABC):
    """What `provisioner.simulator.replay` needs of a provisioner."""

    idle_s = 600.0

    def __init__(
        self,
        *,
        pool: str,
        offers: Sequence[Offer],
        provider: SimulatedMachines,
        cluster: SimulatedCluster,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._offers = offers
        self._provider = provider
        self._cluster = cluster
        self._clock = clock
        self._idle_since: dict[str, float] = {}
        self._launches = 0
        self._last_launch = float("-inf")

    async def load(self) -> None:  # noqa: B027 - not every buyer has anything to do
        """Nothing was written down."""

    @asynccontextmanager
    async def owning_calls(self) -> AsyncIterator[None]:
        yield

    def note_agent(self, instance_id: str, connected: bool) -> None:  # noqa: B027 - as above
        """Nodes are looked at."""

    def blocked_offers(self) -> Sequence[BlockedOffer]:
        return ()

    def idle_ends(self) -> Sequence[float]:
        start = self._clock.now().timestamp() - self._clock.monotonic()
        return [start + since + self.idle_s for since in self._idle_since.values()]

    async def reconcile_pass(self) -> None:
        await asyncio.sleep(0)
        (demand,) = self._cluster.demand()
        for offer, count in self.wanted(demand, self._booting()):
            await self._launch(offer, count)
        await self._end_idle(demand)
        self._cluster.availability(
            PoolAvailability(
                pool=self._pool,
                booting=tuple(
                    BootingNode(instance_id=m.id, slots=m.offer.slots, ready_in_s=m.offer.boot_s)
                    for m in self._provider.living.values()
                    if m.ready_s is None
                ),
                launchable=tuple(
                    LaunchableNode(slots=offer.slots, count=1000, ready_in_s=offer.boot_s)
                    for offer in self._offers
                ),
            )
        )

    @abstractmethod
    def wanted(self, demand: PoolDemand, booting: Mapping[int, int]) -> Sequence[tuple[Offer, int]]:
        """What to launch now; `booting`: machines by their slots."""

    def may_end(self, now: float) -> bool:
        return True

    def _booting(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for machine in self._provider.living.values():
            if machine.ready_s is None:
                counts[machine.offer.slots] = counts.get(machine.offer.slots, 0) + 1
        return counts

    async def _launch(self, offer: Offer, count: int) -> None:
        for _ in range(count):
            self._launches += 1
            name = f"{self._launches:013}"
            intent = LaunchIntent(
                intent_id=name, token=name, cluster_id="simulation", pool=self._pool, generation=1, offer=offer, count=1
            )  # fmt: skip
            try:
                await self._provider.launch(intent)
            except CapacityError:
                return
        self._last_launch = self._clock.monotonic()

    async def _end_idle(self, demand: PoolDemand) -> None:
        now = self._clock.monotonic()
        idle = {node.agent_id for node in demand.nodes if not node.busy}
        self._idle_since = {id_: self._idle_since.get(id_, now) for id_ in idle}
        old = [id_ for id_, since in self._idle_since.items() if now - since >= self.idle_s - 1e-6]
        if old and self.may_end(now) and all(self._cluster.cordon(id_) for id_ in old):
            await self._provider.terminate(old)


class SumOfSlots(Baseline):
    idle_s = 1200.0

    def wanted(self, demand: PoolDemand, booting: Mapping[int, int]) -> Sequence[tuple[Offer, int]]:
        (offer,) = self._offers
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
        while waiting:
            best = min(
                (option for offer in self._offers if (option := _option(offer, waiting))),
                key=lambda option: (option[0], option[2]),
                default=None,
            )
            if best is None:
                return bought
            _, offer, nodes, served = best
            bought.append((offer, nodes))
            waiting = [gang for gang in waiting if gang.request_id not in served]
        return bought

    def may_end(self, now: float) -> bool:
        return now - self._last_launch >= self.idle_s


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
