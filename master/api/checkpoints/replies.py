"""Checkpoints, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.enums import CheckpointState
from master.api.paging import Pagination
from master.api.values import Int64, Number, Timestamp
from windlass.base.formats.json_types import JsonObject


class MetricValues(TypedDict):
    avgMetrics: JsonObject
    batchMetrics: list[JsonObject]


class CheckpointTraining(TypedDict):
    trialId: int | None
    experimentId: int | None
    experimentConfig: JsonObject | None
    hparams: JsonObject | None
    trainingMetrics: MetricValues | None
    validationMetrics: MetricValues | None
    searcherMetric: Number | None


class Checkpoint(TypedDict):
    uuid: str
    taskId: str
    allocationId: str | None
    reportTime: Timestamp
    resources: dict[str, Int64]
    """Files and their sizes."""
    metadata: JsonObject
    state: CheckpointState
    storageId: int | None
    clusterStorage: bool
    """Our own: whether its bucket is at the address of the cluster's `checkpoint_storage`, which the operator chose."""
    training: CheckpointTraining


class DeletionReply(TypedDict):
    taskIds: list[str]
    """Our own: the log of each says what becomes of it."""


class CheckpointReply(TypedDict):
    checkpoint: Checkpoint


class CheckpointsReply(TypedDict):
    checkpoints: list[Checkpoint]
    pagination: Pagination


class CheckpointWorkload(TypedDict):
    uuid: str
    endTime: Timestamp
    state: CheckpointState
    resources: dict[str, Int64]
    totalBatches: int
    metadata: JsonObject
