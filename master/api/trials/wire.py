"""Trials, and the workloads that make up their history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from master.api.checkpoints.wire import checkpoint_workload
from master.api.values import allocation_state, finite, time
from master.core.reasons import Reason
from master.experiments.live import LiveExperiment
from master.experiments.state import Phase
from master.store.paging import Row


def state(row: Row, live: LiveExperiment | None) -> str:
    """A trial that is not over is PAUSED with its experiment, else ACTIVE refined by its allocation."""
    if live is None:
        phase, experiment = Phase(row["state"]), Phase(row["experiment_state"])
        if phase is Phase.ACTIVE:
            return "STATE_PAUSED" if experiment is Phase.PAUSED else "STATE_QUEUED"
        return f"STATE_{phase}"
    trial = live.state.trials[row["request_id"]]
    if trial.phase is not Phase.ACTIVE:
        return f"STATE_{trial.phase}"
    if live.state.phase is Phase.PAUSED:
        return "STATE_PAUSED"
    return f"STATE_{allocation_state(trial.open_allocation)}"


def trial(
    row: Row,
    live: LiveExperiment | None,
    *,
    reports: Mapping[int, Row],
    best_checkpoint: Row | None,
    slot_seconds: float,
    waiting: Reason | None = None,
) -> dict[str, Any]:
    """`reports` holds at least the best and the latest validation."""
    restarts = min(row["restarts"], row["experiment_config"].get("max_restarts", row["restarts"]))
    best, latest = row["best_validation_id"], row["latest_validation_id"]
    return {
        "id": row["id"],
        "experimentId": row["experiment_id"],
        "state": state(row, live),
        "startTime": time(row["created_at"]),
        "endTime": time(row["ended_at"]),
        "hparams": finite(row["hparams"]),
        "restarts": restarts,
        "totalBatchesProcessed": row["steps_completed"],
        "bestValidation": metrics_workload(reports[best]) if best in reports else None,
        "latestValidation": metrics_workload(reports[latest]) if latest in reports else None,
        "bestCheckpoint": checkpoint_workload(best_checkpoint) if best_checkpoint else None,
        "searcherMetricValue": finite(row["searcher_metric"]),
        "summaryMetrics": finite(row["summary_metrics"]),
        "checkpointCount": row["checkpoint_count"],
        "totalCheckpointSize": str(row["checkpoint_size"]),
        "runnerState": row["runner_state"],
        "wallClockTime": slot_seconds,
        "warmStartCheckpointUuid": row["warm_start_checkpoint"],
        "taskId": row["task_id"],
        "taskIds": [row["task_id"]],
        "metadata": finite(row["run_metadata"]),
        "progress": finite(row["progress"]),
        "error": row["error"],
        "waitingReason": waiting.text if waiting is not None else None,
    }


def metrics_workload(row: Row, *, batches: bool = False) -> dict[str, Any]:
    document = row["metrics"]
    return {
        "endTime": time(row["reported_at"]),
        "totalBatches": row["steps"] or 0,
        "numInputs": 0,
        "metrics": {
            "avgMetrics": finite(document["avg_metrics"]),
            "batchMetrics": finite(document["batch_metrics"] or []) if batches else [],
        },
    }
