"""Checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from master.api.values import finite, sizes, time
from master.experiments.metrics import number
from master.store.paging import Row


def checkpoint(row: Row, averages: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`averages`: group -> metrics reported at the checkpoint's steps."""
    config = row["experiment_config"]
    return {
        "uuid": row["uuid"],
        "taskId": row["task_id"],
        "allocationId": row["allocation_id"],
        "reportTime": time(row["reported_at"]),
        "resources": sizes(row["resources"]),
        "metadata": finite(row["meta"]),
        "state": f"STATE_{row['state']}",
        "storageId": row["storage_id"],
        "training": {
            "trialId": row["trial_id"],
            "experimentId": row["experiment_id"],
            "experimentConfig": finite(config),
            "hparams": finite(row["hparams"]),
            "trainingMetrics": _metrics(averages.get("training")),
            "validationMetrics": _metrics(averages.get("validation")),
            "searcherMetric": finite(searcher_metric(config, averages)),
        },
    }


def searcher_metric(
    config: Mapping[str, Any] | None, averages: Mapping[str, Mapping[str, Any]]
) -> float | None:
    """The searcher's metric among the validation metrics; None if it is not there or not a number."""
    name = ((config or {}).get("searcher") or {}).get("metric", "")
    return number(averages.get("validation", {}).get(name))


def _metrics(averages: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if averages is None else {"avgMetrics": finite(averages), "batchMetrics": []}


def checkpoint_workload(row: Row) -> dict[str, Any]:
    state = row["state"]
    return {
        "uuid": row["uuid"],
        "endTime": time(row["reported_at"]),
        # `det trial describe` of the published client ends with an assertion on PARTIALLY_DELETED.
        "state": f"STATE_{'COMPLETED' if state == 'PARTIALLY_DELETED' else state}",
        "resources": sizes(row["resources"]),
        "totalBatches": row["steps"],
        "metadata": finite(row["meta"]),
    }
