"""What an experiment tells the scheduler beside its order: when allocations will end and when they last saved.

Kept in memory, and no failure here is the failure of a report: these are hints, and a lost one is not told again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from master.experiments.lifecycle.run_times import (
    NEWEST_RUNS,
    ProgressPace,
    differs,
    expected_end,
    finished_run_s,
    newest_run_s,
    paced,
    typical_s,
)
from master.experiments.lifecycle.state import ExperimentState, TrialState
from master.experiments.lifecycle.step_builder import ExperimentStep, TrialChange
from master.roots.root import Transition
from rm_backends.base import AllocationHint, JobOrder, ResourceManager
from windlass.base.clock import Clock

log = structlog.get_logger(__name__)


class SchedulerHints:
    """Of one experiment."""

    def __init__(
        self, rm: Callable[[], ResourceManager], clock: Clock, state: ExperimentState
    ) -> None:
        self._rm = rm
        self._clock = clock
        self._finished = deque(newest_run_s(state.trials.values()), maxlen=NEWEST_RUNS)
        """How long the newest finished allocations took, in seconds."""
        self.run_time_s = typical_s(self._finished)
        """How long its allocations take, as told; it does not follow every small change."""
        self._paces: dict[str, ProgressPace] = {}
        """Task id -> the pace of its current allocation."""

    def order_of(self, state: ExperimentState) -> JobOrder:
        settings = state.settings
        return JobOrder(
            job_id=state.job_id,
            submitted=state.created_at,
            weight=settings.weight,
            max_slots=settings.max_slots,
            priority=settings.priority,
            position=settings.queue_position,
            run_time_s=self.run_time_s,
        )

    def committed(self, transition: Transition[ExperimentState, ExperimentStep]) -> None:
        """A subscriber of its experiment."""
        now = self._clock.now()
        for change in transition.step.trials:
            self._changed(change, now)

    def restarted(self, state: ExperimentState) -> None:
        """Runs go on under a new master, and only their owner knows when they began."""
        if self.run_time_s is None:
            return
        usual = timedelta(seconds=self.run_time_s)
        for trial in state.trials.values():
            allocation = trial.open_allocation
            if allocation is not None and allocation.started_at is not None:
                self._hint(
                    AllocationHint(
                        allocation_id=allocation.id, expected_end=allocation.started_at + usual
                    )
                )

    def _changed(self, change: TrialChange, now: datetime) -> None:
        before, trial = change.before, change.after
        if before is None:
            return
        if trial.open_allocation is None and before.open_allocation is not None:
            self._allocation_ended(trial)
        if trial.progressed_at != before.progressed_at:
            self._progressed(trial, now)
        if trial.latest_checkpoint != before.latest_checkpoint:
            self._checkpointed(trial, now)

    def _allocation_ended(self, trial: TrialState) -> None:
        """Learn from it, if it finished its trial."""
        self._paces.pop(trial.task_id, None)
        if (seconds := finished_run_s(trial)) is not None:
            self._finished.append(seconds)
            learned = typical_s(self._finished)
            if differs(self.run_time_s, learned):
                self.run_time_s = learned

    def _progressed(self, trial: TrialState, now: datetime) -> None:
        allocation = trial.open_allocation
        if allocation is None or not allocation.has_slots:
            return
        known = self._paces.get(allocation.task_id)
        pace = self._paces[allocation.task_id] = paced(known, allocation.id, trial.progress, now)
        if (end := expected_end(pace)) is not None:
            self._hint(AllocationHint(allocation_id=allocation.id, expected_end=end))

    def _checkpointed(self, trial: TrialState, now: datetime) -> None:
        allocation = trial.open_allocation
        if allocation is not None and allocation.has_slots:
            self._hint(AllocationHint(allocation_id=allocation.id, last_checkpoint=now))

    def _hint(self, hint: AllocationHint) -> None:
        try:
            self._rm().hint(hint)
        except Exception:
            log.exception("hint lost", allocation=hint.allocation_id)
