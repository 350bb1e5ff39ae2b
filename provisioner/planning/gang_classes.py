"""What is waiting, as gangs: classes of equal shape with a count. Never a sum of slots.

Four gangs of 3 slots on machines of 4 need four machines; a sum would say three. Classes keep planning fast: ten
thousand gangs have tens of shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from provisioner.money.expected_cost import run_bucket_s
from provisioner.types import NO_REQUIREMENTS, Gang, OfferKey, Requirements

_since = attrgetter("since")
NO_OFFERS: frozenset[OfferKey] = frozenset()
NOWHERE: Mapping[str, frozenset[OfferKey]] = {}
Shape: TypeAlias = tuple[
    int, bool, frozenset[str], float, Requirements | None, float, bool, frozenset[OfferKey]
]
"""Slots, whether on one agent, agents it may not use; then the fields of `Wants`."""


class Wants(NamedTuple):
    """What gangs of one class want of an offer, beside slots."""

    least_s: float = 0.0
    """Machines that end sooner are of no use to them."""
    requires: Requirements | None = None
    """None: any machine will do."""
    run_s: float = 0.0
    """About how long they run; 0: it makes no difference."""
    late: bool = False
    """They have waited for spot long enough."""
    queued_at: frozenset[OfferKey] = frozenset()
    """Where launches for them are queued or not answered: they need not ask there again."""


class GangClass:
    """Waiting gangs of one shape, oldest first. `take` moves a cursor; the gangs themselves are never copied."""

    __slots__ = ("_gangs", "_taken", "blocked", "single_agent", "slots", "wants")

    def __init__(
        self,
        slots: int,
        single_agent: bool,
        blocked: frozenset[str],
        wants: Wants,
        gangs: list[Gang],
    ) -> None:
        self.slots = slots
        self.single_agent = single_agent
        self.blocked = blocked
        """Agents none of these gangs may use."""
        self.wants = wants
        self._gangs = gangs
        self._taken = 0

    @property
    def left(self) -> int:
        return len(self._gangs) - self._taken

    @property
    def oldest_since(self) -> float:
        """Of those that are left."""
        return self._gangs[self._taken].since

    def take(self, count: int) -> list[str]:
        """The request ids of the next `count` gangs, oldest first; they are no longer left."""
        start, self._taken = self._taken, min(self._taken + count, len(self._gangs))
        return [gang.request_id for gang in self._gangs[start : self._taken]]

    def remaining_ids(self) -> list[str]:
        return [gang.request_id for gang in self._gangs[self._taken :]]


def gang_classes(
    gangs: Iterable[Gang],
    *,
    without: Collection[str] = (),
    timed: bool = False,
    run_matters: bool = False,
    late_since: float | None = None,
    queued_at: Mapping[str, frozenset[OfferKey]] = NOWHERE,
) -> list[GangClass]:
    """Group the gangs whose request ids are not in `without` by shape, largest shape first.

    `timed`: some machine or offer ends, so how long a gang needs one belongs to its shape. `run_matters`: so does how
    long it runs. `late_since`: those that came before have waited for spot long enough. `queued_at`: by request id.
    """
    groups: dict[Shape, list[Gang]] = {}
    for gang in gangs:
        if without and gang.request_id in without:
            continue
        requires = gang.requires
        shape = (
            gang.slots,
            gang.single_agent,
            gang.blocked_agents,
            gang.least_s if timed else 0.0,
            requires if requires is not NO_REQUIREMENTS and requires.is_picky else None,
            run_bucket_s(gang.run_time_s) if run_matters else 0.0,
            late_since is not None and gang.since <= late_since,
            queued_at.get(gang.request_id, NO_OFFERS) if queued_at else NO_OFFERS,
        )
        group = groups.get(shape)
        if group is None:
            groups[shape] = [gang]
        else:
            group.append(gang)
    for group in groups.values():
        group.sort(key=_since)
    classes = [GangClass(*shape[:3], Wants(*shape[3:]), group) for shape, group in groups.items()]
    return sorted(classes, key=_order)


def _order(gangs: GangClass) -> tuple[object, ...]:
    """Largest first, then who has the fewest places to go to."""
    wants = gangs.wants
    asks = "" if wants.requires is None else wants.requires.describe()
    return (
        -gangs.slots,
        gangs.single_agent,
        len(gangs.blocked),
        -wants.least_s,
        not asks,
        asks,
        not wants.late,
        -wants.run_s,
    )


def nodes_needed(slots: int, single_agent: bool, node_slots: int) -> int | None:
    """How many nodes of `node_slots` one gang takes; None if it cannot run on that size.

    A gang over several nodes uses all slots of each: the scheduler's rule for gangs.
    """
    if slots <= node_slots:
        return 1
    if single_agent or node_slots == 0 or slots % node_slots:
        return None
    return slots // node_slots
