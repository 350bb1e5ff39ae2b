"""What the master writes into the logs of trials: when a run was queued, placed, started, and why it ended."""

from __future__ import annotations

from master.allocations.narration import TaskLog, tell_runs
from master.experiments.draft import Step
from master.experiments.state import ExperimentState


class Narrator:
    """Tells the task logs what changed between two states of an experiment."""

    def __init__(self, log: TaskLog) -> None:
        self._log = log

    def tell(self, old: ExperimentState | None, step: Step) -> None:
        before = old.trials if old is not None else {}
        for request_id, trial in step.state.trials.items():
            previous = before.get(request_id)
            if trial is previous:
                continue
            last = previous.allocation if previous is not None else None
            name = f"Trial {trial.id} (Experiment {step.state.id})"
            tell_runs(self._log, name, last, step.replaced.get(request_id), trial.allocation)
