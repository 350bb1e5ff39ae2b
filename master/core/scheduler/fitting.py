"""Where a gang can be placed: the working view of free slots that every policy reserves in while it decides.

A request is first tried on one agent. A gang that no agent holds alone takes whole agents that have no slot in use
(it then runs with host networking and owns the machines), all of one slot type and in one place (zone), and of one
size or of several sizes that add up exactly when the pool allows it.

`best` packs: the agent with the fewest free slots that suffice; on a tie one that already works rather than an idle
one, so that whole agents stay whole for gangs and idle machines can go. `worst` spreads: the largest free part of an
agent. The last tie is the agent id, so the same state always gives the same answer.

Agents are indexed by (tier, size, free slots) with a lazy heap in each bucket: finding and reserving cost a handful of
bucket look-ups and one heap operation, whatever the number of agents.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from master.core.scheduler.types import AgentState, Request, SchedulerSettings

REAL = 0
"""Tier of agents that exist."""
EXPECTED = 1
"""Tier of agents that are booting or could be launched: used only when a search asks for them."""

EXACT_UP_TO = 512
"""Sums up to this many units are searched exactly for whole agents of several sizes; above, largest first."""


class RequestShape(NamedTuple):
    """All that placement asks of a request. Requests of one shape fit or fail together."""

    slots: int
    single_agent: bool
    blocked: frozenset[str]


class AgentBucket:
    """The agents of one tier and size that have equally many free slots."""

    __slots__ = ("count", "free", "heap", "size", "tier")

    def __init__(self, tier: int, size: int, free: int) -> None:
        self.tier = tier
        self.size = size
        self.free = free
        self.count = 0
        self.heap: list[int] = []
        """Indices of its agents by id, and of some that were in it once."""


FreeAgent: TypeAlias = tuple[str, int, int, int]
"""(agent id, its slots, how many are free, tier)"""


def shape_of(request: Request) -> RequestShape:
    return RequestShape(request.slots, request.single_agent, request.blocked_agents)


Apart: TypeAlias = tuple[frozenset[str], ...]
"""For each slot type in each place of a pool, the agents of all others: no gang has some of both."""
ALL_ALIKE: Apart = (frozenset(),)


def by_kind(agents: Iterable[AgentState]) -> Apart:
    """Agents that are only expected belong to every kind: what they will have is not known before."""
    of_kind: dict[tuple[str, str], set[str]] = {}
    for agent in agents:
        of_kind.setdefault((agent.slot_type, agent.facts.place), set()).add(agent.id)
    if len(of_kind) < 2:
        return ALL_ALIKE
    everyone = frozenset().union(*of_kind.values())
    return tuple(everyone - of_kind[kind] for kind in sorted(of_kind))


class FreeSlots:
    """A mutable view of free slots. It only knows agents that may get work."""

    def __init__(
        self, settings: SchedulerSettings, agents: Iterable[FreeAgent], apart: Apart = ALL_ALIKE
    ) -> None:
        rows = sorted((a for a in agents if a[1] > 0), key=lambda a: (a[3], a[0]))
        self._best = settings.fitting_policy == "best"
        self._mixed_sizes = settings.allow_heterogeneous_fits
        self.apart = apart
        self._ids = [row[0] for row in rows]
        self._index = {agent: i for i, agent in enumerate(self._ids)}
        self._buckets: dict[tuple[int, int, int], AgentBucket] = {}
        """By tier, size and free slots."""
        self._ranked: list[AgentBucket] = []
        self._at = [self._bucket(tier, size, free) for _, size, free, tier in rows]
        """The bucket of each agent."""
        for i, bucket in enumerate(self._at):
            # Ascending indices are a heap already.
            bucket.heap.append(i)
            bucket.count += 1

    def __contains__(self, agent: str) -> bool:
        return agent in self._index

    def free_on(self, agent: str) -> int:
        """Free slots of one agent; 0 for an agent that is not in the view."""
        i = self._index.get(agent)
        return 0 if i is None else self._at[i].free

    @property
    def is_full(self) -> bool:
        """No slot is free."""
        return not any(bucket.count and bucket.free > 0 for bucket in self._ranked)

    def rows(self, tier: int = REAL) -> list[FreeAgent]:
        """The view as it is now, to build another one from."""
        return [
            (self._ids[i], b.size, b.free, b.tier) for i, b in enumerate(self._at) if b.tier == tier
        ]

    def find(self, shape: RequestShape, tier: int = REAL) -> dict[str, int] | None:
        """A placement on agents up to `tier`, or None. Reserves nothing."""
        i = self._find_single(shape.slots, shape.blocked, tier)
        if i is not None:
            return {self._ids[i]: shape.slots}
        if shape.single_agent or shape.slots < 2:
            return None
        for others in self.apart:
            found = self._find_whole(shape.slots, shape.blocked | others, tier)
            if found is not None:
                return found
        return None

    def take(self, placement: Mapping[str, int]) -> None:
        for agent, slots in placement.items():
            self.change(agent, -slots)

    def give_back(self, placement: Mapping[str, int]) -> None:
        """Slots of agents that are not in the view (draining, gone) are ignored."""
        for agent, slots in placement.items():
            self.change(agent, slots)

    def change(self, agent: str, slots: int) -> None:
        """So many slots of an agent come back; negative: are taken. Agents that are not in the view are ignored."""
        i = self._index.get(agent)
        if i is None:
            return
        old = self._at[i]
        new = self._at[i] = self._bucket(old.tier, old.size, old.free + slots)
        old.count -= 1
        new.count += 1
        heapq.heappush(new.heap, i)

    def _bucket(self, tier: int, size: int, free: int) -> AgentBucket:
        bucket = self._buckets.get((tier, size, free))
        if bucket is None:
            bucket = self._buckets[tier, size, free] = AgentBucket(tier, size, free)
            insort(self._ranked, bucket, key=self._rank)
        return bucket

    def _rank(self, bucket: AgentBucket) -> tuple[float, ...]:
        tier, size, free = bucket.tier, bucket.size, bucket.free
        if self._best:
            return (tier, free, free == size, size)
        return (tier, -free / size, -free, size)

    def _find_single(self, slots: int, blocked: frozenset[str], tier: int) -> int | None:
        for bucket in self._ranked:
            if bucket.free >= slots and bucket.count and bucket.tier <= tier:
                first = self._first(bucket, blocked)
                if first is not None:
                    return first
        return None

    def _first(self, bucket: AgentBucket, blocked: frozenset[str]) -> int | None:
        heap, at = bucket.heap, self._at
        while at[heap[0]] is not bucket:
            heapq.heappop(heap)  # it moved on to another bucket since
        if not blocked or self._ids[heap[0]] not in blocked:
            return heap[0]
        found = self._several(bucket, 1, blocked)
        return found[0] if found else None

    def _several(self, bucket: AgentBucket, count: int, blocked: frozenset[str]) -> list[int]:
        """Up to `count` distinct agents of a bucket that are not blocked, by id."""
        heap = bucket.heap
        seen: list[int] = []
        found: list[int] = []
        while heap and len(found) < count:
            i = heapq.heappop(heap)
            if self._at[i] is not bucket or (seen and seen[-1] == i):
                continue
            seen.append(i)
            if self._ids[i] not in blocked:
                found.append(i)
        for i in seen:
            heapq.heappush(heap, i)
        return found

    def _find_whole(self, slots: int, blocked: frozenset[str], tier: int) -> dict[str, int] | None:
        idle: dict[int, int] = {}
        for bucket in self._ranked:
            if bucket.free == bucket.size and bucket.tier <= tier and bucket.count:
                idle[bucket.size] = idle.get(bucket.size, 0) + bucket.count
        for agent in blocked:
            i = self._index.get(agent)
            if i is not None:
                at = self._at[i]
                if at.free == at.size and at.tier <= tier:
                    idle[at.size] -= 1
        plan = whole_agents(slots, idle, mixed_sizes=self._mixed_sizes)
        if plan is None:
            return None
        placement: dict[str, int] = {}
        for size, count in plan.items():
            wanted = count
            for t in range(tier + 1):
                for i in self._several(self._bucket(t, size, size), wanted, blocked):
                    placement[self._ids[i]] = size
                    wanted -= 1
        return placement


def whole_agents(
    slots: int, idle: Mapping[int, int], *, mixed_sizes: bool
) -> dict[int, int] | None:
    """How many idle agents of each size make exactly `slots`; `idle` maps size to how many there are.

    One size if possible (the largest that divides the gang), else several if allowed: the fewest agents.
    """
    sizes = sorted(
        (size for size, count in idle.items() if count > 0 and size <= slots), reverse=True
    )
    for size in sizes:
        if slots % size == 0 and slots // size <= idle[size]:
            return {size: slots // size}
    if not mixed_sizes or sum(size * idle[size] for size in sizes) < slots:
        return None
    unit = math.gcd(*sizes)
    if slots % unit:
        return None
    if slots // unit > EXACT_UP_TO:
        return _largest_first(slots, sizes, idle)
    return _fewest_agents(slots, sizes, idle)


def _largest_first(
    slots: int, sizes: Sequence[int], idle: Mapping[int, int]
) -> dict[int, int] | None:
    plan: dict[int, int] = {}
    for size in sizes:
        count = min(idle[size], slots // size)
        if count:
            plan[size] = count
            slots -= count * size
    return plan if slots == 0 else None


def _fewest_agents(
    slots: int, sizes: Sequence[int], idle: Mapping[int, int]
) -> dict[int, int] | None:
    """Exact: every reachable sum with the fewest agents that make it."""
    reached: dict[int, tuple[int, ...]] = {0: ()}
    for size in sizes:
        wider: dict[int, tuple[int, ...]] = {}
        for total, counts in reached.items():
            for count in range(min(idle[size], (slots - total) // size), -1, -1):
                known = wider.get(total + count * size)
                if known is None or sum(known) > sum(counts) + count:
                    wider[total + count * size] = (*counts, count)
        reached = wider
    answer = reached.get(slots)
    if answer is None:
        return None
    return {size: count for size, count in zip(sizes, answer, strict=True) if count}


def usable_agents(shape: RequestShape, sizes: Mapping[str, int], *, mixed_sizes: bool) -> list[str]:
    """Agents (id -> slots) that could be part of a placement, whatever runs on them now."""
    slots = shape.slots
    allowed = {agent: size for agent, size in sizes.items() if agent not in shape.blocked}
    there = Counter(allowed.values())

    def is_usable(size: int) -> bool:
        if size >= slots or shape.single_agent or size == 0:
            return size >= slots
        return mixed_sizes or (slots % size == 0 and size * there[size] >= slots)

    usable = {size for size in there if is_usable(size)}
    return [agent for agent, size in allowed.items() if size in usable]
