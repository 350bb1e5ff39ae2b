"""One agent as a pool knows it: is it there, may it get work, which of its slots are taken.

    (new) ──Hello──> connected ──connection closed──> reconnecting ──window over──> away
                        ^  ^────────── Hello ──────────────┘                         │
                        └──────────────────────── Hello ─────────────────────────────┘

Reconnecting agents keep their work and count as capacity, but get nothing new. What an away agent ran is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from agent_bootstrap.protocol import Message, Slot, SlotKind
from master.core.scheduler.types import AgentState
from rm_backends.ports import AgentRecord


class Presence(StrEnum):
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    AWAY = "away"


ALLOWED: dict[Presence, frozenset[Presence]] = {
    Presence.CONNECTED: frozenset({Presence.CONNECTED, Presence.RECONNECTING}),
    Presence.RECONNECTING: frozenset({Presence.CONNECTED, Presence.AWAY}),
    Presence.AWAY: frozenset({Presence.CONNECTED}),
}


class Link(Protocol):
    """The way to a connected agent. Nothing here blocks."""

    @property
    def last_heard(self) -> float:
        """Monotonic seconds of the last message from it."""
        ...

    def send(self, message: Message) -> None: ...

    def close(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Hold:
    """What one container takes of an agent."""

    allocation_id: str
    slot_ids: tuple[int, ...]


@dataclass(slots=True)
class Agent:
    """Mutable: owned by a pool, changed only on its event loop."""

    record: AgentRecord
    aux_places: int
    presence: Presence = Presence.AWAY
    since: float = 0.0
    """Monotonic seconds of the last change of presence."""
    link: Link | None = None
    boot_id: str = ""
    address: str = ""
    version: str = ""
    notes: tuple[str, ...] = ()
    devices: tuple[Slot, ...] = ()
    """Empty for an agent that is only remembered."""
    cordoned: bool = False
    holds: dict[str, Hold] = field(default_factory=dict)
    """By container id. Changed by `take` and `give_back` only."""
    log_offsets: dict[str, int] = field(default_factory=dict)
    """container id -> next byte of its log that the master wants."""
    used_slots: int = field(default=0, init=False)
    aux_running: int = field(default=0, init=False)
    _free: list[int] | None = field(default=None, init=False)

    @property
    def id(self) -> str:
        return self.record.agent_id

    @property
    def slot_ids(self) -> tuple[int, ...]:
        """Of an agent that is only remembered, the numbers that it had if they were dense."""
        if self.devices:
            return tuple(slot.id for slot in self.devices)
        return tuple(range(self.record.slots))

    def move(self, presence: Presence, now: float) -> None:
        if presence not in ALLOWED[self.presence]:
            raise RuntimeError(f"agent {self.id} cannot go from {self.presence} to {presence}")
        self.presence = presence
        self.since = now

    @property
    def is_open(self) -> bool:
        """Nobody took it out of service."""
        return self.record.enabled and not self.record.draining and not self.cordoned

    @property
    def is_schedulable(self) -> bool:
        return self.presence is Presence.CONNECTED and self.is_open

    def take(self, container_id: str, hold: Hold) -> None:
        self.holds[container_id] = hold
        self._recount()

    def give_back(self, container_id: str) -> None:
        self.log_offsets.pop(container_id, None)
        if self.holds.pop(container_id, None) is not None:
            self._recount()

    def set_devices(self, devices: tuple[Slot, ...]) -> None:
        self.devices = devices
        self._recount()

    def free_slot_ids(self) -> list[int]:
        """Ascending."""
        if self._free is None:
            taken = {slot for hold in self.holds.values() for slot in hold.slot_ids}
            self._free = sorted(slot for slot in self.slot_ids if slot not in taken)
        return self._free

    def kind_of(self, slot_ids: Sequence[int]) -> str:
        """cuda, rocm or cpu. Artificial slots are cpu, and so is no slot at all."""
        kinds = {slot.kind for slot in self.devices if slot.id in set(slot_ids)}
        return next((str(k) for k in (SlotKind.CUDA, SlotKind.ROCM) if k in kinds), "cpu")

    def can_hold(self, slots: int) -> bool:
        """Whether `slots` more (0: one more zero-slot container) can start on it now."""
        if not self.is_schedulable:
            return False
        if slots == 0:
            return self.aux_running < self.aux_places
        return len(self.free_slot_ids()) >= slots

    def as_state(self) -> AgentState:
        """What the scheduler sees. An agent out of service counts only for what still runs on it."""
        used = self.used_slots
        return AgentState(
            id=self.id,
            slots=max(used, len(self.slot_ids)) if self.is_open else used,
            aux_places=self.aux_places,
            schedulable=self.is_schedulable,
        )

    def _recount(self) -> None:
        self._free = None
        self.used_slots = sum(len(hold.slot_ids) for hold in self.holds.values())
        self.aux_running = sum(not hold.slot_ids for hold in self.holds.values())
