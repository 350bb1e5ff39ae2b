"""One agent as a pool knows it: is it there, may it get work, which of its slots are taken.

    (new) ──Hello──> connected ──connection closed──> reconnecting ──window over──> away
                        ^  ^────────── Hello ──────────────┘                         │
                        └──────────────────────── Hello ─────────────────────────────┘

Reconnecting agents keep their work and count as capacity, but get nothing new. What an away agent ran is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import count, islice
from typing import Protocol

from agent_bootstrap.protocol import IsolationKind, Message, Slot, SlotKind
from master.core.deadlines import Cause, Deadline
from master.core.machines import NO_FACTS, MachineFacts
from master.core.scheduler.types import AgentState
from rm_backends.ports import AgentRecord

CLOCKS_DIFFER_S = 30.0
"""An end that is so much earlier than it was is not just told anew."""


class Presence(StrEnum):
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    AWAY = "away"


ALLOWED: dict[Presence, frozenset[Presence]] = {
    Presence.CONNECTED: frozenset({Presence.CONNECTED, Presence.RECONNECTING}),
    Presence.RECONNECTING: frozenset({Presence.CONNECTED, Presence.AWAY}),
    Presence.AWAY: frozenset({Presence.CONNECTED}),
}


class AgentLink(Protocol):
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
    """Changed by `remember` only."""
    aux_places: int
    presence: Presence = Presence.AWAY
    since: float = 0.0
    """Monotonic seconds of the last change of presence."""
    link: AgentLink | None = None
    boot_id: str = ""
    address: str = ""
    own_address: str = ""
    """What it has where the master may see it at one of NAT or of a proxy; empty: `address` is what it said."""
    site_node: str = ""
    """In a batch job: its node's name at the site."""
    version: str = ""
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    isolation: IsolationKind = IsolationKind.UNKNOWN
    container_runtime: str = ""
    runs_trial_classes: bool | None = None
    """Whether its Python has the package for them. None: it does not say."""
    is_root: bool = False
    process_user: str = ""
    """See `Hello`."""
    carries_streams: bool = False
    """Ports of its tasks can be reached through it."""
    shares_user: str = ""
    """What an operator should know: it runs as the master's own user, beside the master."""
    devices: tuple[Slot, ...] = ()
    """Empty for an agent that is only remembered."""
    cordoned: bool = False
    leaving: Deadline | None = None
    """It gets nothing more, and its work was asked to leave."""
    end: Deadline | None = None
    """As it or its provider said: what could not use it until then is not placed there."""
    holds: dict[str, Hold] = field(default_factory=dict)
    """By container id. Changed by `take` and `give_back` only."""
    log_offsets: dict[str, int] = field(default_factory=dict)
    """container id -> next byte of its log that the master wants."""
    used_slots: int = field(default=0, init=False)
    aux_running: int = field(default=0, init=False)
    _free: list[int] | None = field(default=None, init=False)
    _kinds: dict[int, SlotKind] = field(default_factory=dict, init=False)
    slot_type: str = field(default="cpu", init=False)
    """Of its slots, as `kind_of` tells it."""
    sold_as: MachineFacts = NO_FACTS
    """What its machine was bought as."""
    facts: MachineFacts = field(default=NO_FACTS, init=False)
    """What it is for requests that ask for certain machines: as it was bought, else as its devices say."""

    @property
    def id(self) -> str:
        return self.record.agent_id

    @property
    def ends_at(self) -> float | None:
        return None if self.end is None else self.end.at

    @property
    def is_cut_short(self) -> bool:
        return self.end is not None and self.end.cause is Cause.CUT_SHORT

    def says_end(self, at: datetime | None, cause: Cause) -> None:
        """As it connects. That it was cut short stays so."""
        if at is not None:
            known = Cause.CUT_SHORT if self.is_cut_short else cause
            self.end = Deadline(at=at.timestamp(), cause=known)
        elif not self.is_cut_short:
            self.end = None

    def note_end(self, end: Deadline) -> None:
        """What whoever supplies machines says of it counts more than what it says itself."""
        sooner = self.end is not None and end.at < self.end.at - CLOCKS_DIFFER_S
        self.end = replace(end, cause=Cause.CUT_SHORT) if sooner or self.is_cut_short else end

    def is_one_of(self, names: Collection[str]) -> bool:
        """Whether it is called so, or its node is at its site."""
        return self.id in names or self.site_node in names

    @property
    def slot_ids(self) -> tuple[int, ...]:
        """Of an agent that is only remembered: those that somebody names, and the lowest others."""
        if self.devices:
            return tuple(slot.id for slot in self.devices)
        named = self._taken() | self.record.slot_service.keys()
        others = (n for n in count() if n not in named)
        return (*sorted(named), *islice(others, max(0, self.record.slots - len(named))))

    @property
    def slot_count(self) -> int:
        """Whatever their service. May be asked in any thread."""
        return len(self.devices) or self.record.slots

    @property
    def slots_in_service(self) -> int:
        """How many of its slots nobody took out of service by themselves."""
        return sum(slot not in self.record.slot_service for slot in self.slot_ids)

    @property
    def slots_in_reach(self) -> int:
        """Slots that are free or in use: those in service, and others for as long as they are in use."""
        return self.used_slots + len(self.free_slot_ids())

    def move(self, presence: Presence, now: float) -> None:
        if presence not in ALLOWED[self.presence]:
            raise RuntimeError(f"agent {self.id} cannot go from {self.presence} to {presence}")
        self.presence = presence
        self.since = now

    @property
    def is_open(self) -> bool:
        """Nobody took it out of service, and its machine stays."""
        out = self.record.draining or self.cordoned or self.leaving is not None
        return self.record.enabled and not out

    @property
    def is_draining(self) -> bool:
        """Out of service, and what runs on it may finish. With the last of it the agent is simply disabled."""
        return self.record.draining and bool(self.holds)

    @property
    def is_listed(self) -> bool:
        """Whether screens show it: a static agent that is away is only remembered, for its return."""
        away = self.presence is Presence.AWAY and self.record.instance_id is None
        return bool(self.holds) or not away

    @property
    def is_schedulable(self) -> bool:
        return self.presence is Presence.CONNECTED and self.is_open

    def take(self, container_id: str, hold: Hold) -> None:
        before = self.holds.get(container_id)
        if before is not None:
            self._count(before, -1)
            self._free = None
        self.holds[container_id] = hold
        self._count(hold, 1)
        if self._free is not None:
            self._free = [slot for slot in self._free if slot not in hold.slot_ids]

    def give_back(self, container_id: str) -> None:
        self.log_offsets.pop(container_id, None)
        hold = self.holds.pop(container_id, None)
        if hold is not None:
            self._count(hold, -1)
            self._free = None

    def remember(self, record: AgentRecord) -> None:
        self.record = record
        self._free = None

    def set_devices(self, devices: tuple[Slot, ...]) -> None:
        self.devices = devices
        self._kinds = {slot.id: slot.kind for slot in devices}
        self.slot_type = self.kind_of(self.slot_ids)
        self.facts = _facts(self.sold_as, devices)
        self._free = None

    def was_bought_as(self, facts: MachineFacts) -> None:
        if facts != self.sold_as:
            self.sold_as = facts
            self.facts = _facts(facts, self.devices)

    def free_slot_ids(self) -> list[int]:
        """Of the slots in service, ascending."""
        if self._free is None:
            out = self._taken() | self.record.slot_service.keys()
            self._free = sorted(slot for slot in self.slot_ids if slot not in out)
        return self._free

    def closing(self, slot_ids: Sequence[int]) -> int:
        """How many of these slots in use do not come back: they were taken out of service, or are gone."""
        known = self.slot_ids
        return sum(n in self.record.slot_service or n not in known for n in slot_ids)

    def slots_changed(self, before: Sequence[Slot], count_before: int) -> str:
        """How its slots are others than `before`, in words; empty: they are not.

        Of an agent that is only remembered (`before` is empty) their number counts, and which of them are in use.
        """
        now = {slot.id: slot for slot in self.devices}
        old = {slot.id: slot for slot in before} or now
        had = len(before) or count_before
        if had != len(now):
            return f"{len(now)} instead of {had}"
        others = sorted(id_ for id_ in old | now if old.get(id_) != now.get(id_))
        others = others or sorted(self._taken() - now.keys())
        return f"slot {others[0]} is not the one it was" if others else ""

    def kind_of(self, slot_ids: Sequence[int]) -> str:
        """cuda, rocm or cpu. Artificial slots are cpu, and so is no slot at all."""
        kinds = {self._kinds.get(slot_id) for slot_id in slot_ids}
        if SlotKind.CUDA in kinds:
            return str(SlotKind.CUDA)
        return str(SlotKind.ROCM) if SlotKind.ROCM in kinds else "cpu"

    def can_hold(self, slots: int) -> bool:
        """Whether `slots` more (0: one more zero-slot container) can start on it now."""
        if not self.is_schedulable:
            return False
        if slots == 0:
            return self.aux_running < self.aux_places
        return len(self.free_slot_ids()) >= slots

    @property
    def slots_for_scheduler(self) -> int:
        """An agent out of service counts only for what still runs on it."""
        return self.slots_in_reach if self.is_open else self.used_slots

    def as_state(self) -> AgentState:
        """What the scheduler sees."""
        return AgentState(
            id=self.id,
            slots=self.slots_for_scheduler,
            aux_places=self.aux_places,
            schedulable=self.is_schedulable,
            slot_type=self.slot_type,
            ends_at=self.ends_at,
            facts=self.facts,
        )

    def _taken(self) -> set[int]:
        return {slot for hold in self.holds.values() for slot in hold.slot_ids}

    def _count(self, hold: Hold, sign: int) -> None:
        """Thousands of containers come and go at once: nothing is counted anew for one of them."""
        if hold.slot_ids:
            self.used_slots += sign * len(hold.slot_ids)
        else:
            self.aux_running += sign


def _facts(sold_as: MachineFacts, devices: Sequence[Slot]) -> MachineFacts:
    gpus = [slot for slot in devices if slot.kind in (SlotKind.CUDA, SlotKind.ROCM)]
    models = {gpu.brand for gpu in gpus}
    memory = [gpu.memory_mib for gpu in gpus if gpu.memory_mib is not None]
    known = len(memory) == len(gpus) > 0
    return replace(
        sold_as,
        gpu_model=sold_as.gpu_model or (models.pop() if len(models) == 1 else ""),
        gpu_memory_mib=sold_as.gpu_memory_mib or (min(memory) if known else None),
    )
