"""Free slots that exist or are on their way, and which gangs claim them.

A claim is by identity and holds from the moment of the launch intent: as long as the gangs that a machine was bought
for still wait, the machine is theirs, however long it boots. Only what nobody claims is given to other gangs. Without
that, repacking the same demand on the same machines could come out worse than the plan that bought them, and buy again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from provisioner.demand import GangClass, nodes_needed
from provisioner.types import AUX_PLACES, Gang


class Room:
    """One node, running or coming, with what planning has put on it so far."""

    __slots__ = ("aux", "claims", "coming", "free", "name", "old_claims", "ready_in_s", "slots")

    def __init__(
        self,
        name: str,
        *,
        slots: int,
        free: int,
        aux: int = AUX_PLACES,
        coming: bool = False,
        ready_in_s: float = 0.0,
        old_claims: Sequence[str] = (),
    ) -> None:
        self.name = name
        """Agent id, instance id, or intent id with a number."""
        self.slots = slots
        self.free = free
        self.aux = aux
        self.coming = coming
        self.ready_in_s = ready_in_s
        self.old_claims = old_claims
        """Gangs it was bought for, or claimed it in an earlier plan."""
        self.claims: list[str] = []
        """Gangs that claim it in this plan."""

    @property
    def is_whole(self) -> bool:
        return self.free == self.slots

    def give(self, request_ids: Iterable[str], slots: int) -> None:
        self.claims.extend(request_ids)
        self.free -= slots


class Claimed:
    """Which rooms a request got."""

    __slots__ = ("by_request",)

    def __init__(self) -> None:
        self.by_request: dict[str, tuple[Room, ...]] = {}

    def add(self, request_ids: Iterable[str], rooms: tuple[Room, ...]) -> None:
        for request_id in request_ids:
            self.by_request[request_id] = rooms


class Rooms:
    """All rooms of one pool. Rooms fill up as claims are made; the order of calls is the order of precedence."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        self.all = rooms
        self.claimed = Claimed()
        self._up: dict[int, list[Room]] = {}
        self._coming: dict[int, list[Room]] = {}
        self._whole: dict[int, list[Room]] = {}

    def honour_old_claims(self, gangs: Sequence[Gang]) -> None:
        """Give rooms to the gangs that claimed them before and still wait."""
        claimants: dict[str, list[Room]] = {}
        for room in self.all:
            for request_id in room.old_claims:
                claimants.setdefault(request_id, []).append(room)
        if not claimants:
            return
        for gang in gangs:
            rooms = claimants.get(gang.request_id)
            if rooms is not None and not any(room.name in gang.blocked_agents for room in rooms):
                self._honour(gang, rooms)

    def _honour(self, gang: Gang, rooms: list[Room]) -> None:
        first = rooms[0]
        if gang.slots <= first.slots:
            fits = first.free >= gang.slots and (gang.slots > 0 or first.aux > 0)
            if fits:
                first.aux -= gang.slots == 0
                first.give((gang.request_id,), gang.slots)
                self.claimed.add((gang.request_id,), (first,))
            return
        if not gang.single_agent and all(room.is_whole for room in rooms):
            if sum(room.slots for room in rooms) < gang.slots:
                return
            for room in rooms:
                room.give((gang.request_id,), room.slots)
            self.claimed.add((gang.request_id,), tuple(rooms))

    def index(self) -> None:
        """Sort what is free into buckets. Call once, after the old claims."""
        # The last of a bucket is used first: busy nodes before idle ones, so that idle ones can go; early before late.
        for room in sorted(
            self.all, key=lambda room: (-room.ready_in_s, not room.is_whole, room.name)
        ):
            tier = self._coming if room.coming else self._up
            tier.setdefault(room.free, []).append(room)
            if room.is_whole and room.slots:
                self._whole.setdefault(room.slots, []).append(room)

    def place(self, gangs: GangClass) -> None:
        """Best fit on running rooms, then on coming ones, then over several whole rooms of one size."""
        if gangs.slots == 0:
            self._place_aux(gangs)
            return
        self._place_single(gangs, self._up)
        self._place_single(gangs, self._coming)
        if gangs.left and not gangs.single_agent:
            self._place_over_whole(gangs)

    def whole_sizes(self) -> list[int]:
        return [size for size in sorted(self._whole, reverse=True) if self.whole(size)]

    def whole(self, size: int, blocked: frozenset[str] = frozenset()) -> list[Room]:
        """Untouched rooms of that size, best last."""
        rooms = self._whole.get(size)
        if not rooms:
            return []
        alive = [room for room in rooms if room.is_whole]
        self._whole[size] = alive
        return [room for room in alive if room.name not in blocked] if blocked else alive

    def take_whole(self, rooms: Sequence[Room], request_ids: Sequence[str]) -> None:
        """Rooms that one gang uses entirely, alone or beside machines being bought for it."""
        for room in rooms:
            tier = self._coming if room.coming else self._up
            tier[room.free].remove(room)
            room.give(request_ids, room.slots)
        self.claimed.add(request_ids, tuple(rooms))

    def _place_single(self, gangs: GangClass, tier: dict[int, list[Room]]) -> None:
        slots = gangs.slots
        for free in sorted(size for size in tier if size >= slots):
            if not gangs.left:
                return
            bucket = tier[free]
            skipped: list[Room] = []
            while bucket and gangs.left:
                room = bucket.pop()
                if room.name in gangs.blocked:
                    skipped.append(room)
                    continue
                ids = gangs.take(min(free // slots, gangs.left))
                room.give(ids, slots * len(ids))
                self.claimed.add(ids, (room,))
                tier.setdefault(room.free, []).append(room)
            tier[free].extend(reversed(skipped))

    def _place_over_whole(self, gangs: GangClass) -> None:
        for size in self.whole_sizes():
            count = nodes_needed(gangs.slots, False, size)
            if count is None or count == 1:
                continue
            while gangs.left and len(rooms := self.whole(size, gangs.blocked)) >= count:
                self.take_whole(rooms[-count:], gangs.take(1))

    def _place_aux(self, gangs: GangClass) -> None:
        for room in sorted(self.all, key=lambda room: (room.coming, room.ready_in_s, room.name)):
            if not gangs.left:
                return
            if room.aux > 0 and room.name not in gangs.blocked:
                ids = gangs.take(min(room.aux, gangs.left))
                room.aux -= len(ids)
                room.give(ids, 0)
                self.claimed.add(ids, (room,))
