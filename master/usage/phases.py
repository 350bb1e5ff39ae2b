"""What runs of trials spent their time on, as far as reports tell.

A report says when something was over, not when it began. What trials do goes round in the same order: they report how
training went, then how the validation at the same batch did, then the checkpoint of that batch. So the time from a
report to the next one of the same batch was spent on a validation or a checkpoint, and the rest of the run on training.
A trial that reports no training at the batches of its validations shows all of its time as training.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.orm import aliased

from master.store import tables
from master.store.store import Store
from master.usage.allocations import Interval, UsedAllocation

AT_ONCE = 100
"""Runs whose reports one query reads."""
_C, _M = tables.Checkpoint, tables.Metric
_BEFORE = aliased(_M)


class Phase(StrEnum):
    """The published names."""

    PULLING = "imagepulling"
    TRAINING = "training"
    VALIDATION = "validation"
    CHECKPOINT = "checkpointing"


class Span(NamedTuple):
    phase: Phase
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Spent:
    """How long one run was in a phase, and from when to when at most."""

    phase: Phase
    start: datetime
    end: datetime | None
    """None: it runs."""
    seconds: float
    """Within the interval that was asked for."""


def spent(
    run: UsedAllocation, spans: Sequence[Span], interval: Interval, now: datetime
) -> list[Spent]:
    """Adds up to the run's time within the interval."""
    begun, until = run.started_at, run.until(now)
    found: dict[Phase, list[Span]] = defaultdict(list)
    if run.pulled_at is not None:
        spans = [Span(Phase.PULLING, begun, run.pulled_at), *spans]
    for span in sorted(spans, key=lambda span: span.end):
        end = min(span.end, until)
        start = max(span.start, begun)
        if start < end:
            found[span.phase].append(Span(span.phase, start, end))
            begun = end
    rows = [
        Spent(
            phase,
            parts[0].start,
            parts[-1].end,
            sum(interval.seconds(part.start, part.end) for part in parts),
        )
        for phase, parts in found.items()
    ]
    rest = interval.seconds(run.started_at, until) - sum(row.seconds for row in rows)
    training = Spent(Phase.TRAINING, run.started_at, run.ended_at, max(0.0, rest))
    return [training, *(row for row in rows if row.seconds)]


async def spans_of(
    store: Store, runs: Sequence[UsedAllocation], interval: Interval
) -> dict[tuple[int, int], list[Span]]:
    """Those that end after the interval begins, by trial and run."""
    found: dict[tuple[int, int], list[Span]] = defaultdict(list)
    trials = sorted({run.trial_id for run in runs if run.trial_id is not None})
    for index in range(0, len(trials), AT_ONCE):
        some = trials[index : index + AT_ONCE]
        for phase, statement in _statements(some, interval).items():
            for row in await store.read(statement, _Row):
                found[row.trial_id, row.run_id].append(Span(phase, row.start, row.end))
    return found


class _Row(NamedTuple):
    trial_id: int
    run_id: int
    start: datetime
    end: datetime


def _statements(
    trials: Sequence[int], interval: Interval
) -> dict[Phase, Select[int, int, datetime, datetime]]:
    before = func.max(_BEFORE.reported_at)
    validations = (
        select(_M.trial_id, _M.run_id, before, _M.reported_at)
        .join(_BEFORE, _same_batch(_M, "training"))
        .where(_M.trial_id.in_(trials), _M.group == "validation")
        .where(_M.reported_at > interval.start)
        .group_by(_M.id, _M.trial_id, _M.run_id, _M.reported_at)
    )
    checkpoints = (
        select(_BEFORE.trial_id, _C.run_id, before, _C.reported_at)
        .join(_BEFORE, _same_batch(_C, "training", "validation"))
        .where(_C.trial_id.in_(trials), _C.reported_at > interval.start)
        .group_by(_C.uuid, _BEFORE.trial_id, _C.run_id, _C.reported_at)
    )
    return {Phase.VALIDATION: validations, Phase.CHECKPOINT: checkpoints}


def _same_batch(of: type[tables.Metric | tables.Checkpoint], *groups: str) -> ColumnElement[bool]:
    """Of the same run, and not later."""
    return and_(
        _BEFORE.trial_id == of.trial_id,
        _BEFORE.run_id == of.run_id,
        _BEFORE.steps == of.steps,
        _BEFORE.group.in_(groups),
        _BEFORE.reported_at <= of.reported_at,
    )
