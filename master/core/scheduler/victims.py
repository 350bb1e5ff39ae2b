"""Which running work to ask back so that one more gang can be placed. Nothing is chosen that does not suffice.

Work that is not preemptible never goes. What else may, is the policy's: with shares a job may lose work down to its
share rounded down to whole gangs; in a queue everything that is behind may go, from the back (taken from the middle,
it would ask those behind it in turn). Among what makes room the least valuable goes first: the cost of stopping
something is the slot-seconds done since its last checkpoint (since its start, if there is none), plus a fixed restart.
So the latest started, or latest saved, goes.

`future` is the caller's view of the slots that are free or on their way back; victims' slots are added to it and
the gang's are taken, so that one call sees what the calls before it have spent. Slots that are being taken out of
service do not come back, and do not count.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from master.core.scheduler.fitting import REAL, FreeSlots, RequestShape, whole_agents
from master.core.scheduler.ledger import JobAccount
from master.core.scheduler.types import Placement, Running

RESTART_S = 60.0
"""What stopping and starting again costs at least, per slot; makes two small victims dearer than one."""


class Preemptibility(NamedTuple):
    """What may be asked of a job's work."""

    spare: float
    """How many slots it may lose."""
    rank: int = 0
    """Its place in the queue, where there is one: it loses only to those before it, and who is last loses first."""


_order = attrgetter("order")

Price: TypeAlias = tuple[float, float]
"""(minus the first rank among the victims, slot-seconds lost): compared in this order."""
NOTHING: Price = (-inf, 0.0)


class VictimCandidate(NamedTuple):
    """Preemptible running work that may be asked."""

    id: str
    job_id: str
    slots: int
    placement: Placement
    """Of its slots those that come back."""
    rank: int
    cost: float
    order: tuple[float, float, float]
    """Who goes first has the smallest."""
    running: Running


@dataclass(frozen=True, slots=True)
class Clearing:
    """A gang's future place, and what has to leave for it."""

    placement: dict[str, int]
    victims: tuple[Running, ...]


def spare_slots(account: JobAccount, share: int) -> int:
    """How many slots the job may be asked to give back: what it holds above its share rounded down to whole gangs."""
    if account.held <= share:
        return 0
    # Bit n: some of its gangs, with all that is not preemptible, make n slots within the share.
    sums = 1 << account.fixed
    within = ((1 << (share + 1)) - 1) | sums
    for slots, gangs in account.preemptible.items():
        step = 1
        while gangs > 0:
            # 1, 2, 4, ... gangs at a time, and the rest, make every number of them.
            together = min(step, gangs)
            sums |= (sums << slots * together) & within
            gangs -= together
            step *= 2
    return account.held - (sums.bit_length() - 1)


