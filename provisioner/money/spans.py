"""What a machine did when, as one line of time: what its costs are divided by, and what it waited for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from provisioner.fleet.instances import InstanceRecord
from provisioner.money.lifetimes import CostKind, Lifetime, Use, phases


class SpanKind(StrEnum):
    """What a machine did."""

    QUEUED = "queued"
    """It was asked for, and cost nothing yet."""
    BOOT = "boot"
    BUSY = "busy"
    """Something ran there."""
    IDLE = "idle"
    ENDING = "ending"
    """It was decided to end it."""
    LOST = "lost"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Span:
    kind: SpanKind
    start: float
    end: float


def spans(record: InstanceRecord, uses: Sequence[Use], *, since: float, until: float) -> list[Span]:
    """In order and without gaps, as far as it existed between `since` and `until`."""
    life = Lifetime.of(record)
    end = until if life.end is None else min(life.end, until)
    found = [Span(SpanKind.QUEUED, record.created_at, min(life.start, end))]
    for kind, first, last in phases(life, life.start, end):
        if kind is CostKind.BUSY:
            found += _in_service(uses, first, last, record.terminate_since)
        else:
            found.append(Span(SpanKind(kind.value), first, last))
    clipped = (Span(x.kind, max(x.start, since), min(x.end, until)) for x in found)
    return _joined([each for each in clipped if each.start < each.end])


def _in_service(
    uses: Sequence[Use], start: float, end: float, ends_since: float | None
) -> Iterator[Span]:
    leaves = end if ends_since is None else min(max(ends_since, start), end)
    at = start
    held = sorted((max(use.start, start), leaves if use.end is None else use.end) for use in uses)
    for first, last in held:
        first, last = max(first, at), min(last, leaves)
        if first < last:
            yield Span(SpanKind.IDLE, at, first)
            yield Span(SpanKind.BUSY, first, last)
            at = last
    yield Span(SpanKind.IDLE, at, leaves)
    yield Span(SpanKind.ENDING, leaves, end)


def _joined(parts: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for part in parts:
        if found and found[-1].kind is part.kind and found[-1].end == part.start:
            found[-1] = Span(part.kind, found[-1].start, part.end)
        else:
            found.append(part)
    return found
