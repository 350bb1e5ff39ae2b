"""What the master writes into a task's log: when it was queued, placed, started, and why it ended."""

from __future__ import annotations

from typing import Protocol

from master.allocations.machine import AllocationPhase, AllocationState
from master.experiments.draft import Step
from master.experiments.state import ExperimentState, TrialState


class TaskLog(Protocol):
    """Where lines of the master go."""

    def say(self, task_id: str, allocation_id: str, text: str, *, level: str = "INFO") -> None:
        """Append one line with source `master`, sooner or later. Never fails or delays: logs are not state."""
        ...


class Narrator:
    """Tells the task logs what changed between two states of an experiment."""

    def __init__(self, log: TaskLog) -> None:
        self._log = log

    def tell(self, old: ExperimentState | None, step: Step) -> None:
        before = old.trials if old is not None else {}
        for request_id, trial in step.state.trials.items():
            previous = before.get(request_id)
            last = previous.allocation if previous is not None else None
            for run in (step.replaced.get(request_id), trial.allocation):
                if run is not None and run is not last:
                    for level, line in lines(step.state, trial, last, run):
                        self._log.say(trial.task_id, run.id, line, level=level)
                    last = run


def lines(
    experiment: ExperimentState,
    trial: TrialState,
    old: AllocationState | None,
    new: AllocationState,
) -> list[tuple[str, str]]:
    """(level, text) for each thing worth saying about a run's step."""
    name = f"Trial {trial.id} (Experiment {experiment.id})"
    fresh = old is None or old.id != new.id
    said: list[tuple[str, str]] = []
    if fresh:
        said.append(("INFO", f"Scheduling {name} (id: {new.id})"))
    if new.has_slots and (fresh or (old is not None and not old.has_slots)):
        agents = ", ".join(sorted({c.container.agent_id for c in new.containers}))
        said.append(("INFO", f"{name} was assigned to {agents}"))
    reached = new.phase is AllocationPhase.RUNNING and new.started_at is not None
    if reached and (fresh or (old is not None and old.phase is not AllocationPhase.RUNNING)):
        said.append(("INFO", f"Resources for {name} have started"))
    if new.preempt_requested and (fresh or (old is not None and not old.preempt_requested)):
        said.append(("INFO", f"{name} was asked to checkpoint and stop: {new.preempt_reason}"))
    if new.outcome is not None and (fresh or (old is not None and old.outcome is None)):
        level = "ERROR" if new.outcome.error else "INFO"
        said.append((level, f"{name} was terminated: {new.outcome.reason}"))
    return said
