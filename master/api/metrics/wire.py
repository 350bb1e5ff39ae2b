"""Metric reports in streams."""

from __future__ import annotations

from typing import Any

from master.api.values import finite, time
from master.experiments.metrics import VALIDATION
from master.store.tables import Metric


def metrics_report(row: Metric) -> dict[str, Any]:
    """The client picks the key by the group it asked for: `validation_metrics` for validation only."""
    document = row.metrics
    key = "validation_metrics" if row.group == VALIDATION else "avg_metrics"
    return {
        "id": row.id,
        "trialId": row.trial_id,
        "trialRunId": row.run_id,
        "endTime": time(row.reported_at),
        "totalBatches": row.steps or 0,
        "group": row.group,
        "archived": row.archived,
        "metrics": {
            key: finite(document["avg_metrics"]),
            "batch_metrics": finite(document["batch_metrics"]),
        },
    }
