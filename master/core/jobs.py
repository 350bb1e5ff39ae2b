"""Jobs, as the queue knows them: what kinds there are, and what may be changed of one while it lives."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from windlass.base.errors import InvalidArgument

HIGHEST_PRIORITY = 1
LOWEST_PRIORITY = 99
"""Smaller is more important."""


class JobType(StrEnum):
    """The words of the published API without their `TYPE_` prefix."""

    EXPERIMENT = "EXPERIMENT"
    COMMAND = "COMMAND"
    SHELL = "SHELL"
    NOTEBOOK = "NOTEBOOK"
    TENSORBOARD = "TENSORBOARD"
    GENERIC = "GENERIC"
    CHECKPOINT_GC = "CHECKPOINT_GC"
    """Not in the queue that users see."""


@dataclass(frozen=True, slots=True)
class SetPriority:
    """Also gives up the place it was moved to: within the new priority the order is by age."""

    priority: int

    def __post_init__(self) -> None:
        if not HIGHEST_PRIORITY <= self.priority <= LOWEST_PRIORITY:
            raise InvalidArgument(
                f"priority must be {HIGHEST_PRIORITY} (most important) to {LOWEST_PRIORITY}, "
                f"but is {self.priority}"
            )


@dataclass(frozen=True, slots=True)
class SetWeight:
    weight: float

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise InvalidArgument(f"weight must be a number above 0, but is {self.weight}")


@dataclass(frozen=True, slots=True)
class SetMaxSlots:
    """None: no limit."""

    max_slots: int | None

    def __post_init__(self) -> None:
        if self.max_slots is not None and self.max_slots < 0:
            raise InvalidArgument(f"max_slots must be 0 or more, but is {self.max_slots}")


@dataclass(frozen=True, slots=True)
class SetPool:
    """Its allocations checkpoint, leave, and ask again in the new pool. Priority, weight and max_slots stay."""

    pool: str


@dataclass(frozen=True, slots=True)
class SetPlace:
    """Beside another job: at `position` on the scale of submission times, with that job's priority."""

    position: Decimal
    priority: int | None


JobChange: TypeAlias = SetPriority | SetWeight | SetMaxSlots | SetPool | SetPlace
