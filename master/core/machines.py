"""What a machine is beside its slots, and what a request may ask of it. Pure.

Scheduler and planner ask the same question (`Requirements.are_met_by`), so that what is bought for a request is what it
is placed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Market(StrEnum):
    """How capacity is sold. In the order in which the planner prefers them at an equal price."""

    RESERVED = "reserved"
    """Paid for anyway."""
    CAPACITY_BLOCK = "capacity_block"
    """Reserved for a time: its machines end when it does."""
    SPOT = "spot"
    """May be taken back by the provider at any time."""
    ON_DEMAND = "on_demand"
    QUEUED = "queued"
    """Accepted now, and delivered when the provider or the batch system has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The default is a machine that nobody sells and of which nothing is known."""

    gpu_model: str = ""
    """Empty: unknown, or it has none."""
    gpu_memory_mib: int | None = None
    """Of one GPU; None: unknown."""
    market: Market | None = None
    """None: it is there anyway."""
    usd_per_hour: float = 0.0
    place: str = ""
    """Machines of one gang are all in one: account, region and zone. Empty: where the pool's own machines are."""
    placement: str = ""
    """The group of machines that are close to each other; empty: anywhere in its place."""


NO_FACTS = MachineFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a request asks of its machines beside slots. The default asks for nothing."""

    gpu_models: frozenset[str] = frozenset()
    """One of these; empty: any."""
    min_gpu_memory_mib: int = 0
    markets: frozenset[Market] = frozenset()
    """One of these; empty: any. Machines that are not bought serve all."""
    max_usd_per_hour: float | None = None
    """For all its machines together, as if nobody shared them."""
    placement_group: bool = False
    """Several machines must be close to each other."""
    may_fall_back: bool = True
    """It may run in another pool, if its own falls back to others."""

    @property
    def is_picky(self) -> bool:
        """It cannot use every machine."""
        return bool(
            self.gpu_models
            or self.min_gpu_memory_mib
            or self.markets
            or self.max_usd_per_hour is not None
            or self.placement_group
        )

    def are_met_by(self, machine: MachineFacts, machines: int = 1) -> bool:
        """Whether so many machines of this kind serve it. What is unknown of a machine is not believed of it."""
        if self.gpu_models and not any(
            is_model(machine.gpu_model, wanted) for wanted in self.gpu_models
        ):
            return False
        if (machine.gpu_memory_mib or 0) < self.min_gpu_memory_mib:
            return False
        if self.markets and machine.market is not None and machine.market not in self.markets:
            return False
        most = self.max_usd_per_hour
        if most is not None and machine.usd_per_hour * machines > most:
            return False
        return not (self.placement_group and machines > 1 and not machine.placement)

    def describe(self) -> str:
        """E.g. `a GPU A100 or H100 with at least 40 GiB, for at most 12.50 USD per hour`; empty: nothing."""
        return " ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        if self.gpu_models:
            yield f"a GPU {' or '.join(sorted(self.gpu_models))}"
        if self.min_gpu_memory_mib:
            size = f"at least {self.min_gpu_memory_mib / 1024:g} GiB"
            yield f"with {size}" if self.gpu_models else f"GPU memory of {size}"
        if self.markets:
            yield f"sold as {' or '.join(sorted(self.markets))}"
        if self.max_usd_per_hour is not None:
            yield f"for at most {self.max_usd_per_hour:.2f} USD per hour"
        if self.placement_group:
            yield "with its machines in one placement group"


NO_REQUIREMENTS = Requirements()

_NOT_A_WORD = re.compile(r"[^0-9a-z]+")


@lru_cache(maxsize=1024)
def is_model(name: str, wanted: str) -> bool:
    """Whether a GPU of that name is the model: every word of it occurs. `A100` is `NVIDIA A100-SXM4-80GB`, not A10."""
    words = _words(wanted)
    return bool(words) and words <= _words(name)


def _words(text: str) -> frozenset[str]:
    return frozenset(_NOT_A_WORD.split(text.lower())) - {""}
