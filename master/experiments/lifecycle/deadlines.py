"""When the trials of an experiment have something to do without being told: the earliest first, one look each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from heapq import heappop, heappush

from master.experiments.lifecycle.state import TrialState

INVALID_HP_GRACE = timedelta(seconds=10)
"""How long a task may take to leave after it reported invalid hyperparameters."""
SILENT_AFTER = timedelta(minutes=5)
"""The process of an unmanaged trial is taken for lost: its client sends a heartbeat every minute."""


def deadline_of(trial: TrialState) -> datetime | None:
    """Preemption timeout, pause after a failed start, or the end of the grace for a daemon or hyperparameters.

    Of an unmanaged trial: when its process has been silent for too long.
    """
    if trial.phase.is_terminal:
        return None
    if trial.last_activity is not None:
        silent = trial.last_activity + SILENT_AFTER
        return silent if trial.not_lost_before is None else max(silent, trial.not_lost_before)
    allocation = trial.open_allocation
    if allocation is None:
        return trial.not_before
    if allocation.kill_reason is not None:
        return None
    grace_ends = None if trial.early_exit_at is None else trial.early_exit_at + INVALID_HP_GRACE
    times = (allocation.preempt_deadline, allocation.daemon_deadline, grace_ends)
    return min((time for time in times if time is not None), default=None)


class Deadlines:
    """Of one experiment: each trial's newest one."""

    def __init__(self, trials: Iterable[TrialState] = ()) -> None:
        self._heap: list[tuple[datetime, str]] = []
        self._newest: dict[str, datetime] = {}
        """Request id -> the deadline that counts; others in the heap are history."""
        for trial in trials:
            self.note(trial)

    def note(self, trial: TrialState) -> None:
        """The trial has changed."""
        deadline = deadline_of(trial)
        if deadline is None:
            self._newest.pop(trial.request_id, None)
        elif deadline != self._newest.get(trial.request_id):
            self._newest[trial.request_id] = deadline
            heappush(self._heap, (deadline, trial.request_id))

    def next(self) -> datetime | None:
        while self._heap and not self._counts(*self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: datetime) -> dict[str, datetime]:
        """Request id -> deadline, the longest due first. They stay due until noted anew or `done`."""
        found: list[tuple[datetime, str]] = []
        while (deadline := self.next()) is not None and deadline <= now:
            found.append(heappop(self._heap))
        for item in found:
            heappush(self._heap, item)
        return {request_id: deadline for deadline, request_id in found}

    def done(self, due: Mapping[str, datetime]) -> None:
        """They were looked at; a pause of a paused experiment is not looked at again: activating it does that.

        What was noted meanwhile still counts, even if it is due already.
        """
        for request_id, deadline in due.items():
            if self._counts(deadline, request_id):
                del self._newest[request_id]

    def _counts(self, deadline: datetime, request_id: str) -> bool:
        return self._newest.get(request_id) == deadline