class VictimSearch:
    """One round of choosing. What jobs may lose is used up as victims are chosen.

    Requests that are served by rank have to come in that order.
    """

    def __init__(
        self,
        future: FreeSlots,
        running: Iterable[Running],
        jobs: Mapping[str, Preemptibility],
        *,
        now: float,
        mixed_sizes: bool,
    ) -> None:
        self._future = future
        self._mixed_sizes = mixed_sizes
        self._spare = {job_id: standing.spare for job_id, standing in jobs.items()}
        self._sizes = {agent: size for agent, size, _, _ in future.rows(REAL)}
        self._agents_of_size = Counter(self._sizes.values())
        self._on: dict[str, list[VictimCandidate]] = {}
        # Equal ones go by id, the last first.
        for one in sorted(running, key=attrgetter("request.id"), reverse=True):
            job_id = one.request.job_id
            if self._spare.get(job_id, 0) <= 0 or not self._may_be_asked(one):
                continue
            candidate = _candidate(one, jobs[job_id], now)
            for agent in candidate.placement:
                self._on.setdefault(agent, []).append(candidate)
        for candidates in self._on.values():
            candidates.sort(key=_order)
        self._heaps: dict[tuple[int, bool], list[tuple[Price, str]]] = {}
        self._in_vain: set[RequestShape] = set()
        self._rank = -1

    def clear(self, shape: RequestShape, rank: int = -1) -> Clearing | None:
        """The cheapest victims found that let `shape` be placed, now spent; None if there are none, nothing spent.

        Victims are of jobs behind `rank`, which never decreases from one call to the next: what was in vain once
        stays so, and prices only rise.
        """
        if not self._on or shape in self._in_vain:
            return None
        self._rank = rank
        found = self._clear_one(shape) or self._clear_whole(shape)
        if found is None:
            self._in_vain.add(shape)
        return found

    def _may_be_asked(self, one: Running) -> bool:
        """Work that is partly on an agent which gets no more work stays: those slots would be lost, not passed on."""
        request = one.request
        return (
            request.preemptible
            and not one.releasing
            and request.slots > 0
            and one.placement.keys() <= self._sizes.keys()
        )

    def _clear_one(self, shape: RequestShape) -> Clearing | None:
        pick = self._cheapest(shape.slots, shape.blocked, whole=False)
        if pick is None:
            return None
        agent, victims = pick
        placement = {agent: shape.slots}
        self._commit(victims, placement)
        return Clearing(placement, tuple([v.running for v in victims]))

    def _clear_whole(self, shape: RequestShape) -> Clearing | None:
        if shape.single_agent or shape.slots < 2:
            return None
        for others in self._future.apart:
            found = self._clear_alike(shape._replace(blocked=shape.blocked | others))
            if found is not None:
                return found
        return None

    def _clear_alike(self, shape: RequestShape) -> Clearing | None:
        """Clear whole agents of one slot type."""
        sizes = dict(self._agents_of_size)
        for agent in shape.blocked:
            if agent in self._sizes:
                sizes[self._sizes[agent]] -= 1
        while True:
            plan = whole_agents(shape.slots, sizes, mixed_sizes=self._mixed_sizes)
            if plan is None:
                return None
            found = self._clear_plan(plan, shape.blocked)
            if isinstance(found, Clearing):
                return found
            # Fewer agents of that size can be cleared than there are: plan again with what is possible.
            size, possible = found
            sizes[size] = possible

    def _clear_plan(
        self, plan: Mapping[int, int], blocked: frozenset[str]
    ) -> Clearing | tuple[int, int]:
        """Clear whole agents as planned, or say of which size how many were possible, with nothing spent."""
        placement: dict[str, int] = {}
        victims: list[VictimCandidate] = []
        for size, count in plan.items():
            for possible in range(count):
                pick = self._cheapest(size, blocked, whole=True)
                if pick is None:
                    self._future.give_back(placement)
                    self._undo(victims)
                    return size, possible
                agent, chosen = pick
                self._commit(chosen, {agent: size})
                placement[agent] = size
                victims += chosen
        return Clearing(placement, tuple([v.running for v in victims]))

    def _cheapest(
        self, need: int, blocked: frozenset[str], *, whole: bool
    ) -> tuple[str, list[VictimCandidate]] | None:
        """The agent on which `need` slots come cheapest. The heap holds lower bounds, made exact when they surface."""
        heap = self._heap(need, whole=whole)
        aside: list[tuple[Price, str]] = []
        answer = None
        while heap:
            bound, agent = heap[0]
            if agent in blocked:
                aside.append(heapq.heappop(heap))
                continue
            pick = self._price(agent, need)
            if pick is None:
                heapq.heappop(heap)
            elif pick[0] > bound:
                heapq.heapreplace(heap, (pick[0], agent))
            else:
                answer = (agent, pick[1])
                break
        for entry in aside:
            heapq.heappush(heap, entry)
        return answer

    def _heap(self, need: int, *, whole: bool) -> list[tuple[Price, str]]:
        heap = self._heaps.get((need, whole))
        if heap is None:
            heap = []
            for agent in self._sizes:
                if self._suits(agent, need, whole=whole):
                    pick = self._price(agent, need)
                    if pick is not None:
                        heap.append((pick[0], agent))
            heapq.heapify(heap)
            self._heaps[need, whole] = heap
        return heap

    def _suits(self, agent: str, need: int, *, whole: bool) -> bool:
        size = self._sizes.get(agent, 0)
        return size == need if whole else size >= need

    def _price(self, agent: str, need: int) -> tuple[Price, list[VictimCandidate]] | None:
        available = self._future.free_on(agent)
        chosen: list[VictimCandidate] = []
        spent: dict[str, int] = {}
        for candidate in self._on.get(agent, ()):
            if available >= need or candidate.rank <= self._rank:
                break
            after = spent.get(candidate.job_id, 0) + candidate.slots
            if after <= self._spare[candidate.job_id]:
                spent[candidate.job_id] = after
                chosen.append(candidate)
                available += candidate.placement[agent]
        if available < need:
            return None
        if available > need and len(chosen) > 1:
            for candidate in sorted(chosen, key=lambda c: (c.rank, -c.cost)):
                if available - candidate.placement[agent] >= need:
                    chosen.remove(candidate)
                    available -= candidate.placement[agent]
        return _price_of(chosen), chosen

    def _commit(self, victims: Sequence[VictimCandidate], taken: Mapping[str, int]) -> None:
        """The victims' slots come back, and these are taken."""
        change = {agent: -slots for agent, slots in taken.items()}
        for victim in victims:
            for agent, slots in victim.placement.items():
                change[agent] = change.get(agent, 0) + slots
                self._on[agent].remove(victim)
            self._spare[victim.job_id] -= victim.slots
        for agent, slots in change.items():
            if slots:
                self._future.change(agent, slots)
        for victim in victims:
            if len(victim.placement) > 1:
                # Room appears on other agents too: what was priced there is no lower bound any more.
                for (need, whole), heap in self._heaps.items():
                    for agent in victim.placement:
                        if self._suits(agent, need, whole=whole):
                            heapq.heappush(heap, (NOTHING, agent))

    def _undo(self, victims: Iterable[VictimCandidate]) -> None:
        for victim in victims:
            for agent in victim.placement:
                insort(self._on[agent], victim, key=_order)
            self._spare[victim.job_id] += victim.slots
            self._future.take({a: n for a, n in victim.placement.items() if a in self._future})
        self._heaps.clear()


def _candidate(one: Running, job: Preemptibility, now: float) -> VictimCandidate:
    since = one.started if one.last_checkpoint is None else one.last_checkpoint
    request = one.request
    slots = request.slots
    cost = slots * (max(0.0, now - since) + RESTART_S)
    order = (-job.rank, cost / slots, -one.started)
    return VictimCandidate(
        request.id, request.job_id, slots, one.returning, job.rank, cost, order, one
    )


def _price_of(victims: Sequence[VictimCandidate]) -> Price:
    if len(victims) == 1:
        return -victims[0].rank, victims[0].cost
    first, cost = NOTHING
    for victim in victims:
        first = max(first, -victim.rank)
        cost += victim.cost
    return first, cost
