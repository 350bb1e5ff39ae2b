"""Rows of lists, and the words that filters and columns are made of."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from master.api.enums import TrialState
from master.api.experiments.replies import Experiment
from master.api.paging import Pagination
from master.api.values import Number, Timestamp
from master.experiments.finding.columns import Kind


class ListedExperiment(TypedDict):
    experiment: Experiment
    values: list[Any]
    """Of the columns that were asked for, in their order; null for what is missing."""


class ListedExperimentsReply(TypedDict):
    experiments: list[ListedExperiment]
    pagination: Pagination


class ListedRun(TypedDict):
    id: int
    localId: str
    state: TrialState
    waitingReason: str | None
    startTime: Timestamp
    endTime: Timestamp | None
    duration: int
    """Seconds, to its end or to now."""
    searcherMetricValue: Number | None
    archived: bool
    labels: list[str]
    checkpointCount: int
    experimentId: int
    experimentName: str
    resourcePool: str
    username: str
    displayName: str
    projectId: int
    projectName: str
    workspaceId: int
    workspaceName: str
    values: list[Any]
    """Of the columns that were asked for, in their order; null for what is missing."""


class ListedRunsReply(TypedDict):
    runs: list[ListedRun]
    pagination: Pagination


class IdsReply(TypedDict):
    ids: list[int]
    total: int
    """Of all that the filter finds: there may be more than ids are given."""


class ListWord(TypedDict):
    name: str
    kind: Kind | None
    """Null where values of several kinds were found."""
    meaning: str
    """Empty for what users name."""
    values: list[str]
    """Some that it may have."""


class ListWordsReply(TypedDict):
    words: list[ListWord]
