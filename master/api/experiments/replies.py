"""Experiments, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.enums import ExperimentState, LaunchWarning
from master.api.jobs.replies import JobSummary
from master.api.paging import Pagination
from master.api.values import Int64, Number, Timestamp
from master.core.expconf.origins import Source
from windlass.base.formats.json_types import JsonObject


class Experiment(TypedDict):
    id: int
    jobId: str
    name: str
    description: str
    labels: list[str]
    notes: str
    archived: bool
    unmanaged: bool
    state: ExperimentState
    progress: Number
    startTime: Timestamp | None
    endTime: Timestamp | None
    duration: int
    username: str
    displayName: str
    userId: int
    resourcePool: str
    searcherType: str
    searcherMetric: str | None
    hyperparameters: JsonObject
    config: JsonObject | None
    """Null if it was only checked."""
    originalConfig: str
    numTrials: int
    trialIds: list[int]
    """Empty in lists."""
    bestTrialId: int | None
    bestTrialSearcherMetric: Number | None
    checkpointCount: int
    checkpointSize: Int64
    forkedFrom: int | None
    projectId: int
    projectName: str
    projectOwnerId: int
    workspaceId: int
    workspaceName: str
    parentArchived: bool
    externalExperimentId: str | None
    error: str
    """Our own: why it ended in ERROR."""
    waitingReason: str | None
    """Our own: why it waits."""


class ConfigOrigin(TypedDict):
    """A list may have several."""

    path: str
    source: Source
    name: str
    """Of the template or pool; whose the config policy is; else empty."""


class ExperimentReply(TypedDict):
    experiment: Experiment


class PatchedExperimentReply(TypedDict):
    experiment: Experiment
    taskIds: list[str]
    """Our own: of what its new keep counts delete."""


class ContinuedExperimentReply(TypedDict):
    experiment: Experiment
    warnings: list[LaunchWarning]


class CreatedExperimentReply(TypedDict):
    experiment: Experiment
    config: JsonObject | None
    warnings: list[LaunchWarning]
    configWarnings: list[str]
    """Our own: in sentences."""


class PutExperimentReply(TypedDict):
    experiment: Experiment
    config: JsonObject | None


class GetExperimentReply(TypedDict):
    experiment: Experiment
    config: JsonObject | None
    jobSummary: JobSummary | None
    origins: list[ConfigOrigin] | None
    """Our own: of the values of its configuration that are no defaults of Windlass, when it was submitted or continued.

    null: not known, of experiments of earlier releases.
    """
    template: str
    """Our own: the name of the one that it was submitted with; empty: without."""


class ExperimentsReply(TypedDict):
    experiments: list[Experiment]
    pagination: Pagination


class LabelsReply(TypedDict):
    labels: list[str]


class FilesReply(TypedDict):
    b64Tgz: str
    """A gzipped tar in base64."""


class MetricReply(TypedDict):
    metric: Number | None
