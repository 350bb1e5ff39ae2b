"""Whether a pool could ever hold a request, and if not, what would fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from master.core.scheduler.explain import count


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShape:
    """What a pool could have at best: agents that are known, and what its provisioner may launch."""

    pool: str
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Slots of an agent -> how many such agents there could be at once. Sizes above zero."""
    max_agents: int = 0
    """How many agents of all sizes together, those without slots included."""
    takes_aux: bool = True
    """Its agents take tasks without slots."""
    launches: bool = False
    """A provisioner brings up its agents."""
    heterogeneous: bool = False
    """Agents of different sizes may serve one request."""

    @property
    def largest(self) -> int:
        return max(self.sizes, default=0)

    @property
    def total(self) -> int:
        """The most slots it could have at once."""
        total, places = 0, self.max_agents
        for size in sorted(self.sizes, reverse=True):
            count = min(self.sizes[size], places)
            total += size * count
            places -= count
        return total


class TooMuch(NamedTuple):
    """A request that a pool could never hold."""

    why: str
    """With the limit."""
    nearest: tuple[int, ...] = ()
    """The sizes closest to it that would fit."""


def refusal(shape: PoolShape, slots: int, *, single_agent: bool) -> TooMuch | None:
    """Why `slots` can never be had, and what would fit; None if they can."""
    if slots == 0 and not shape.takes_aux:
        return TooMuch(
            f"Resource pool '{shape.pool}' takes no tasks without slots (max_aux_containers_per_agent is 0): "
            "request a slot, or name another pool in resources.resource_pool"
        )
    if shape.max_agents == 0:
        return TooMuch(_without_agents(shape))
    if slots == 0 or fits(shape, slots, single_agent=single_agent):
        return None
    if shape.largest == 0:
        return TooMuch(
            f"resource pool '{shape.pool}' has no slots: request 0 slots, or use another pool"
        )
    nearest = _nearest(shape, slots, single_agent=single_agent)
    if single_agent:
        return TooMuch(
            f"Requested {count(slots, 'slot')} on one agent; the largest agent of pool '{shape.pool}' "
            f"has {shape.largest}",
            nearest,
        )
    if slots > shape.total:
        return TooMuch(
            f"Requested {count(slots, 'slot')}; the maximum of pool '{shape.pool}' is {shape.total} "
            f"({_describe(shape)})",
            nearest,
        )
    equal = "" if shape.heterogeneous else " of equal size"
    return TooMuch(
        f"Requested {count(slots, 'slot')}; in pool '{shape.pool}' they do not fill whole agents{equal} "
        f"({_describe(shape)}), as work on more than one agent must",
        nearest,
    )


def fits(shape: PoolShape, slots: int, *, single_agent: bool) -> bool:
    """Whether an empty pool at its largest could place it: on one agent, or on whole agents of equal size."""
    if slots <= shape.largest:
        return True
    if single_agent:
        return False
    if any(
        slots % size == 0 and slots // size <= min(count, shape.max_agents)
        for size, count in shape.sizes.items()
    ):
        return True
    return shape.heterogeneous and _fits_mixed(shape, slots)


def _fits_mixed(shape: PoolShape, slots: int) -> bool:
    """Sizes largest first, as many whole agents of each as go into the rest: the rule of the fitting."""
    places = shape.max_agents
    for size in sorted(shape.sizes, reverse=True):
        count = min(slots // size, shape.sizes[size], places)
        slots -= count * size
        places -= count
    return slots == 0


def _nearest(shape: PoolShape, slots: int, *, single_agent: bool) -> tuple[int, ...]:
    """The largest below and the smallest above."""

    def fit(n: int) -> bool:
        return fits(shape, n, single_agent=single_agent)

    below = next((n for n in range(min(slots - 1, shape.total), 0, -1) if fit(n)), None)
    above = next((n for n in range(slots + 1, shape.total + 1) if fit(n)), None)
    return tuple(n for n in (below, above) if n is not None)


def _describe(shape: PoolShape) -> str:
    """E.g. "4 agents of 8 slots"; for a pool that launches several sizes, "at most 4 agents of 8 or 2 slots"."""
    sizes = sorted(shape.sizes, reverse=True)
    if shape.launches and len(sizes) > 1:
        return f"at most {shape.max_agents} agents of {' or '.join(map(str, sizes))} slots"
    return ", ".join(
        f"{shape.sizes[size]} {'agent' if shape.sizes[size] == 1 else 'agents'} of {count(size, 'slot')}"
        for size in sizes
    )


def _without_agents(shape: PoolShape) -> str:
    if shape.launches:
        return (
            f"resource pool '{shape.pool}' may not have any instance: "
            "raise its max_instances, or use another pool"
        )
    return (
        f"resource pool '{shape.pool}' has no slots, because no agent that may take this has ever "
        f"connected to it: start one with `windlass agent run --pool {shape.pool}`, or use another pool"
    )
