"""What a trial does after an allocation that others ended: run again, or fail because that gets nowhere. Pure.

| the allocation | counts as | the trial fails |
| --- | --- | --- |
| worked until the time of its batch job was over, without a new checkpoint | `restarts` | after `max_restarts` |
| was refused by its node before the user's program began | `start_failure` | the same refusal 3 times, or on 2 nodes |
| was lost before the user's program began, or refused for other reasons | `aborts` | after `max_lost_runs` in a row |
| was lost, preempted or killed by others, without a new checkpoint since | `lost_runs` | after `max_lost_runs` |

Nothing is counted that the user asked for: a pause, a move to another pool. A new checkpoint clears `lost_runs`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from master.allocations.backoff import backoff_after
from master.allocations.machine import AllocationState
from master.allocations.outcome import Outcome, OutcomeKind
from master.allocations.start_failures import start_failure
from master.experiments.lifecycle.releases import is_own
from master.experiments.lifecycle.state import TrialState

OTHERS = frozenset({OutcomeKind.TRANSIENT, OutcomeKind.PREEMPTED, OutcomeKind.KILLED})
"""Ends that are not the trial's own: it runs again."""


class RestartLimits(NamedTuple):
    max_restarts: int
    max_lost_runs: int


class Rerun(NamedTuple):
    trial: TrialState
    error: str = ""
    """Why it fails instead; empty: it runs again when its experiment is active."""


def after(
    trial: TrialState,
    ended: AllocationState,
    outcome: Outcome,
    limits: RestartLimits,
    now: datetime,
    *,
    paused: bool,
) -> Rerun:
    """`ended`: its last allocation, whose outcome is one of `OTHERS`, or at the limit of its batch job."""
    if outcome.kind is not OutcomeKind.TRANSIENT and (paused or is_own(_asked_because(ended))):
        return Rerun(trial)
    if outcome.at_limit:
        return _after_its_time(trial, outcome, limits)
    if outcome.kind is OutcomeKind.TRANSIENT and ended.never_ran:
        return _after_failed_start(trial, ended, outcome, limits, now)
    return _after_loss(trial, outcome, limits)


def _asked_because(ended: AllocationState) -> str:
    return ended.preempt_reason or ended.kill_reason or ""


def _after_its_time(trial: TrialState, outcome: Outcome, limits: RestartLimits) -> Rerun:
    """Without a new checkpoint the next allocation would begin where this one did."""
    if trial.checkpoint_run_id == trial.run_id:
        return Rerun(trial)
    trial = replace(trial, restarts=trial.restarts + 1, aborts=0)
    if trial.restarts <= limits.max_restarts:
        return Rerun(trial)
    error = (
        f"no new checkpoint within the time of its batch job ({outcome.error or outcome.reason}): "
        "give it more time, or save checkpoints more often"
    )
    return Rerun(trial, error)


def _after_failed_start(
    trial: TrialState,
    ended: AllocationState,
    outcome: Outcome,
    limits: RestartLimits,
    now: datetime,
) -> Rerun:
    failure = start_failure(trial.start_failure, ended)
    aborts = trial.aborts + 1
    trial = replace(
        trial, start_failure=failure, aborts=aborts, not_before=now + backoff_after(aborts)
    )
    if failure is not None and failure.is_final:
        return Rerun(trial, failure.text)
    if aborts > limits.max_lost_runs:
        error = f"its allocations could not be started {aborts} times in a row: {outcome.error}"
        return Rerun(trial, error)
    return Rerun(trial)


def _after_loss(trial: TrialState, outcome: Outcome, limits: RestartLimits) -> Rerun:
    trial = replace(trial, aborts=0, start_failure=None)
    if outcome.kind is not OutcomeKind.TRANSIENT and trial.checkpoint_run_id == trial.run_id:
        return Rerun(trial)
    trial = replace(trial, lost_runs=trial.lost_runs + 1)
    if trial.lost_runs <= limits.max_lost_runs:
        return Rerun(trial)
    error = (
        f"its allocations were lost or preempted {trial.lost_runs} times without a new checkpoint: "
        f"{outcome.error or outcome.reason}"
    )
    return Rerun(trial, error)
