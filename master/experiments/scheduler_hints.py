"""What an experiment tells the scheduler: its job's order, when allocations will end and when they last saved.

Kept in memory, and no failure here is the failure of a report. A changed order is told until it was heard; requests,
and the records of a restart, bring the order along too. The rest are hints: a lost one is not told again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from master.allocations.order_sync import OrderSync
from master.experiments.run_times import (
    NEWEST_RUNS,
    Pace,
    differs,
    expected_end,
    finished_run_s,
    newest_run_s,
    paced,
    typical_s,
)
from master.experiments.state import ExperimentState, TrialState
from rm_backends.base import AllocationHint, JobOrder, ResourceManager

log = structlog.get_logger(__name__)


class SchedulerHints:
    """Of one experiment."""

    def __init__(self, rm: Callable[[], ResourceManager], state: ExperimentState) -> None:
        self._rm = rm
        self._finished = deque(newest_run_s(state.trials.values()), maxlen=NEWEST_RUNS)
        """How long the newest finished allocations took, in seconds."""
        self.run_time_s = typical_s(self._finished)
        """How long its allocations take, as told; it does not follow every small change."""
        self._told = OrderSync(rm, self.order_of(state))
        self._paces: dict[str, Pace] = {}
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

    def has_order(self, state: ExperimentState) -> bool:
        """Whether its order has changed since it was told."""
        return not state.phase.is_terminal and self._told.differs(self.order_of(state))

    async def sync_order(self, state: ExperimentState) -> None:
        """Does nothing if there is nothing new. What fails is still new afterwards."""
        if self.has_order(state):
            await self._told.tell(self.order_of(state))

    def allocation_ended(self, trial: TrialState) -> None:
        """Learn from it, if it finished its trial."""
        self._paces.pop(trial.task_id, None)
        if (seconds := finished_run_s(trial)) is not None:
            self._finished.append(seconds)
            learned = typical_s(self._finished)
            if differs(self.run_time_s, learned):
                self.run_time_s = learned

    def restarted(self, state: ExperimentState) -> None:
        """Runs go on under a new master, and only their owner knows when they began."""
        if self.run_time_s is None:
            return
        usual = timedelta(seconds=self.run_time_s)
        for trial in state.trials.values():
            allocation = trial.open_allocation
            if allocation is not None and allocation.started_at is not None:
                self._note(
                    AllocationHint(
                        allocation_id=allocation.id, expected_end=allocation.started_at + usual
                    )
                )

    def progressed(self, trial: TrialState, now: datetime) -> None:
        """The trial has reported its progress."""
        allocation = trial.open_allocation
        if allocation is None or not allocation.has_slots:
            return
        known = self._paces.get(allocation.task_id)
        pace = self._paces[allocation.task_id] = paced(known, allocation.id, trial.progress, now)
        if (end := expected_end(pace)) is not None:
            self._note(AllocationHint(allocation_id=allocation.id, expected_end=end))

    def checkpointed(self, trial: TrialState, now: datetime) -> None:
        """The trial's current allocation has saved its work."""
        allocation = trial.open_allocation
        if allocation is not None and allocation.has_slots:
            self._note(AllocationHint(allocation_id=allocation.id, last_checkpoint=now))

    def _note(self, note: AllocationHint) -> None:
        try:
            self._rm().hint(note)
        except Exception:
            log.exception("a note on an allocation was lost", allocation=note.allocation_id)
