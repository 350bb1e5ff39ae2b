"""What an experiment tells the scheduler: its job's order, when its runs will end, when they last saved their work.

Kept in memory, and no failure here is the failure of a report. A changed order is told until it was heard; requests,
and the records of a restart, bring the order along too. The rest are hints: a lost one is not told again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from master.allocations.told_order import ToldOrder
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
from rm_backends.base import JobOrder, ResourceManager, RunNote

log = structlog.get_logger(__name__)


class SchedulerNews:
    """Of one experiment."""

    def __init__(self, rm: Callable[[], ResourceManager], state: ExperimentState) -> None:
        self._rm = rm
        self._finished = deque(newest_run_s(state.trials.values()), maxlen=NEWEST_RUNS)
        """How long the newest finished runs took, in seconds."""
        self.run_time_s = typical_s(self._finished)
        """How long its runs take, as told; it does not follow every small change."""
        self._told = ToldOrder(rm, self.order_of(state))
        self._paces: dict[str, Pace] = {}
        """Task id -> the pace of its current run."""

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

    async def tell_order(self, state: ExperimentState) -> None:
        """Does nothing if there is nothing new. What fails is still new afterwards."""
        if self.has_order(state):
            await self._told.tell(self.order_of(state))

    def run_ended(self, trial: TrialState) -> None:
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
            run = trial.open_allocation
            if run is not None and run.started_at is not None:
                self._note(RunNote(allocation_id=run.id, expected_end=run.started_at + usual))

    def progressed(self, trial: TrialState, now: datetime) -> None:
        """The trial has reported its progress."""
        run = trial.open_allocation
        if run is None or not run.has_slots:
            return
        known = self._paces.get(run.task_id)
        pace = self._paces[run.task_id] = paced(known, run.id, trial.progress, now)
        if (end := expected_end(pace)) is not None:
            self._note(RunNote(allocation_id=run.id, expected_end=end))

    def checkpointed(self, trial: TrialState, now: datetime) -> None:
        """The trial's current run has saved its work."""
        run = trial.open_allocation
        if run is not None and run.has_slots:
            self._note(RunNote(allocation_id=run.id, last_checkpoint=now))

    def _note(self, note: RunNote) -> None:
        try:
            self._rm().note_run(note)
        except Exception:
            log.exception("a note on a run was lost", allocation=note.allocation_id)
