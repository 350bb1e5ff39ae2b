"""What one plan buys for one pool, machine by machine, until it becomes launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from provisioner.capacity.open_offers import MAX_INDEPENDENT_GROUP
from provisioner.planning.gang_classes import GangClass
from provisioner.planning.plan_types import Launch
from provisioner.types import Offer

MOST_REPAIRS = 32
"""Part-filled machines that are looked at again: the last of each kind of purchase, not thousands."""


Exchange: TypeAlias = Callable[[Offer, Sequence[GangClass]], Offer | None]
"""Chooses a cheaper offer for gangs of these classes, one of each, in place of the first; None: there is none."""


class NewNode:
    """One machine that is being bought, and who it is for."""

    __slots__ = ("aux", "free", "held", "offer")

    def __init__(self, offer: Offer, aux: int) -> None:
        self.offer = offer
        self.free = offer.slots
        self.aux = aux
        self.held: list[tuple[GangClass, list[str]]] = []

    def give(self, gangs: GangClass, ids: list[str]) -> None:
        self.held.append((gangs, ids))
        self.free -= gangs.slots * len(ids)
        self.aux -= len(ids) if not gangs.slots else 0

    @property
    def claims(self) -> tuple[str, ...]:
        return tuple(chain.from_iterable(ids for _, ids in self.held))


class PurchaseList:
    """Launches in the making. Machines of one gang are one launch; others go in small groups."""

    def __init__(self) -> None:
        self._gangs: list[tuple[Offer, str, int]] = []
        """Gangs over several machines: offer, request id, machines."""
        self._batches: list[list[NewNode]] = []
        """Machines that belong together in no gang, as they were bought."""
        self._riders: list[list[NewNode]] = []
        """For each gang its machines, once zero-slot tasks ride on them."""
        self.machines = 0

    def add_gangs(self, offer: Offer, ids: Sequence[str], machines: int) -> None:
        self._gangs += [(offer, request_id, machines) for request_id in ids]
        self.machines += machines * len(ids)

    def add(self, nodes: list[NewNode]) -> None:
        self._batches.append(nodes)
        self.machines += len(nodes)

    def gang_nodes(self, aux: int) -> list[NewNode]:
        """The machines of gangs over several, for zero-slot tasks to ride on. Once."""
        self._riders = [
            [_full_node(offer, aux) for _ in range(machines)] for offer, _, machines in self._gangs
        ]
        return list(chain.from_iterable(self._riders))

    def nodes(self) -> Iterator[NewNode]:
        """Machines that are no part of a gang."""
        return chain.from_iterable(self._batches)

    def repair(self, suits: Callable[[Offer, GangClass], bool], exchange: Exchange) -> list[Offer]:
        """Drop part-filled machines whose gangs fit on others. Returns the offers that are no longer bought.

        Where only some of the gangs fit on others, a cheaper machine may take the rest.
        """
        open_ = [node for node in self.nodes() if node.free]
        if len(open_) < 2:
            return []
        open_.sort(key=lambda node: (node.offer.slots - node.free, -node.offer.usd_per_hour))
        gone: set[int] = set()
        exchanged: set[int] = set()
        for node in open_[:MOST_REPAIRS]:
            others = [other for other in open_ if other is not node and id(other) not in gone]
            moves, rest = _moved(node, others, suits)
            instead = exchange(node.offer, [gangs for gangs, _ in rest]) if rest else None
            if rest and instead is None:
                continue
            for target, gangs, ids in moves:
                target.give(gangs, ids)
            gone.add(id(node))
            if instead is not None:
                exchanged.add(id(node))
                smaller = NewNode(instead, node.aux)
                for gangs, ids in rest:
                    smaller.give(gangs, ids)
                self._batches.append([smaller])
        self._batches = [[n for n in batch if id(n) not in gone] for batch in self._batches]
        self.machines -= len(gone) - len(exchanged)
        return [node.offer for node in open_ if id(node) in gone - exchanged]

    def launches(self, pool: str) -> Iterable[Launch]:
        for number, (offer, request_id, machines) in enumerate(self._gangs):
            claims: tuple[tuple[str, ...], ...] = ((request_id,),) * machines
            if self._riders:
                claims = tuple((request_id, *node.claims) for node in self._riders[number])
            yield Launch(pool=pool, offer=offer, claims=claims)
        for batch in self._batches:
            step = 1 if batch and batch[0].offer.ends_together else MAX_INDEPENDENT_GROUP
            for start in range(0, len(batch), step):
                nodes = batch[start : start + step]
                yield Launch(
                    pool=pool, offer=nodes[0].offer, claims=tuple(node.claims for node in nodes)
                )


def _full_node(offer: Offer, aux: int) -> NewNode:
    node = NewNode(offer, aux)
    node.free = 0
    return node


def _moved(
    node: NewNode, others: Sequence[NewNode], suits: Callable[[Offer, GangClass], bool]
) -> tuple[list[tuple[NewNode, GangClass, list[str]]], list[tuple[GangClass, list[str]]]]:
    """Where what it holds could go, largest first; and what could not."""
    free = {id(other): other.free for other in others}
    aux = {id(other): other.aux for other in others}
    moves: list[tuple[NewNode, GangClass, list[str]]] = []
    rest: list[tuple[GangClass, list[str]]] = []
    for gangs, ids in sorted(node.held, key=lambda held: -held[0].slots):
        for request_id in ids:
            for other in others:
                fits = free[id(other)] >= gangs.slots and (gangs.slots or aux[id(other)] > 0)
                if fits and suits(other.offer, gangs):
                    free[id(other)] -= gangs.slots
                    aux[id(other)] -= gangs.slots == 0
                    moves.append((other, gangs, [request_id]))
                    break
            else:
                rest.append((gangs, [request_id]))
    return moves, rest
