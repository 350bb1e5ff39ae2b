"""The life of an instance, from the answer to its launch until it is certainly gone. Pure.

    PENDING --> BOOTING --> READY <--> LOST --> TERMINATING --> GONE
    ORPHAN (ours by tag, no intent) --> READY (adopted: work runs on it) | TERMINATING
    READY --> STOPPING --> STOPPED --> STARTING --> BOOTING (`provisioner.fleet.stops`)

Any state may become GONE when the provider says so; any living state may become TERMINATING. An instance that was
seen running and that the provider still lists is never believed gone; one that is not listed is believed gone only
after two lists in a row that began after the provider's grace (a list may omit what is young, whatever happens until
the next one, and a list that failed says nothing).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any

from provisioner.money.prices import usd_for
from provisioner.types import Market, Notice, Offer
from windlass.base.errors import Conflict
from windlass.base.formats.strict_json import StrictJson

LOST_CORDON_S = 30.0
"""An agent silent for longer is no capacity any more."""
LOST_AFTER_S = 600.0
LOST_SPOT_AFTER_S = 120.0
"""An agent silent for so long on a machine that is still listed: the machine is lost."""
ORPHAN_GRACE_S = 60.0
"""From the first look at an unknown machine of ours until it is ended; a second look must confirm it."""
LOOKS_UNTIL_GONE = 2
START_CALL_S = 45.0
"""A call that starts a machine has ended so long after the decision: what is seen earlier may be older than it."""
STOPPED_BY_OTHERS = "it was stopped, by itself or by somebody"
CONSOLE_SAYS = "its console ends with"
"""In the reason of an end: what the machine wrote last follows."""
TERMINATE_RETRY_S = 60.0
STILL_BILLING_S = 900.0
"""Being ended for longer than this is worth an alarm."""
UNHEALTHY_WINDOW_S = 600.0
UNHEALTHY_AT_LEAST = 3
UNHEALTHY_SHARE = 0.2
"""At most so many, or that share of the fleet, are ended as lost in one window: beyond that we are the fault."""


class InstanceState(StrEnum):
    PENDING = "pending"
    BOOTING = "booting"
    READY = "ready"
    LOST = "lost"
    ORPHAN = "orphan"
    STOPPING = "stopping"
    """To be stopped: decided and written, until the provider says that it has stopped."""
    STOPPED = "stopped"
    """Only its disk is billed, and it can be started again."""
    STARTING = "starting"
    """To be started: decided and written, until the provider agrees."""
    TERMINATING = "terminating"
    GONE = "gone"


class EndKind(StrEnum):
    BOOT = "boot"
    LOST = "lost"
    ORPHAN = "orphan"
    IDLE = "idle"
    RETIRED = "retired"
    """Its pool or type is not configured any more."""
    MOVED = "moved"
    """Its work was moved away."""
    TAKEN_BACK = "taken_back"
    """Its provider takes it back, and nothing runs on it any more."""
    BAKED = "baked"
    """It was there for an image."""
    STOPPED = "stopped"
    """It cannot be stopped, or was stopped for too long."""
    CLOSING = "closing"


_S = InstanceState
SWITCHED = frozenset({_S.STOPPING, _S.STOPPED, _S.STARTING})
"""It is stopped, or on the way there or back."""
BOOTS = (_S.PENDING, _S.STARTING, _S.BOOTING)
"""Its agent is to come."""
ALLOWED: Mapping[InstanceState, frozenset[InstanceState]] = {
    _S.PENDING: frozenset({_S.BOOTING, _S.READY, _S.TERMINATING, _S.GONE}),
    _S.BOOTING: frozenset({_S.READY, _S.TERMINATING, _S.GONE}),
    _S.READY: frozenset({_S.LOST, _S.STOPPING, _S.TERMINATING, _S.GONE}),
    _S.LOST: frozenset({_S.READY, _S.TERMINATING, _S.GONE}),
    _S.ORPHAN: frozenset({_S.READY, _S.TERMINATING, _S.GONE}),
    _S.STOPPING: frozenset({_S.STOPPED, _S.TERMINATING, _S.GONE}),
    _S.STOPPED: frozenset({_S.STARTING, _S.BOOTING, _S.TERMINATING, _S.GONE}),
    _S.STARTING: frozenset({_S.STOPPED, _S.BOOTING, _S.READY, _S.TERMINATING, _S.GONE}),
    _S.TERMINATING: frozenset({_S.GONE}),
    _S.GONE: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedTime:
    """A time during which a machine was stopped."""

    since: float
    until: float | None = None
    """When it was to be started; None: it is stopped."""
    ready_at: float | None = None
    """When its agent was back."""


def stopped_s(stops: Iterable[StoppedTime], since: float, until: float) -> float:
    """How much of that time it was stopped."""
    ends = ((stop.since, until if stop.until is None else stop.until) for stop in stops)
    return sum(max(0.0, min(end, until) - max(start, since)) for start, end in ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """One machine of ours. `id` is the agent id of the agent that runs on it."""

    id: str
    pool: str
    offer: Offer
    intent_id: str
    generation: int
    created_at: float
    """When the provider was asked for it, or delivered it later than that: deadlines count from here."""
    started_at: float | None = None
    """When its bill began. None: the provider did not say, and it counts from `created_at`."""
    state: InstanceState = InstanceState.PENDING
    claims: tuple[str, ...] = ()
    ready_at: float | None = None
    ended_at: float | None = None
    ends_at: float | None = None
    """When it ends, as the provider says. None: as its offer says."""
    reason: str = ""
    """Why it is being ended, or is gone."""
    end_kind: EndKind | None = None
    """Of what kind that reason is; None: it is not being ended, or the provider did it."""
    told: bool = False
    """Everybody who must know that it is gone knows."""
    idle_since: float | None = None
    silent_since: float | None = None
    """Since when its agent is not connected; None while it is."""
    lost_since: float | None = None
    """Since when its agent was silent, of one that is gone for that or before anybody asked for its end."""
    first_look_at: float | None = None
    looks: int = 0
    """How often it was listed."""
    missed_looks: int = 0
    """Lists in a row that should have shown it and did not."""
    fingerprint: str = ""
    """Of what its launch was made of; empty: unknown."""
    replaces: str = ""
    """The machine in whose place it was launched."""
    replacement_at: float | None = None
    """When another was last launched in its place."""
    moving_since: float | None = None
    """Since when its work is to leave, by our own will; then it is ended."""
    moving_why: str = ""
    notice: Notice | None = None
    """Its provider takes it back."""
    stops: tuple[StoppedTime, ...] = ()
    """When it was stopped, in order."""
    stopping_since: float | None = None
    """Since when it is to be stopped."""
    switch_called_at: float | None = None
    """When its provider was last asked to stop or start it."""
    stop_under_way: bool = False
    """The newest call to stop it has not been answered."""
    late_stop_until: float | None = None
    """Until when a call to stop it that nobody answered may still be carried out."""
    terminate_since: float | None = None
    terminate_called_at: float | None = None
    terminate_acked_at: float | None = None
    terminate_refused: str = ""
    """Why its provider did not end it when it was last asked; empty: it agreed, or was not asked."""

    @property
    def provider(self) -> str:
        """Who is called for it."""
        return self.offer.key.provider

    @property
    def is_alive(self) -> bool:
        return self.state is not InstanceState.GONE

    def end(self, ready_at: float) -> float | None:
        """When it ends by itself, if it is ready at that time; None: when we end it."""
        return self.offer.end_of(ready_at) if self.ends_at is None else self.ends_at

    @property
    def boot_since(self) -> float:
        """When it was asked for, or started again."""
        started = self.stops[-1].until if self.stops else None
        return self.created_at if started is None else started

    @property
    def up_at(self) -> float | None:
        """When its agent connected for the first time since."""
        return self.stops[-1].ready_at if self.stops else self.ready_at

    @property
    def usd_per_hour(self) -> float:
        """What it costs now."""
        is_stopped = self.stops and self.stops[-1].until is None
        return self.offer.disk_usd_per_hour if is_stopped else self.offer.usd_per_hour

    def billed(self, now: float) -> tuple[float, float]:
        """From when until when it costs something, so far."""
        start = self.created_at if self.started_at is None else self.started_at
        return start, now if self.ended_at is None else self.ended_at

    def usd(self, now: float) -> float:
        """What it has cost so far."""
        return self.usd_between(*self.billed(now))

    def usd_between(self, since: float, until: float) -> float:
        """What it costs in that part of its life."""
        stopped = stopped_s(self.stops, since, until)
        running = usd_for(self.offer.usd_per_hour, until - since - stopped)
        return running + usd_for(self.offer.disk_usd_per_hour, stopped)


# Rebuilt by looking; not worth a commit when they change.
_VOLATILE_INSTANCE = {
    "idle_since",
    "silent_since",
    "first_look_at",
    "looks",
    "missed_looks",
    "switch_called_at",
    "stop_under_way",
    "terminate_called_at",
    "terminate_acked_at",
    "terminate_refused",
}
_INSTANCES: StrictJson[InstanceRecord] = StrictJson(InstanceRecord)
_written = attrgetter(*(x.name for x in fields(InstanceRecord) if x.name not in _VOLATILE_INSTANCE))


def instance_document(instance: InstanceRecord) -> dict[str, Any]:
    document: dict[str, Any] = _INSTANCES.dump(instance, exclude=_VOLATILE_INSTANCE)
    return document


def is_written_alike(one: InstanceRecord, other: InstanceRecord) -> bool:
    """Their documents are the same."""
    return bool(_written(one) == _written(other))


def instance_from_document(document: Mapping[str, Any]) -> InstanceRecord:
    return _INSTANCES.load(document, f"instance {document.get('id')}")


class ListedAs(StrEnum):
    """What the newest list says about one instance."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"
    ENDED = "ended"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    """No new list, or it failed."""


