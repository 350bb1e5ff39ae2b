"""Why trials wait, in one place for the API and for screens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from master.allocations.backoff import backoff_reason
from master.core.reasons import Reason, ReasonKind
from master.experiments.lifecycle.state import TrialState

Explain: TypeAlias = Callable[[str], Reason | None]
"""Why a request waits, by its allocation: resource managers know."""


def waiting_reason(trial: TrialState, explain: Explain) -> Reason | None:
    """Why its allocation waits; None if it does not."""
    allocation = trial.open_allocation
    if allocation is None:
        return _between_allocations(trial)
    return None if allocation.started_at is not None else explain(allocation.id)


def waiting_reasons(trials: Iterable[TrialState], explain: Explain) -> dict[int, Reason]:
    """trial id -> why its allocation waits, for every trial that waits."""
    found = ((trial.id, waiting_reason(trial, explain)) for trial in trials)
    return {trial_id: reason for trial_id, reason in found if reason is not None}


def first_waiting_reason(trials: Iterable[TrialState], explain: Explain) -> Reason | None:
    """Of the first trial that waits: searches may have thousands, and screens show one."""
    found = (waiting_reason(trial, explain) for trial in trials)
    return next((reason for reason in found if reason is not None), None)


def _between_allocations(trial: TrialState) -> Reason | None:
    """Of a trial that has none: it waits for its hyperparameters, its turn, or out a pause after failed starts."""
    if trial.awaits_point and not trial.phase.is_terminal:
        return Reason(
            kind=ReasonKind.CHOOSING, text="Waiting for the sampler to choose hyperparameters"
        )
    if trial.awaits_turn and not trial.phase.is_terminal:
        return Reason(
            kind=ReasonKind.QUEUED,
            text="Waiting for other trials of its search to end: max_concurrent_trials of them run",
        )
    if trial.not_before is None or trial.allocation is None or trial.allocation.outcome is None:
        return None
    return backoff_reason(trial.aborts, trial.allocation.outcome, trial.not_before)
