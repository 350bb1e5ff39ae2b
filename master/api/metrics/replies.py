"""Metric reports, as they are streamed."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from master.api.values import Timestamp
from windlass.base.json_types import JsonObject


class ReportedMetrics(TypedDict):
    """`validation_metrics` in the group `validation`, `avg_metrics` in all others."""

    avg_metrics: NotRequired[JsonObject]
    validation_metrics: NotRequired[JsonObject]
    batch_metrics: list[JsonObject] | None


class MetricsReport(TypedDict):
    id: int
    trialId: int
    trialRunId: int
    endTime: Timestamp
    totalBatches: int
    group: str
    archived: bool
    metrics: ReportedMetrics


class MetricsReports(TypedDict):
    metrics: list[MetricsReport]
