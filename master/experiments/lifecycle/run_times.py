"""How long an experiment's allocations take: learned from those that finished their trial and the pace of others.

Pure, and hints only: the scheduler plans backfilling and preemption with them, and is right without them too. A search
that stops trials early (asha, adaptive_asha) has many short allocations: the typical one is short, as the next will
most likely be, while the pace of an allocation still tells of its trial's full length.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import nlargest
from statistics import median

from master.experiments.lifecycle.state import Phase, TrialState

NEWEST_RUNS = 100
"""Finished allocations that count. Later ones know the code and the machines of today."""
NOTICEABLE = 0.1
"""Part by which a run time must differ from what was told to be worth telling."""
LEAST_PROGRESS = 0.01
"""Fraction of a trial that an allocation must have done before its pace says anything."""
LONGEST = timedelta(days=365)
"""A pace that ends later than this is no pace."""


def typical_s(run_times: Collection[float]) -> float | None:
    """The median, in seconds; None if there are none."""
    return median(run_times) if run_times else None


def newest_run_s(trials: Iterable[TrialState]) -> list[float]:
    """The times, in seconds, of the newest allocations that finished their trial, oldest first."""
    finished = (
        (trial.allocation.ended_at, seconds)
        for trial in trials
        if (seconds := finished_run_s(trial)) is not None
        if trial.allocation is not None and trial.allocation.ended_at is not None
    )
    return [seconds for _, seconds in reversed(nlargest(NEWEST_RUNS, finished))]


def finished_run_s(trial: TrialState) -> float | None:
    """How long the allocation took that finished the trial, in seconds; None if none did.

    Trials that gave up by themselves (invalid hyperparameters) finished nothing.
    """
    allocation = trial.allocation
    if trial.phase is not Phase.COMPLETED or trial.early_exit is not None or allocation is None:
        return None
    if allocation.started_at is None or allocation.ended_at is None:
        return None
    return max(0.0, (allocation.ended_at - allocation.started_at).total_seconds())


def differs(told: float | None, learned: float | None) -> bool:
    """Whether `learned` is news to somebody who was told `told`."""
    if told is None or learned is None:
        return told is not learned
    return abs(learned - told) > NOTICEABLE * told


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPace:
    """The first and the newest progress report of one allocation. Fractions are of its whole trial."""

    allocation_id: str
    first_at: datetime
    first: float
    newest_at: datetime
    newest: float


def paced(
    pace: ProgressPace | None, allocation_id: str, fraction: float, now: datetime
) -> ProgressPace:
    """The pace with one more report. Another run, or one that went back, begins anew."""
    if pace is None or pace.allocation_id != allocation_id or fraction < pace.newest:
        return ProgressPace(
            allocation_id=allocation_id,
            first_at=now,
            first=fraction,
            newest_at=now,
            newest=fraction,
        )
    return replace(pace, newest_at=now, newest=fraction)


def expected_end(pace: ProgressPace) -> datetime | None:
    """When its trial will be done if it goes on as it did; None before it moved noticeably."""
    moved, took = pace.newest - pace.first, pace.newest_at - pace.first_at
    if moved < LEAST_PROGRESS or took <= timedelta(0):
        return None
    rest = (1.0 - pace.newest) / moved * took
    return pace.newest_at + rest if rest <= LONGEST else None
