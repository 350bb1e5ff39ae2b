"""Models and their versions, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.checkpoints.replies import Checkpoint
from master.api.paging import Pagination
from master.api.values import Timestamp
from windlass.base.formats.json_types import JsonObject


class Model(TypedDict):
    id: int
    name: str
    description: str
    notes: str
    labels: list[str]
    metadata: JsonObject
    archived: bool
    numVersions: int
    workspaceId: int
    userId: int
    username: str
    creationTime: Timestamp
    lastUpdatedTime: Timestamp


class ModelVersion(TypedDict):
    id: int
    version: int
    model: Model
    checkpoint: Checkpoint
    name: str
    comment: str
    notes: str
    labels: list[str]
    metadata: JsonObject
    userId: int
    """Who registered it."""
    username: str
    creationTime: Timestamp
    lastUpdatedTime: Timestamp


class ModelReply(TypedDict):
    model: Model


class ModelsReply(TypedDict):
    models: list[Model]
    pagination: Pagination


class ModelLabelsReply(TypedDict):
    labels: list[str]


class ModelVersionReply(TypedDict):
    modelVersion: ModelVersion


class ModelVersionsReply(TypedDict):
    model: Model
    modelVersions: list[ModelVersion]
    pagination: Pagination


class TrialSourceReply(TypedDict):
    trialId: int
    checkpointUuid: str
