"""What the master writes into the logs of trials: when an allocation was queued, placed, started, and why it ended."""

from __future__ import annotations

from master.allocations.task_messages import TaskLog, tell_allocations
from master.experiments.state import ExperimentState
from master.experiments.step_builder import Step


class TaskMessages:
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
            tell_allocations(self._log, name, last, step.replaced.get(request_id), trial.allocation)
