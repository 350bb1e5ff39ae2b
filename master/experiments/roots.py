"""All live experiments of this master, found by their trials too."""

from __future__ import annotations

from master.allocations.service import AllocationService
from master.experiments.live import LiveExperiment
from master.experiments.state import ExperimentState
from master.experiments.step_builder import Step
from master.roots.live_roots import LiveRoots
from master.roots.root import Transition
from windlass.base.clock import Clock


class LiveExperiments(LiveRoots[LiveExperiment]):
    def __init__(self, *, allocations: AllocationService, clock: Clock) -> None:
        super().__init__(allocations=allocations, clock=clock)
        self._of_trial: dict[int, LiveExperiment] = {}

    def of_trial(self, trial_id: int) -> LiveExperiment | None:
        """None when its experiment is over, or for a trial that nobody knows."""
        return self._of_trial.get(trial_id)

    def register(self, root: LiveExperiment) -> None:
        super().register(root)
        for trial_id in root.trials.trial_ids():
            self._of_trial[trial_id] = root

        def note_new_trials(transition: Transition[ExperimentState, Step]) -> None:
            for change in transition.step.trials:
                if change.before is None:
                    self._of_trial[change.after.id] = root

        root.subscribe(note_new_trials)

    def forget(self, root: LiveExperiment) -> None:
        super().forget(root)
        for trial_id in root.trials.trial_ids():
            self._of_trial.pop(trial_id, None)
