"""What the master's own log tells of experiments: created, ended and why, and trials that failed."""

from __future__ import annotations

import structlog

from master.experiments.state import ExperimentState, Phase
from master.experiments.step_builder import Step, TrialChange
from master.roots.root import Transition

log = structlog.get_logger(__name__)


def log_committed(transition: Transition[ExperimentState, Step]) -> None:
    """A subscriber of an experiment."""
    before, step = transition.before, transition.step
    state = step.state
    if before is None:
        log.info(
            "experiment created",
            experiment=state.id,
            name=state.name,
            owner=state.owner_id,
            pool=state.settings.pool,
        )
    for change in step.trials:
        if _has_failed(change):
            log.warning(
                "trial failed", trial=change.after.id, experiment=state.id, error=change.after.error
            )
    if state.phase.is_terminal and (before is None or not before.phase.is_terminal):
        tell = log.warning if state.phase is Phase.ERROR else log.info
        tell("experiment ended", experiment=state.id, state=state.phase.value, error=state.error)


def _has_failed(change: TrialChange) -> bool:
    failed_before = change.before is not None and change.before.phase is Phase.ERROR
    return change.after.phase is Phase.ERROR and not failed_before
