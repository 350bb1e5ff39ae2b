"""What the master's own log tells of experiments: created, ended and why, and trials that failed."""

from __future__ import annotations

import structlog

from master.allocations.task_messages import TaskLogWriter
from master.core.actor import Actor
from master.experiments.lifecycle.state import ExperimentState, Phase
from master.experiments.lifecycle.step_builder import ExperimentStep, TrialChange
from master.roots.root import Transition

log = structlog.get_logger(__name__)

_ASKED = {
    Phase.ACTIVE: "experiment activated",
    Phase.PAUSED: "experiment paused",
    Phase.STOPPING_CANCELED: "experiment canceled",
    Phase.STOPPING_KILLED: "experiment killed",
}
"""What users ask for."""


def log_committed(transition: Transition[ExperimentState, ExperimentStep]) -> None:
    """A subscriber of an experiment."""
    before, step = transition.before, transition.step
    state, by = step.state, _name(transition.by)
    if before is None:
        log.info(
            "experiment created",
            experiment=state.id,
            name=state.name,
            owner=state.owner_id,
            pool=state.settings.pool,
            **by,
        )
    elif by and state.phase in _ASKED and state.phase is not before.phase:
        log.info(_ASKED[state.phase], experiment=state.id, **by)
    for change in step.trials:
        if _has_failed(change):
            log.warning(
                "trial failed", trial=change.after.id, experiment=state.id, error=change.after.error
            )
        elif by and _is_killed_alone(change, state):
            log.info("trial killed", trial=change.after.id, experiment=state.id, **by)
    if state.phase.is_terminal and (before is None or not before.phase.is_terminal):
        tell = log.warning if state.phase is Phase.ERROR else log.info
        tell(
            "experiment ended",
            experiment=state.id,
            state=state.phase.value,
            error=state.error,
            **by,
        )


class TrialErrors:
    """Writes why a trial failed into its task's log, where the end of its allocation does not say it."""

    def __init__(self, log: TaskLogWriter) -> None:
        self._log = log

    def committed(self, transition: Transition[ExperimentState, ExperimentStep]) -> None:
        for change in transition.step.trials:
            trial, run = change.after, change.after.allocation
            said = "" if run is None or run.outcome is None else run.outcome.error
            speaks = run is not None or transition.step.state.unmanaged
            if _has_failed(change) and speaks and trial.error not in ("", said):
                self._log.say(trial.task_id, run.id if run else "", trial.error, level="ERROR")


def _has_failed(change: TrialChange) -> bool:
    failed_before = change.before is not None and change.before.phase is Phase.ERROR
    return change.after.phase is Phase.ERROR and not failed_before


def _is_killed_alone(change: TrialChange, state: ExperimentState) -> bool:
    """By somebody who killed this trial, not its experiment."""
    killed_before = change.before is not None and change.before.phase is not Phase.ACTIVE
    return change.after.phase is Phase.STOPPING_KILLED and not killed_before


def _name(by: Actor | None) -> dict[str, str]:
    return {} if by is None else {"by": str(by)}