@dataclass(frozen=True, slots=True)
class BootNote:
    """The last thing that a machine said before its agent connected."""

    words: str
    failed: bool = False
    """It gave up, and ends itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known about one instance at one instant."""

    listing: ListedAs = ListedAs.UNKNOWN
    looked_at: float = 0.0
    """When that list was begun."""
    detail: str = ""
    """What the provider says about its end."""
    started_at: float | None = None
    """When its bill began, where the provider says so."""
    ends_at: float | None = None
    """When it will end, where the provider says so."""
    connected: bool = False
    busy: bool | None = None
    """None: the pool does not show its agent."""
    boot: BootNote | None = None
    """None: it has said nothing, or has an agent."""

    @property
    def boot_failure(self) -> str:
        """What the machine itself said; empty: no failure."""
        return f"its boot failed: {self.boot.words}" if self.boot and self.boot.failed else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What differs between offers and providers."""

    boot_deadline_s: float = 300.0
    list_grace_s: float = 60.0
    """How long after its creation a living instance may be missing from a list."""
    watching_since: float = 0.0
    """Deadlines of boots count from here at the earliest: no agent could connect while no master was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequest:
    """This instance should be ended. Carried out only after its node was cordoned."""

    instance_id: str
    kind: EndKind
    why: str
    stop: bool = False
    """It is only to be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStep:
    record: InstanceRecord
    wish: EndRequest | None = None


def move(record: InstanceRecord, state: InstanceState, **changes: Any) -> InstanceRecord:
    """The record in its new state; raises `Conflict` if the table forbids it."""
    if state not in ALLOWED[record.state]:
        raise Conflict(f"instance {record.id} cannot go from {record.state} to {state}")
    return replace(record, state=state, **changes)


def step(record: InstanceRecord, seen: Observation, now: float, rules: Rules) -> InstanceStep:
    """Take in one observation: the new record, and whether the instance should be ended."""
    if not record.is_alive:
        return InstanceStep(record=record)
    record = _note(record, seen, now, rules)
    gone = _gone_because(record, seen)
    if gone is not None:
        reason = f"{record.reason}; {gone}" if record.reason else gone
        lost = _lost_since(record)
        return InstanceStep(
            record=move(record, _S.GONE, ended_at=now, reason=reason, lost_since=lost)
        )
    match record.state:
        case _S.PENDING | _S.BOOTING:
            return _step_booting(record, seen, now, rules)
        case _S.READY | _S.LOST:
            return _step_ready(record, seen, now, rules)
        case _S.ORPHAN:
            return _step_orphan(record, seen, now)
        case _:
            return InstanceStep(record=record)


def is_steady(record: InstanceRecord, connected: bool, busy: bool | None) -> bool:
    """A ready machine whose agent is as it was: `step` would not change it if no new list says anything of it."""
    return (
        connected
        and record.silent_since is None
        and not record.missed_looks
        and record.moving_since is None
        and (busy is None or busy == (record.idle_since is None))
    )


def shows_as_before(record: InstanceRecord, seen: Observation) -> bool:
    """That list says nothing of a steady machine that is not known: `step` would not change it either."""
    return (
        seen.listing is ListedAs.RUNNING
        and record.looks >= LOOKS_UNTIL_GONE
        and seen.ends_at in (None, record.ends_at)
    )


def terminating(
    record: InstanceRecord, why: str, now: float, kind: EndKind | None = None
) -> InstanceRecord:
    """Decided and about to be written: from here on it is only ever ended."""
    return move(record, _S.TERMINATING, reason=why, terminate_since=now, claims=(), end_kind=kind)


def ready(record: InstanceRecord, now: float) -> InstanceRecord:
    """Its agent has connected."""
    if not record.stops:
        return move(record, _S.READY, ready_at=now)
    stops = (*record.stops[:-1], replace(record.stops[-1], ready_at=now))
    return move(record, _S.READY, stops=stops)


def within(at: float | None, earliest: float, now: float) -> float | None:
    """A time that a provider says, by its own clock: never before we asked, never in the future."""
    return None if at is None else min(max(at, earliest), now)


def may_end_lost(recent: int, fleet: int) -> int:
    """How many more instances may be ended as lost, when `recent` were in the last `UNHEALTHY_WINDOW_S`."""
    return max(0, max(UNHEALTHY_AT_LEAST, int(UNHEALTHY_SHARE * fleet)) - recent)


def _note(record: InstanceRecord, seen: Observation, now: float, rules: Rules) -> InstanceRecord:
    """Count looks and remember since when the agent is idle or silent."""
    idle_since = record.idle_since
    if seen.busy is not None:
        idle_since = None if seen.busy else (now if idle_since is None else idle_since)
    silent_since = None
    if not seen.connected:
        silent_since = now if record.silent_since is None else record.silent_since
        idle_since = None
    looks, missed, first = record.looks, record.missed_looks, record.first_look_at
    if seen.listing is ListedAs.ABSENT:
        missed += _should_show(record, seen.looked_at, rules)
    elif seen.listing is not ListedAs.UNKNOWN:
        looks, missed = min(looks + 1, LOOKS_UNTIL_GONE), 0
        first = seen.looked_at if first is None else first
    if seen.connected:
        missed = 0  # lists that missed it were wrong
    ends_at = record.ends_at if seen.ends_at is None else seen.ends_at
    known = (
        record.ends_at,
        record.idle_since,
        record.silent_since,
        record.looks,
        record.missed_looks,
        record.first_look_at,
    )
    if known == (ends_at, idle_since, silent_since, looks, missed, first):
        return record  # the same object: the commit sees that nothing changed
    return replace(
        record,
        started_at=within(seen.started_at, record.created_at, now)
        if record.started_at is None
        else record.started_at,
        ends_at=ends_at,
        idle_since=idle_since,
        silent_since=silent_since,
        looks=looks,
        missed_looks=missed,
        first_look_at=first,
    )


def _should_show(record: InstanceRecord, looked_at: float, rules: Rules) -> bool:
    """A list begun at that time shows the machine if it lives, however long ago that list was."""
    born, _ = record.billed(looked_at)
    asked = record.created_at if record.terminate_acked_at is None else record.terminate_acked_at
    return looked_at > asked and looked_at - born >= rules.list_grace_s


def _gone_because(record: InstanceRecord, seen: Observation) -> str | None:
    if seen.listing is ListedAs.ENDED:
        return seen.boot_failure or seen.detail or "the provider says it ended"
    if record.missed_looks >= LOOKS_UNTIL_GONE:
        return "the provider does not list it any more"
    return None


def _lost_since(record: InstanceRecord) -> float | None:
    """None of one that was ended while its agent was there: an agent falls silent when its machine shuts down."""
    silent, asked = record.silent_since, record.terminate_since
    return silent if silent is not None and (asked is None or silent < asked) else None


def _step_booting(
    record: InstanceRecord, seen: Observation, now: float, rules: Rules
) -> InstanceStep:
    if seen.connected:
        return InstanceStep(record=ready(record, now))
    if seen.boot_failure:
        return _wish(record, EndKind.BOOT, seen.boot_failure)
    if _was_stopped(record, seen, rules):
        return _wish(record, EndKind.BOOT, seen.detail or STOPPED_BY_OTHERS)
    if record.state is _S.PENDING and seen.listing is ListedAs.RUNNING:
        record = move(record, _S.BOOTING)
    age = now - max(record.boot_since, rules.watching_since)
    queue_s = record.offer.queue_deadline_s
    late = queue_s is not None and age > max(queue_s, rules.boot_deadline_s)
    if record.state is _S.PENDING and late:
        return _wish(record, EndKind.BOOT, f"still pending after {age:.0f} s")
    if record.state is _S.BOOTING and age > rules.boot_deadline_s:
        said = f"; the last it said: {seen.boot.words}" if seen.boot is not None else ""
        return _wish(record, EndKind.BOOT, f"no agent connected within {age:.0f} s{said}")
    return InstanceStep(record=record)


def _step_ready(
    record: InstanceRecord, seen: Observation, now: float, rules: Rules
) -> InstanceStep:
    if seen.connected:
        return InstanceStep(record=move(record, _S.READY) if record.state is _S.LOST else record)
    if _was_stopped(record, seen, rules):
        record = move(record, _S.LOST) if record.state is _S.READY else record
        return _wish(record, EndKind.LOST, seen.detail or STOPPED_BY_OTHERS)
    silent = now - (now if record.silent_since is None else record.silent_since)
    spot = record.offer.key.market is Market.SPOT
    if silent < (LOST_SPOT_AFTER_S if spot else LOST_AFTER_S):
        return InstanceStep(record=record)
    if record.state is _S.READY:
        record = move(record, _S.LOST)
    return _wish(record, EndKind.LOST, f"its agent was silent for {silent:.0f} s")


def _was_stopped(record: InstanceRecord, seen: Observation, rules: Rules) -> bool:
    """Not by us. Lists may be late: right after its start one may show it as it was."""
    return (
        seen.listing is ListedAs.STOPPED
        and seen.looked_at - record.boot_since > rules.list_grace_s + START_CALL_S
        and not seen.connected
    )


def _step_orphan(record: InstanceRecord, seen: Observation, now: float) -> InstanceStep:
    if seen.connected and seen.busy:
        return InstanceStep(record=move(record, _S.READY, ready_at=now))
    age = now - (now if record.first_look_at is None else record.first_look_at)
    if record.looks >= LOOKS_UNTIL_GONE and age >= ORPHAN_GRACE_S:
        return _wish(record, EndKind.ORPHAN, "carries our tag, but nobody asked for it")
    return InstanceStep(record=record)


def _wish(record: InstanceRecord, kind: EndKind, why: str) -> InstanceStep:
    return InstanceStep(record=record, wish=EndRequest(instance_id=record.id, kind=kind, why=why))
