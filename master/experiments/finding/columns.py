"""The columns that experiments and runs are filtered and sorted by, and shown with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Table(StrEnum):
    EXPERIMENTS = "experiments"
    RUNS = "runs"


class Kind(StrEnum):
    NUMBER = "number"
    TEXT = "text"
    DATE = "date"
    TAGS = "tags"
    """A list of texts."""
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """Without a title it is not in the list of columns."""

    kind: Kind
    title: str = ""
    of_run: bool = False
    """Whether clients are told that it is the run's, not the experiment's."""


_N, _T, _D, _B = Kind.NUMBER, Kind.TEXT, Kind.DATE, Kind.BOOLEAN

EXPERIMENT_COLUMNS: Mapping[str, ColumnInfo] = {
    "id": ColumnInfo(_N, "ID"),
    "name": ColumnInfo(_T, "Name"),
    "description": ColumnInfo(_T, "Description"),
    "tags": ColumnInfo(Kind.TAGS, "Tags"),
    "forkedFrom": ColumnInfo(_N, "Forked"),
    "startTime": ColumnInfo(_D, "Start time"),
    "endTime": ColumnInfo(_D),
    "duration": ColumnInfo(_N, "Duration"),
    "numTrials": ColumnInfo(_N, "Trial count"),
    "state": ColumnInfo(_T, "State"),
    "searcherType": ColumnInfo(_T, "Searcher"),
    "resourcePool": ColumnInfo(_T, "Resource pool"),
    "progress": ColumnInfo(_N, "Progress"),
    "checkpointSize": ColumnInfo(_N, "Checkpoint size"),
    "checkpointCount": ColumnInfo(_N, "Checkpoints"),
    "user": ColumnInfo(_T, "User"),
    "searcherMetric": ColumnInfo(_T, "Searcher Metric"),
    "searcherMetricsVal": ColumnInfo(_N, "Searcher Metric Value"),
    "externalExperimentId": ColumnInfo(_T, "External Experiment ID"),
    "externalTrialId": ColumnInfo(_T, "External Trial ID"),
    "projectId": ColumnInfo(_N),
    "projectName": ColumnInfo(_T),
    "workspaceName": ColumnInfo(_T),
    "parentArchived": ColumnInfo(_B),
    "archived": ColumnInfo(_B, "Archived"),
}
RUN_COLUMNS: Mapping[str, ColumnInfo] = {
    "id": ColumnInfo(_N, "Global Run ID", of_run=True),
    "experimentDescription": ColumnInfo(_T, "Search Description"),
    "tags": ColumnInfo(Kind.TAGS, "Tags", of_run=True),
    "forkedFrom": ColumnInfo(_N, "Forked"),
    "startTime": ColumnInfo(_D, "Start Time", of_run=True),
    "endTime": ColumnInfo(_D, "End Time", of_run=True),
    "duration": ColumnInfo(_N, "Duration", of_run=True),
    "state": ColumnInfo(_T, "State", of_run=True),
    "searcherType": ColumnInfo(_T, "Searcher"),
    "resourcePool": ColumnInfo(_T, "Resource Pool"),
    "checkpointSize": ColumnInfo(_N, "Checkpoint Size", of_run=True),
    "checkpointCount": ColumnInfo(_N, "Checkpoints", of_run=True),
    "user": ColumnInfo(_T, "User", of_run=True),
    "searcherMetric": ColumnInfo(_T, "Searcher Metric"),
    "searcherMetricsVal": ColumnInfo(_N, "Searcher Metric Value", of_run=True),
    "externalExperimentId": ColumnInfo(_T, "External Experiment ID"),
    "projectId": ColumnInfo(_N, "Project ID", of_run=True),
    "projectName": ColumnInfo(_T),
    "workspaceName": ColumnInfo(_T),
    "externalRunId": ColumnInfo(_T, "External Run ID", of_run=True),
    "experimentProgress": ColumnInfo(_N, "Search Progress"),
    "experimentId": ColumnInfo(_N, "Search ID"),
    "experimentName": ColumnInfo(_T, "Search Name"),
    "isExpMultitrial": ColumnInfo(_B, "Part of Search"),
    "parentArchived": ColumnInfo(_B, "Parent Archived", of_run=True),
    "localId": ColumnInfo(_T, "Run ID", of_run=True),
    "archived": ColumnInfo(_B, "Archived", of_run=True),
}
COLUMNS: Mapping[Table, Mapping[str, ColumnInfo]] = {
    Table.EXPERIMENTS: EXPERIMENT_COLUMNS,
    Table.RUNS: RUN_COLUMNS,
}
