"""What experiments and runs can be filtered and sorted by: columns, ranges, metadata, labels."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.enums import ColumnType, LocationType
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Int32, RowId, Word
from master.api.request_models import Query as QueryModel
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.auth.actions import Action
from master.experiments.finding.columns import Kind, Table
from master.experiments.finding.sources import MAX_NAME_CHARS, metadata
from master.experiments.finding.values import ProjectColumn

router = APIRouter(route_class=ApiRoute, tags=["experiments"])

_TYPES = {
    Kind.NUMBER: ColumnType.NUMBER,
    Kind.TEXT: ColumnType.TEXT,
    Kind.DATE: ColumnType.DATE,
    Kind.TAGS: ColumnType.ARRAY,
}


class Column(TypedDict):
    column: str
    location: LocationType
    type: ColumnType
    displayName: str


class ColumnsReply(TypedDict):
    columns: list[Column]


class MetricsRange(TypedDict):
    metricsName: str
    min: float
    max: float


class MetricRangesReply(TypedDict):
    ranges: list[MetricsRange]


class MetadataValuesReply(TypedDict):
    values: list[str]


class LabelsReply(TypedDict):
    labels: list[str]


class ListColumns(QueryModel):
    table_type: Annotated[str, Word("TABLE_TYPE_", ("EXPERIMENT", "RUN"))] = ""

    def table(self) -> Table:
        return Table.RUNS if self.table_type == "RUN" else Table.EXPERIMENTS


@router.get("/api/v1/projects/{id}/columns")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def columns(
    id: RowId, query: Annotated[ListColumns, Query()], visible: Visible, api: TheApi
) -> Reply[ColumnsReply]:
    await api.reads.workspaces.project(id, visible)
    found = await api.reads.values.columns(id, query.table(), visible)
    return reply({"columns": [_column(column) for column in found]})


def _column(column: ProjectColumn) -> Column:
    kind = column.kind
    return {
        "column": column.name,
        "location": LocationType[column.location],
        "type": ColumnType.UNSPECIFIED
        if kind is None
        else _TYPES.get(kind, ColumnType.UNSPECIFIED),
        "displayName": column.title,
    }


@router.get("/api/v1/projects/{id}/experiments/metric-ranges")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def metric_ranges(id: RowId, visible: Visible, api: TheApi) -> Reply[MetricRangesReply]:
    await api.reads.workspaces.project(id, visible)
    found = await api.reads.values.metric_ranges(id, api.services.clock.now(), visible)
    ranges: list[MetricsRange] = [
        {"metricsName": one.name, "min": one.low, "max": one.high} for one in found
    ]
    return reply({"ranges": ranges})


@router.get("/api/v1/projects/{project_id}/metadata/{key}")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def metadata_values(
    project_id: RowId,
    key: Annotated[str, Path(max_length=MAX_NAME_CHARS)],
    visible: Visible,
    api: TheApi,
) -> Reply[MetadataValuesReply]:
    """`key` is a path of dots: `a.b`."""
    path = metadata(Table.RUNS, f"metadata.{key}").path
    await api.reads.workspaces.project(project_id, visible)
    values = await api.reads.values.metadata_values(project_id, path, visible)
    return reply({"values": values})


class ListLabels(QueryModel):
    project_id: Int32 = 0
    """0: of any project."""


@router.get("/api/v1/experiment/labels")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def labels(
    query: Annotated[ListLabels, Query()], visible: Visible, api: TheApi
) -> Reply[LabelsReply]:
    if query.project_id:
        await api.reads.workspaces.project(query.project_id, visible)
    return reply({"labels": await api.reads.values.labels(query.project_id, visible)})
