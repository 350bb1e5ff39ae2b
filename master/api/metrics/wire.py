"""Metric reports in streams."""

from __future__ import annotations

from master.api.metrics.replies import MetricsReport, ReportedMetrics
from master.api.values import finite, time
from master.experiments.metrics import VALIDATION
from master.store.tables import Metric


def metrics_report(row: Metric) -> MetricsReport:
    """The client picks the key by the group it asked for: `validation_metrics` for validation only."""
    return {
        "id": row.id,
        "trialId": row.trial_id,
        "trialRunId": row.run_id,
        "endTime": time(row.reported_at),
        "totalBatches": row.steps or 0,
        "group": row.group,
        "archived": row.archived,
        "metrics": _metrics(row),
    }


def _metrics(row: Metric) -> ReportedMetrics:
    averages = finite(row.metrics["avg_metrics"])
    batches = finite(row.metrics["batch_metrics"])
    if row.group == VALIDATION:
        return {"validation_metrics": averages, "batch_metrics": batches}
    return {"avg_metrics": averages, "batch_metrics": batches}
