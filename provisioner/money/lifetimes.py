"""What one machine cost, and for whom: its life, divided among the jobs that held its slots. Pure.

The charges of a life add up to its price times its length, whatever was placed on it. While slots are held, each
holder pays for its share of them, and the rest is idle. While none is, tasks without slots that run there pay all of it
in equal parts: it is kept for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from provisioner.fleet.instances import InstanceRecord, InstanceState, StoppedTime, stopped_s
from provisioner.money.months import by_day
from provisioner.money.prices import SECONDS_PER_HOUR

NOBODY = ""
"""The job of what no job pays for."""


class CostKind(StrEnum):
    """What a machine was paid for."""

    BUSY = "busy"
    BOOT = "boot"
    """From its launch until its agent had connected."""
    IDLE = "idle"
    """It could have worked, or was being ended."""
    LOST = "lost"
    """Its agent never connected, or was silent until its end."""
    STOPPED = "stopped"
    """It did not run: what is paid for is its disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """One machine, as its costs see it. Times are seconds since the epoch."""

    instance_id: str
    pool: str
    slots: int
    usd_per_hour: float
    start: float
    ready: float | None = None
    lost: float | None = None
    """Since when its agent was silent, if that was its end."""
    end: float | None = None
    """None: it exists."""
    stops: tuple[StoppedTime, ...] = ()
    """When it was stopped, in order; it was ready before the first of them."""
    disk_usd_per_hour: float = 0.0
    """What it costs then."""

    @classmethod
    def of(cls, record: InstanceRecord) -> Lifetime:
        return cls(
            instance_id=record.id,
            pool=record.pool,
            slots=record.offer.slots,
            usd_per_hour=record.offer.usd_per_hour,
            start=record.billed(record.created_at)[0],
            ready=record.ready_at,
            lost=record.lost_since,
            end=None if record.is_alive else record.ended_at,
            stops=record.stops,
            disk_usd_per_hour=record.offer.disk_usd_per_hour,
        )

    def usd(self, since: float, until: float) -> float:
        """What of its cost falls into that time."""
        start = max(self.start, since)
        end = until if self.end is None else min(self.end, until)
        if end <= start:
            return 0.0
        stopped = stopped_s(self.stops, start, end)
        running = self.usd_per_hour * (end - start - stopped)
        return (running + self.disk_usd_per_hour * stopped) / SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A job held some slots of a machine. No slots: one of its tasks ran there without any."""

    job_id: str
    slots: int
    start: float
    end: float | None = None
    """None: it still does."""


@dataclass(frozen=True, slots=True)
class ChargeKey:
    day: str
    """2026-11-28, in UTC."""
    pool: str
    instance_id: str
    job_id: str
    kind: CostKind


@dataclass(slots=True)
class Amount:
    usd: float = 0.0
    hours: float = 0.0
    """Of a machine: half of its slots for two hours are one."""

    def add(self, usd: float, hours: float) -> None:
        self.usd += usd
        self.hours += hours


Charges = dict[ChargeKey, Amount]


def settled_until(record: InstanceRecord, now: float) -> float | None:
    """Up to when it is certain what it was paid for. None: nothing is yet."""
    if not record.is_alive:
        return record.ended_at
    if record.state in (InstanceState.STOPPING, InstanceState.STOPPED):
        return now
    if record.state is InstanceState.READY and record.silent_since is None:
        return now
    last = record.stops[-1] if record.stops else None
    return record.ready_at if last is None else last.ready_at or last.until or now


def charges(life: Lifetime, uses: Sequence[Use], *, since: float, until: float) -> Charges:
    """What it cost from `since` until `until`, within its life. `uses`: of this machine.

    After a clock that was set back, `until` may be before `since`: what was charged too much is taken off as idle.
    """
    found: Charges = {}
    start = max(life.start, since)
    end = until if life.end is None else min(life.end, until)
    if end < start:
        if since > life.start:
            for day, first, last in by_day(max(end, life.start), start):
                _charge(found, life, day, NOBODY, CostKind.IDLE, -(last - first))
        return found
    for kind, first, last in phases(life, start, end):
        if kind is CostKind.BUSY:
            _divide(found, life, uses, first, last)
        else:
            for day, from_, to in by_day(first, last):
                _charge(found, life, day, NOBODY, kind, to - from_)
    return found


def merged(parts: Iterable[Charges]) -> Charges:
    total: Charges = {}
    for part in parts:
        for key, amount in part.items():
            total.setdefault(key, Amount()).add(amount.usd, amount.hours)
    return total


def phases(life: Lifetime, start: float, end: float) -> Iterable[tuple[CostKind, float, float]]:
    """What it was for when: BUSY stands for "in service". Within `start` and `end`."""
    if life.ready is None:
        yield (CostKind.BOOT if life.end is None else CostKind.LOST), start, end
        return
    ready = min(max(life.ready, start), end)
    yield CostKind.BOOT, start, ready
    for stop in life.stops:
        stopped = min(max(stop.since, ready), end)
        started = end if stop.until is None else min(max(stop.until, stopped), end)
        yield CostKind.BUSY, ready, stopped
        yield CostKind.STOPPED, stopped, started
        ready = end if stop.ready_at is None else min(max(stop.ready_at, started), end)
        never = stop.ready_at is None and life.end is not None
        yield (CostKind.LOST if never else CostKind.BOOT), started, ready
    lost = end if life.lost is None else min(max(life.lost, ready), end)
    yield CostKind.BUSY, ready, lost
    yield CostKind.LOST, lost, end


def _divide(found: Charges, life: Lifetime, uses: Sequence[Use], start: float, end: float) -> None:
    edges = {start, end, *(first for _, first, _ in by_day(start, end))}
    changes: dict[float, list[tuple[Use, int]]] = {}
    for use in uses:
        first, last = max(use.start, start), end if use.end is None else min(use.end, end)
        if first < last:
            edges |= {first, last}
            changes.setdefault(first, []).append((use, 1))
            changes.setdefault(last, []).append((use, -1))
    slots: dict[str, int] = {}
    tasks: dict[str, int] = {}
    for first, last in pairwise(sorted(edges)):
        for use, sign in changes.get(first, ()):
            held, count = (slots, use.slots) if use.slots else (tasks, 1)
            held[use.job_id] = held.get(use.job_id, 0) + sign * count
            if not held[use.job_id]:
                del held[use.job_id]
        for day, from_, to in by_day(first, last):
            _share(found, life, day, slots, tasks, to - from_)


def _share(
    found: Charges,
    life: Lifetime,
    day: str,
    slots: Mapping[str, int],
    tasks: Mapping[str, int],
    seconds: float,
) -> None:
    held = slots or tasks
    whole = max(life.slots, sum(slots.values())) if slots else sum(tasks.values())
    idle = whole - sum(held.values())
    for job_id, count in held.items():
        _charge(found, life, day, job_id, CostKind.BUSY, seconds * count / whole)
    if not held:
        _charge(found, life, day, NOBODY, CostKind.IDLE, seconds)
    elif idle:
        _charge(found, life, day, NOBODY, CostKind.IDLE, seconds * idle / whole)


def _charge(
    found: Charges, life: Lifetime, day: str, job_id: str, kind: CostKind, seconds: float
) -> None:
    if seconds:
        hours = seconds / SECONDS_PER_HOUR
        key = ChargeKey(day, life.pool, life.instance_id, job_id, kind)
        stopped = kind is CostKind.STOPPED
        usd = (life.disk_usd_per_hour if stopped else life.usd_per_hour) * hours
        found.setdefault(key, Amount()).add(usd, 0.0 if stopped else hours)
