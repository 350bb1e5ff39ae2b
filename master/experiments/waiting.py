"""Why trials wait, in one place for the API and for screens."""

from __future__ import annotations

from collections.abc import Callable

from master.core.reasons import Reason, ReasonKind
from master.experiments.state import ExperimentState, TrialState


def waiting_reasons(
    state: ExperimentState, explain: Callable[[str], Reason | None]
) -> dict[int, Reason]:
    """trial id -> why its run waits, for every trial that waits. `explain` knows the requests that are queued."""
    reasons = {}
    for trial in state.trials.values():
        run = trial.open_allocation
        if run is not None and run.started_at is not None:
            continue
        reason = _between_runs(trial) if run is None else explain(run.id)
        if reason is not None:
            reasons[trial.id] = reason
    return reasons


def _between_runs(trial: TrialState) -> Reason | None:
    """A trial whose runs could not be started is tried again after a pause."""
    if trial.not_before is None or trial.allocation is None or trial.allocation.outcome is None:
        return None
    return Reason(
        kind=ReasonKind.STARTING,
        text=f"its last {trial.aborts} runs could not be started "
        f"({trial.allocation.outcome.error}); the next try is at "
        f"{trial.not_before:%H:%M:%S} UTC",
        retry_at=trial.not_before.timestamp(),
    )
