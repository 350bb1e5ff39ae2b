"""Free slots that exist or are on their way, and which gangs claim them.

A claim is by identity and holds from the moment of the launch intent: as long as the gangs that a machine was bought
for still wait, the machine is theirs, however long it boots. Only what nobody claims is given to other gangs. Without
that, repacking the same demand on the same machines could come out worse than the plan that bought them, and buy again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf
from typing import TypeAlias

from provisioner.planning.gang_classes import GangClass, nodes_needed
from provisioner.planning.plan_types import MachinePhase, PoolInput
from provisioner.types import AUX_PLACES, NO_FACTS, Gang, MachineFacts, Offer

WholePlace: TypeAlias = tuple[int, str, str]
"""Slots, place and placement group: whole machines that agree in these may serve one gang together."""


class Bin:
    """One node, running or coming, with what planning has put on it so far."""

    __slots__ = (
        "alone",
        "aux",
        "claims",
        "coming",
        "facts",
        "free",
        "left_s",
        "name",
        "old_claims",
        "ready_in_s",
        "slots",
    )

    def __init__(
        self,
        name: str,
        *,
        slots: int,
        free: int,
        aux: int = AUX_PLACES,
        coming: bool = False,
        ready_in_s: float = 0.0,
        left_s: float = inf,
        old_claims: Sequence[str] = (),
        facts: MachineFacts = NO_FACTS,
        alone: bool = False,
    ) -> None:
        self.name = name
        """Agent id, instance id, or intent id with a number."""
        self.slots = slots
        self.free = free
        self.aux = aux
        self.coming = coming
        self.ready_in_s = ready_in_s
        self.left_s = left_s
        """How long it lasts once it is ready."""
        self.old_claims = old_claims
        """Gangs it was bought for, or claimed it in an earlier plan."""
        self.facts = facts
        self.alone = alone
        """Nobody knows whether it comes with others: no gang over several nodes may count on it."""
        self.claims: list[str] = []
        """Gangs that claim it in this plan."""

    @property
    def is_whole(self) -> bool:
        return self.free == self.slots

    def give(self, request_ids: Iterable[str], slots: int) -> None:
        self.claims.extend(request_ids)
        self.free -= slots


class Claimed:
    """Which bins a request got."""

    __slots__ = ("by_request",)

    def __init__(self) -> None:
        self.by_request: dict[str, tuple[Bin, ...]] = {}

    def add(self, request_ids: Iterable[str], bins: tuple[Bin, ...]) -> None:
        for request_id in request_ids:
            self.by_request[request_id] = bins


class Bins:
    """All bins of one pool. Bins fill up as claims are made; the order of calls is the order of precedence."""

    def __init__(self, bins: Sequence[Bin]) -> None:
        self.all = bins
        self.claimed = Claimed()
        self._up: dict[int, list[Bin]] = {}
        self._coming: dict[int, list[Bin]] = {}
        self._whole: dict[WholePlace, list[Bin]] = {}
        self._stale: set[WholePlace] = set()
        """Where some are not whole any more."""
        self._places: list[WholePlace] | None = None

    def honour_old_claims(self, gangs: Sequence[Gang]) -> None:
        """Give bins to the gangs that claimed them before and still wait."""
        claimants: dict[str, list[Bin]] = {}
        for node in self.all:
            for request_id in node.old_claims:
                claimants.setdefault(request_id, []).append(node)
        if not claimants:
            return
        for gang in gangs:
            bins = claimants.get(gang.request_id)
            if bins is not None and not any(
                node.name in gang.blocked_agents
                or node.left_s < gang.least_s
                or not gang.requires.are_met_by(node.facts, len(bins))
                for node in bins
            ):
                self._honour(gang, bins)

    def _honour(self, gang: Gang, bins: list[Bin]) -> None:
        first = bins[0]
        if gang.slots <= first.slots:
            fits = first.free >= gang.slots and (gang.slots > 0 or first.aux > 0)
            if fits:
                first.aux -= gang.slots == 0
                first.give((gang.request_id,), gang.slots)
                self.claimed.add((gang.request_id,), (first,))
            return
        if not gang.single_agent and all(node.is_whole for node in bins):
            if sum(node.slots for node in bins) < gang.slots:
                return
            for node in bins:
                node.give((gang.request_id,), node.slots)
            self.claimed.add((gang.request_id,), tuple(bins))

    def index(self) -> None:
        """Sort what is free into buckets. Call once, after the old claims."""
        # The last of a bucket is used first: busy nodes before idle ones, so that idle ones can go; early before late.
        for node in sorted(
            self.all, key=lambda node: (-node.ready_in_s, not node.is_whole, node.name)
        ):
            tier = self._coming if node.coming else self._up
            tier.setdefault(node.free, []).append(node)
            if node.is_whole and node.slots and not node.alone:
                self._whole.setdefault(whole_place(node.slots, node.facts), []).append(node)

    def place(self, gangs: GangClass) -> None:
        """Best fit on running bins, then on coming ones, then over several whole bins of one size."""
        if gangs.slots == 0:
            self._place_aux(gangs)
            return
        self._place_single(gangs, self._up)
        self._place_single(gangs, self._coming)
        if gangs.left and not gangs.single_agent:
            self._place_over_whole(gangs)

    def whole_places(self) -> list[WholePlace]:
        """Largest machines first."""
        if self._places is None:
            places = sorted(self._whole, key=lambda where: (-where[0], *where[1:]))
            self._places = [where for where in places if self.whole(where)]
        return self._places

    def whole(self, where: WholePlace, gangs: GangClass | None = None) -> list[Bin]:
        """Untouched bins of that size and place, best last; those of use to these gangs, or all."""
        if where in self._stale:
            self._stale.discard(where)
            self._whole[where] = [node for node in self._whole[where] if node.is_whole]
        alive = self._whole.get(where, [])
        if gangs is None or not (gangs.blocked or gangs.wants.least_s or gangs.wants.requires):
            return alive
        return [node for node in alive if _serves(node, gangs)]

    def take_whole(self, bins: Sequence[Bin], request_ids: Sequence[str]) -> None:
        """Bins that one gang uses entirely, alone or beside machines being bought for it."""
        for node in bins:
            tier = self._coming if node.coming else self._up
            tier[node.free].remove(node)
            self._touch(node)
            node.give(request_ids, node.slots)
        self.claimed.add(request_ids, tuple(bins))

    def _place_single(self, gangs: GangClass, tier: dict[int, list[Bin]]) -> None:
        slots = gangs.slots
        for free in sorted(size for size in tier if size >= slots):
            if not gangs.left:
                return
            bucket = tier[free]
            skipped: list[Bin] = []
            while bucket and gangs.left:
                node = bucket.pop()
                if not _serves(node, gangs):
                    skipped.append(node)
                    continue
                ids = gangs.take(min(free // slots, gangs.left))
                self._touch(node)
                node.give(ids, slots * len(ids))
                self.claimed.add(ids, (node,))
                tier.setdefault(node.free, []).append(node)
            tier[free].extend(reversed(skipped))

    def _touch(self, node: Bin) -> None:
        """Some of it is about to be given away."""
        if node.is_whole:
            self._stale.add(whole_place(node.slots, node.facts))
            self._places = None

    def _place_over_whole(self, gangs: GangClass) -> None:
        for where in self.whole_places():
            count = nodes_needed(gangs.slots, False, where[0])
            if count is None or count == 1 or len(self._whole[where]) < count:
                continue
            while gangs.left and len(bins := self.whole(where, gangs)) >= count:
                self.take_whole(bins[-count:], gangs.take(1))

    def _place_aux(self, gangs: GangClass) -> None:
        for node in sorted(self.all, key=lambda node: (node.coming, node.ready_in_s, node.name)):
            if not gangs.left:
                return
            if node.aux > 0 and _serves(node, gangs):
                ids = gangs.take(min(node.aux, gangs.left))
                node.aux -= len(ids)
                node.give(ids, 0)
                self.claimed.add(ids, (node,))


def whole_place(slots: int, facts: MachineFacts) -> WholePlace:
    return (slots, facts.place, facts.placement)


def _serves(node: Bin, gangs: GangClass) -> bool:
    """Whether these gangs may use it, room apart."""
    if node.name in gangs.blocked or node.left_s < gangs.wants.least_s:
        return False
    requires = gangs.wants.requires
    if requires is None:
        return True
    machines = nodes_needed(gangs.slots, gangs.single_agent, node.slots) or 1
    return requires.are_met_by(node.facts, machines)


def bins_of(
    pool: PoolInput,
    now: float,
    facts_of: Callable[[Offer], MachineFacts],
    *,
    without: Collection[str] = (),
) -> list[Bin]:
    """Nodes that can take work, and machines that will, but those in `without`."""
    machines = {machine.name: machine for machine in pool.machines}
    has_aux = any(not gang.slots for gang in pool.demand.gangs)
    bins = []
    for node in pool.demand.nodes:
        machine = machines.get(node.agent_id)
        if not node.schedulable or (machine is not None and machine.phase is not MachinePhase.UP):
            continue
        claims = machine.claims if machine is not None else ()
        ends_at = node.ends_at or (machine.ends_at if machine is not None else None)
        if not (node.free_slots or has_aux or claims or ends_at):
            continue  # it is of no use to any gang
        bins.append(
            Bin(
                node.agent_id,
                slots=node.slots,
                free=node.free_slots,
                aux=node.free_aux,
                left_s=inf if ends_at is None else ends_at - now,
                old_claims=claims,
                facts=node.facts if machine is None else facts_of(machine.offer),
            )
        )
    for machine in pool.machines:
        if machine.phase is MachinePhase.COMING and machine.name not in without:
            bins.append(
                Bin(
                    machine.name,
                    slots=machine.offer.slots,
                    free=machine.offer.slots,
                    aux=pool.settings.aux_places,
                    coming=True,
                    ready_in_s=machine.ready_in_s,
                    left_s=inf
                    if machine.ends_at is None
                    else machine.ends_at - now - machine.ready_in_s,
                    old_claims=machine.claims,
                    facts=facts_of(machine.offer),
                    alone=machine.offer.ends_together and (machine.asking or machine.queued),
                )
            )
    return bins
