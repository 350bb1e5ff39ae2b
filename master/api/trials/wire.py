"""Trials, and the workloads that make up their history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from master.api.checkpoints.replies import CheckpointWorkload
from master.api.checkpoints.wire import checkpoint_workload
from master.api.enums import TrialState
from master.api.trials.replies import MetricsWorkload, Trial, Workload
from master.api.values import allocation_state, finite, time
from master.core.reasons import Reason
from master.experiments.lifecycle.state import Phase
from master.experiments.live import LiveExperiment
from master.experiments.queries.experiments import TrialRow
from master.store.tables import Checkpoint, Metric
from master.store.tables import Trial as TrialRecord


class StoredRun(Protocol):
    """What the state of a trial follows from, beside what is in memory."""

    @property
    def request_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def last_activity(self) -> datetime | None: ...


def state(row: TrialRow, live: LiveExperiment | None) -> TrialState:
    """A trial that is not over is PAUSED with its experiment, else ACTIVE refined by its allocation.

    An unmanaged one has none: when it is ACTIVE, it runs.
    """
    return run_state(row.trial, row.experiment_state, live)


def run_state(
    trial: TrialRecord | StoredRun, experiment_state: str, live: LiveExperiment | None
) -> TrialState:
    known = live.state.trials.get(trial.request_id) if live is not None else None
    phase = Phase(trial.state) if known is None else known.phase
    if phase is Phase.ACTIVE and trial.last_activity is not None:
        return TrialState.RUNNING
    if live is None or known is None:
        experiment = Phase(experiment_state)
        if phase is Phase.ACTIVE:
            return TrialState.PAUSED if experiment is Phase.PAUSED else TrialState.QUEUED
        return TrialState[phase]
    if phase is not Phase.ACTIVE:
        return TrialState[phase]
    if live.state.phase is Phase.PAUSED:
        return TrialState.PAUSED
    return TrialState[allocation_state(known.open_allocation)]


def trial(
    row: TrialRow,
    live: LiveExperiment | None,
    *,
    reports: Mapping[int, Metric],
    best_checkpoint: Checkpoint | None,
    task_ids: Sequence[str],
    slot_seconds: float,
    waiting: Reason | None = None,
    log_retention_days: int | None = None,
) -> Trial:
    """`reports` holds at least the best and the latest validation; `task_ids` are oldest first."""
    restarts = min(
        row.trial.restarts, row.experiment_config.get("max_restarts", row.trial.restarts)
    )
    best = reports.get(row.trial.best_validation_id or 0)
    latest = reports.get(row.trial.latest_validation_id or 0)
    return {
        "id": row.trial.id,
        "experimentId": row.trial.experiment_id,
        "state": state(row, live),
        "startTime": time(row.trial.created_at),
        "endTime": time(row.trial.ended_at),
        "hparams": finite(row.trial.hparams),
        "restarts": restarts,
        "totalBatchesProcessed": row.trial.steps_completed,
        "bestValidation": metrics_workload(best) if best else None,
        "latestValidation": metrics_workload(latest) if latest else None,
        "bestCheckpoint": checkpoint_workload(best_checkpoint) if best_checkpoint else None,
        "searcherMetricValue": finite(row.trial.searcher_metric),
        "summaryMetrics": finite(row.trial.summary_metrics),
        "checkpointCount": row.checkpoint_count,
        "totalCheckpointSize": str(row.checkpoint_size),
        "runnerState": row.trial.runner_state,
        "logPolicyMatched": row.trial.log_policy or None,
        "logRetentionDays": log_retention_days,
        "wallClockTime": slot_seconds,
        "warmStartCheckpointUuid": row.trial.warm_start_checkpoint,
        "taskId": row.trial.task_id,
        "taskIds": list(task_ids),
        "metadata": finite(row.trial.run_metadata),
        "progress": finite(row.trial.progress),
        "error": row.trial.error,
        "waitingReason": waiting.text if waiting is not None else None,
        "avoids": row.trial.avoids,
        "deletion": row.trial.deletion,
        "deletionError": row.trial.deletion_error,
    }


def metrics_workload(row: Metric, *, batches: bool = False) -> MetricsWorkload:
    document = row.metrics
    return {
        "endTime": time(row.reported_at),
        "totalBatches": row.steps or 0,
        "numInputs": 0,
        "metrics": {
            "avgMetrics": finite(document["avg_metrics"]),
            "batchMetrics": finite(document["batch_metrics"] or []) if batches else [],
        },
    }


def workload(
    *,
    training: MetricsWorkload | None = None,
    validation: MetricsWorkload | None = None,
    checkpoint: CheckpointWorkload | None = None,
) -> Workload:
    return {"training": training, "validation": validation, "checkpoint": checkpoint}


def place(item: Workload) -> tuple[int, str]:
    """Its position in the history of its trial."""
    done = item["training"] or item["validation"] or item["checkpoint"]
    return (done["totalBatches"], done["endTime"]) if done is not None else (0, "")
