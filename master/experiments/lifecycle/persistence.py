"""Between live state and rows: the difference of two states as one unit of work, and rows back into state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from master.allocations.machine import AllocationState
from master.allocations.persistence import allocation_changes
from master.core.persistent_map import PersistentMap
from master.core.searcher.event_json import action_to_json, event_to_json
from master.core.searcher.search import SearchState
from master.core.searcher.state_json import state_to_json
from master.core.searcher.types import ExitReason
from master.experiments.lifecycle.garbage import row_at_end
from master.experiments.lifecycle.run_numbers import number_runs
from master.experiments.lifecycle.state import (
    ExperimentState,
    GroupMetrics,
    Phase,
    TrialReports,
    TrialState,
)
from master.experiments.lifecycle.step_builder import ExperimentStep, LoggedEvent, TrialChange
from master.roots.root import Transition
from master.store import tables
from master.store.unit_of_work import UnitOfWork, changed_values
from windlass.base.formats.strict_json import StrictJson

SNAPSHOT_EVERY = 200
"""Of a small search: see `snapshot_interval`."""

_GROUPS: StrictJson[dict[str, GroupMetrics]] = StrictJson(dict[str, GroupMetrics])


def changes(transitions: Sequence[Transition[ExperimentState, ExperimentStep]]) -> UnitOfWork:
    """What a batch of steps writes, as one atomic unit."""
    uow = UnitOfWork()
    for transition in transitions:
        step = transition.step
        uow.operations.extend(step.rows)
        for change in step.trials:
            _trial_changes(uow, step.state, change)
            for before, after in change.allocations():
                allocation_changes(uow, before, after)
        if made := [change.after.id for change in step.trials if change.before is None]:
            uow.extend(number_runs(step.state.id, since=min(made)))
        uow.insert(tables.SearcherEvent, *(_event_row(step.state.id, e) for e in step.events))
    if transitions:
        _experiment_changes(uow, transitions[0].before, transitions[-1].step.state)
    return uow


def _experiment_changes(uow: UnitOfWork, old: ExperimentState | None, new: ExperimentState) -> None:
    """The row of a new experiment comes with its first step."""
    if old is not None:
        changed = changed_values(_experiment_row(old), _experiment_row(new))
        if new.config is not old.config:
            changed["config"] = new.config.to_json()
        if changed:
            uow.update(tables.Experiment, {"id": new.id}, changed, expect=1)
        if old.ended_at is None and (garbage := row_at_end(new)) is not None:
            uow.insert(tables.CheckpointGc, garbage)
    every = snapshot_interval(len(new.trials))
    if old is None or new.searcher_seq // every > old.searcher_seq // every:
        uow.upsert(
            tables.SearcherSnapshot,
            {
                "experiment_id": new.id,
                "seq": new.searcher_seq,
                "state": state_to_json(new.searcher),
            },
        )


def snapshot_interval(trials: int) -> int:
    """Searcher events between snapshots: a restart replays at most this many.

    A snapshot lists every trial, so it grows with the search: doubled, so that the interval seldom changes.
    """
    interval = SNAPSHOT_EVERY
    while interval < trials:
        interval *= 2
    return interval


def _experiment_row(state: ExperimentState) -> dict[str, object]:
    position = state.settings.queue_position
    return {
        "state": state.phase.value,
        "resource_pool": state.settings.pool,
        "queue_position": None if position is None else str(position),
        "progress": state.progress,
        "error": state.error,
        "ended_at": state.ended_at,
    }


def _trial_changes(uow: UnitOfWork, experiment: ExperimentState, change: TrialChange) -> None:
    old, new = change.before, change.after
    if old is None:
        uow.insert(
            tables.Task,
            {
                "id": new.task_id,
                "type": "TRIAL",
                "job_id": experiment.job_id,
                "owner_id": experiment.owner_id,
                "experiment_id": experiment.id,
                "trial_id": new.id,
                "created_at": new.created_at,
                "ended_at": None,
                "log_retention_days": experiment.config.log_retention_days,
            },
        )
        uow.insert(tables.Trial, {**_trial_key(experiment, new), **trial_row(new)})
    else:
        if changed := changed_values(trial_row(old), trial_row(new)):
            uow.update(tables.Trial, {"id": new.id}, changed, expect=1)
        went_on = new.ended_at is None and new.task_id == old.task_id
        if new.ended_at != old.ended_at and (new.ended_at is not None or went_on):
            uow.update(tables.Task, {"id": new.task_id}, {"ended_at": new.ended_at})


def _trial_key(experiment: ExperimentState, trial: TrialState) -> dict[str, object]:
    return {
        "id": trial.id,
        "experiment_id": experiment.id,
        "request_id": trial.request_id,
        "task_id": trial.task_id,
        "hparams": dict(trial.hparams),
        "seed": trial.seed,
        "warm_start_checkpoint": trial.warm_start_checkpoint,
        "run_metadata": None,
        "created_at": trial.created_at,
        "external_id": trial.external_id,
    }


def trial_row(trial: TrialState) -> dict[str, object]:
    """The columns of a trial that change."""
    metrics = trial.metrics
    return {
        "state": trial.phase.value,
        "restarts": trial.restarts,
        "aborts": trial.aborts,
        "lost_runs": trial.lost_runs,
        "checkpoint_run_id": trial.checkpoint_run_id,
        "run_id": trial.run_id,
        "progress": trial.progress,
        "searcher_stopped": trial.searcher_stopped,
        "early_exit": trial.early_exit.value if trial.early_exit else None,
        "early_exit_at": trial.early_exit_at,
        "error": trial.error,
        "log_policy": trial.log_policy,
        "retries_cancelled": trial.retries_cancelled,
        "avoids": list(trial.avoids),
        "latest_checkpoint": trial.latest_checkpoint,
        "latest_checkpoint_steps": trial.latest_checkpoint_steps,
        "steps_completed": metrics.steps_completed,
        "best_validation_id": metrics.best_validation_id,
        "latest_validation_id": metrics.latest_validation_id,
        "searcher_metric": metrics.best,
        "latest_searcher_metric": metrics.latest_validation,
        "summary_metrics": dict(metrics.summary),
        "metric_groups": _GROUPS.dump(dict(metrics.groups)),
        "runner_state": trial.runner_state,
        "ended_at": trial.ended_at,
        "last_activity": trial.last_activity,
    }


def _event_row(experiment_id: int, logged: LoggedEvent) -> dict[str, object]:
    return {
        "experiment_id": experiment_id,
        "seq": logged.seq,
        "event": event_to_json(logged.event),
        "actions": [action_to_json(a) for a in logged.actions],
        "at": logged.at,
    }


def trial_from_row(row: tables.Trial, allocation: AllocationState | None) -> TrialState:
    return TrialState(
        id=row.id,
        request_id=row.request_id,
        task_id=row.task_id,
        hparams=row.hparams,
        seed=row.seed,
        created_at=row.created_at,
        phase=Phase(row.state),
        restarts=row.restarts,
        aborts=row.aborts,
        lost_runs=row.lost_runs,
        checkpoint_run_id=row.checkpoint_run_id,
        run_id=row.run_id,
        progress=row.progress,
        searcher_stopped=row.searcher_stopped,
        early_exit=ExitReason(row.early_exit) if row.early_exit else None,
        early_exit_at=row.early_exit_at,
        log_policy=row.log_policy,
        retries_cancelled=row.retries_cancelled,
        avoids=tuple(row.avoids),
        warm_start_checkpoint=row.warm_start_checkpoint,
        latest_checkpoint=row.latest_checkpoint,
        latest_checkpoint_steps=row.latest_checkpoint_steps,
        metrics=TrialReports(
            steps_completed=row.steps_completed,
            groups=_GROUPS.load(row.metric_groups, f"metrics of trial {row.id}"),
            summary=row.summary_metrics,
            latest_validation_id=row.latest_validation_id,
            latest_validation=row.latest_searcher_metric,
            best_validation_id=row.best_validation_id,
            best=row.searcher_metric,
        ),
        runner_state=row.runner_state,
        error=row.error,
        ended_at=row.ended_at,
        allocation=allocation,
        external_id=row.external_id,
        last_activity=row.last_activity,
    )


def trials_in_order(
    rows: Sequence[tables.Trial], allocations: Mapping[str, AllocationState], searcher: SearchState
) -> PersistentMap[str, TrialState]:
    ordered = sorted(rows, key=lambda r: r.id)
    trials = {r.request_id: trial_from_row(r, allocations.get(r.task_id)) for r in ordered}
    waiting = [id_ for id_, record in searcher.trials.items() if record.awaits_point]
    for request_id in trials.keys() & set(waiting):
        trials[request_id] = replace(trials[request_id], awaits_point=True)
    return PersistentMap(trials)
