"""What is waiting, as gangs: classes of equal shape with a count. Never a sum of slots.

Four gangs of 3 slots on machines of 4 need four machines; a sum would say three. Classes keep planning fast: ten
thousand gangs have tens of shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import attrgetter

from provisioner.types import Gang

_since = attrgetter("since")


class GangClass:
    """Waiting gangs of one shape, oldest first. `take` moves a cursor; the gangs themselves are never copied."""

    __slots__ = ("_gangs", "_taken", "blocked", "least_s", "single_agent", "slots")

    def __init__(
        self,
        slots: int,
        single_agent: bool,
        blocked: frozenset[str],
        least_s: float,
        gangs: list[Gang],
    ) -> None:
        self.slots = slots
        self.single_agent = single_agent
        self.blocked = blocked
        """Agents none of these gangs may use."""
        self.least_s = least_s
        """Machines that end sooner are of no use to them."""
        self._gangs = gangs
        self._taken = 0

    @property
    def left(self) -> int:
        return len(self._gangs) - self._taken

    def take(self, count: int) -> list[str]:
        """The request ids of the next `count` gangs, oldest first; they are no longer left."""
        start, self._taken = self._taken, min(self._taken + count, len(self._gangs))
        return [gang.request_id for gang in self._gangs[start : self._taken]]

    def remaining_ids(self) -> list[str]:
        return [gang.request_id for gang in self._gangs[self._taken :]]


def gang_classes(
    gangs: Iterable[Gang], *, without: Collection[str] = (), timed: bool = False
) -> list[GangClass]:
    """Group the gangs whose request ids are not in `without` by shape, largest shape first.

    `timed`: some machine or offer ends, so how long a gang needs one belongs to its shape.
    """
    groups: dict[tuple[int, bool, frozenset[str], float], list[Gang]] = {}
    for gang in gangs:
        if without and gang.request_id in without:
            continue
        least_s = gang.least_s if timed else 0.0
        shape = (gang.slots, gang.single_agent, gang.blocked_agents, least_s)
        group = groups.get(shape)
        if group is None:
            groups[shape] = [gang]
        else:
            group.append(gang)
    for group in groups.values():
        group.sort(key=_since)
    ordered = sorted(
        groups.items(), key=lambda item: (-item[0][0], item[0][1], len(item[0][2]), -item[0][3])
    )
    return [GangClass(*shape, group) for shape, group in ordered]


def nodes_needed(slots: int, single_agent: bool, node_slots: int) -> int | None:
    """How many nodes of `node_slots` one gang takes; None if it cannot run on that size.

    A gang over several nodes uses all slots of each: the scheduler's rule for gangs.
    """
    if slots <= node_slots:
        return 1
    if single_agent or node_slots == 0 or slots % node_slots:
        return None
    return slots // node_slots
