"""What goes wrong at the fake, changed by tests at any time: so often where a number is given, else until `mend`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """The launches that something is true for. Empty: any."""

    zone: str = ""
    machine_type: str = ""
    model: str = ""
    """STANDARD, SPOT, FLEX_START, RESERVATION_BOUND."""

    def covers(self, other: Which) -> bool:
        return (
            self.zone in ("", other.zone)
            and self.machine_type in ("", other.machine_type)
            and self.model in ("", other.model)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One answer of the vendor: HTTP at once, or, without a status, inside the operation."""

    code: str
    message: str
    status: int = 0
    details: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True)
class Faults:
    refused: dict[Which, Fault] = field(default_factory=dict)
    """Launches of these."""
    stock: dict[Which, int] = field(default_factory=dict)
    """So many more machines of these can be had."""
    held: set[Which] = field(default_factory=set)
    """Operations that launch these do not end."""
    lost_replies: int = 0
    """So many launches are carried out, and not answered."""
    lost_terminates: int = 0
    """So many deletions are carried out, and not answered."""
    lost_images: int = 0
    """So many images are made, and their calls not answered."""
    no_starts: Fault | None = None
    """How starts of stopped machines end."""
    dropped: int = 0
    """So many launches are not carried out, and not answered."""
    failing: dict[str, list[Fault | None]] = field(default_factory=dict)
    """Action ("launch", "list", "terminate", "operation", "facts") -> answers to its next calls; None: as usual."""
    always: dict[str, Fault] = field(default_factory=dict)
    """Action, or "" for all of them -> the answer to every call."""
    hanging: set[str] = field(default_factory=set)
    """Actions that are not answered until `mend`."""
    unreachable: set[str] = field(default_factory=set)
    """Zones that lists say nothing of."""
    hide_young_s: float = 0.0
    """Lists omit machines younger than this."""

    def next_answer(self, action: str) -> Fault | None:
        waiting = self.failing.get(action)
        if waiting:
            return waiting.pop(0)
        return self.always.get(action) or self.always.get("")
