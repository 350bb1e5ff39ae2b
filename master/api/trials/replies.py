"""Trials and their history, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.checkpoints.replies import CheckpointWorkload, MetricValues
from master.api.enums import TrialState
from master.api.paging import Pagination
from master.api.values import Int64, Number, Timestamp
from windlass.base.formats.json_types import JsonObject


class MetricsWorkload(TypedDict):
    endTime: Timestamp
    totalBatches: int
    numInputs: int
    metrics: MetricValues


class Trial(TypedDict):
    id: int
    experimentId: int
    state: TrialState
    startTime: Timestamp
    endTime: Timestamp | None
    hparams: JsonObject
    restarts: int
    totalBatchesProcessed: int
    bestValidation: MetricsWorkload | None
    latestValidation: MetricsWorkload | None
    bestCheckpoint: CheckpointWorkload | None
    searcherMetricValue: Number | None
    summaryMetrics: JsonObject
    checkpointCount: int
    totalCheckpointSize: Int64
    runnerState: str
    logPolicyMatched: str | None
    logRetentionDays: int | None
    """-1 and null: for ever."""
    wallClockTime: float
    warmStartCheckpointUuid: str | None
    taskId: str
    taskIds: list[str]
    metadata: JsonObject | None
    progress: Number
    """Our own."""
    error: str
    """Our own: why it ended in ERROR."""
    waitingReason: str | None
    """Our own: why it waits."""
    avoids: list[str]
    """Our own: agents and nodes that its log policies excluded."""
    deletion: str
    """Our own: DELETING or DELETE_FAILED; else empty."""
    deletionError: str
    """Our own: why it could not be deleted."""


class TrialReply(TypedDict):
    trial: Trial


class TrialsReply(TypedDict):
    trials: list[Trial]
    pagination: Pagination


class Workload(TypedDict):
    """Exactly one is given."""

    training: MetricsWorkload | None
    validation: MetricsWorkload | None
    checkpoint: CheckpointWorkload | None


class WorkloadsReply(TypedDict):
    workloads: list[Workload]
    pagination: Pagination
