"""Checkpoints: reported by tasks, looked at by users."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from master.api.access import Caller, Visible, require
from master.api.checkpoints.replies import CheckpointReply, CheckpointsReply, DeletionReply
from master.api.checkpoints.shown import places, with_metrics
from master.api.paging import pagination
from master.api.permits import IN_BODY, VISIBLE, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import (
    Body,
    FreeObject,
    Int32,
    Int64,
    OptionalTime,
    Paging,
    RowId,
    Text,
    Word,
)
from master.api.routing import ApiRequest, ApiRoute, parse
from master.api.services import ApiContext, TheApi
from master.api.targets import task_target
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.experiments.queries.checkpoints import CheckpointKey
from master.experiments.reports.metrics import number
from master.experiments.reports.service import CheckpointReport
from master.parsing import in_parsing_thread
from master.store.paging import cut
from windlass.base.errors import InvalidArgument
from windlass.storage.names import utf8


class _NamingFiles(ApiRequest):
    """Names of files in it need not be UTF-8: Python clients send halves of surrogate pairs for the other bytes."""

    async def json(self) -> Any:
        body = await self.body()
        return await parse(await in_parsing_thread(_utf8, body) if b"\\udc" in body else body)


def _utf8(body: bytes) -> bytes:
    try:
        return utf8(json.dumps(json.loads(body), ensure_ascii=False)).encode(errors="surrogatepass")
    except RecursionError:
        return body


class CheckpointRoute(ApiRoute):
    request_class = _NamingFiles


router = APIRouter(route_class=CheckpointRoute, tags=["checkpoints"])

STATES = ("ACTIVE", "COMPLETED", "ERROR", "DELETED", "PARTIALLY_DELETED")
SORTS = ("UUID", "TRIAL_ID", "BATCH_NUMBER", "END_TIME", "STATE", "SEARCHER_METRIC")
State = Annotated[str, Word("STATE_", STATES)]
MAX_CHECKPOINTS = 100_000
"""Of one call."""
Sizes = dict[Text, Annotated[Int64, Field(ge=0)]]

_KEYS: dict[str, Callable[[CheckpointKey], Any]] = {
    "UUID": lambda row: row.uuid,
    "TRIAL_ID": lambda row: row.trial_id or 0,
    "BATCH_NUMBER": lambda row: row.steps,
    "END_TIME": lambda row: row.reported_at,
    "STATE": lambda row: row.state,
    "": lambda row: row.reported_at,
}


class ReportCheckpoint(Body):
    uuid: Annotated[Text, Field(min_length=1, max_length=200)]
    task_id: Text = ""
    allocation_id: Text | None = None
    state: State = ""
    resources: Sizes = Field(default_factory=dict)
    metadata: FreeObject = Field(default_factory=dict)
    report_time: OptionalTime = None
    storage_id: Int32 | None = None


@router.post("/api/v1/checkpoints")
@permit(Action.REPORT, IN_BODY)
async def report(body: ReportCheckpoint, principal: Caller, api: TheApi) -> Reply[Empty]:
    target = await task_target(api, body.task_id, principal)
    if body.allocation_id:
        if body.allocation_id.rpartition(".")[0] != body.task_id:
            raise InvalidArgument(
                f"allocationId: {body.allocation_id[:80]!r} is not an allocation of the task"
            )
        target = replace(target, allocation_id=body.allocation_id)
    require(api, principal, Action.REPORT, target)
    await api.services.reports.checkpoint(
        CheckpointReport(
            uuid=body.uuid,
            task_id=body.task_id,
            allocation_id=body.allocation_id or principal.allocation_id,
            state=body.state or "COMPLETED",
            resources=body.resources,
            metadata=body.metadata,
            storage_id=body.storage_id or None,
            at=body.report_time,
        )
    )
    return reply()


class Remaining(Body):
    resources: Sizes = Field(default_factory=dict)


class PatchOne(Body):
    uuid: Text
    resources: Remaining | None = None


class Patch(Body):
    checkpoints: tuple[PatchOne, ...] = ()


@router.patch("/api/v1/checkpoints")
@permit(Action.REPORT, IN_BODY)
async def patch(body: Patch, principal: Caller, api: TheApi) -> Reply[Empty]:
    changes = {c.uuid: c.resources.resources for c in body.checkpoints if c.resources is not None}
    if not api.services.checkpoints.collects(principal.task_id, list(changes)):
        await _require(api, principal, Action.REPORT, list(changes))
    await api.services.reports.patch_checkpoints(changes, by=principal)
    return reply()


class NewMetadata(Body):
    """Of the checkpoint that clients send, only this counts."""

    metadata: FreeObject = Field(default_factory=dict)


class PostMetadata(Body):
    checkpoint: NewMetadata = Field(default_factory=NewMetadata)


@router.post("/api/v1/checkpoints/{checkpoint_uuid}/metadata")
@permit(Action.UPDATE_METADATA, IN_BODY)
async def set_metadata(
    checkpoint_uuid: str, body: PostMetadata, principal: Caller, visible: Visible, api: TheApi
) -> Reply[CheckpointReply]:
    await _require(api, principal, Action.UPDATE_METADATA, [checkpoint_uuid])
    metadata = body.checkpoint.metadata
    await api.services.checkpoints.set_metadata(checkpoint_uuid, metadata, by=principal)
    return await get(checkpoint_uuid, visible, api)


Uuids = Annotated[tuple[Text, ...], Field(max_length=MAX_CHECKPOINTS)]


class DeleteCheckpoints(Body):
    checkpoint_uuids: Uuids = ()


@router.delete("/api/v1/checkpoints")
@permit(Action.DELETE_CHECKPOINTS, IN_BODY)
async def delete(body: DeleteCheckpoints, principal: Caller, api: TheApi) -> Reply[DeletionReply]:
    await _require(api, principal, Action.DELETE_CHECKPOINTS, body.checkpoint_uuids)
    tasks = await api.services.checkpoints.delete(body.checkpoint_uuids, by=principal)
    return reply({"taskIds": tasks})


class RemoveFiles(Body):
    checkpoint_uuids: Uuids = ()
    checkpoint_globs: tuple[Text, ...] = ()


@router.post("/api/v1/checkpoints/rm")
@permit(Action.DELETE_CHECKPOINTS, IN_BODY)
async def remove_files(body: RemoveFiles, principal: Caller, api: TheApi) -> Reply[DeletionReply]:
    await _require(api, principal, Action.DELETE_CHECKPOINTS, body.checkpoint_uuids)
    tasks = await api.services.checkpoints.remove_files(
        body.checkpoint_uuids, body.checkpoint_globs, by=principal
    )
    return reply({"taskIds": tasks})


async def _require(api: ApiContext, by: Principal, action: Action, uuids: Sequence[str]) -> None:
    for target in await api.owners.checkpoints(list(uuids)):
        require(api, by, action, target)


@router.get("/api/v1/checkpoints/{checkpoint_uuid}")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def get(checkpoint_uuid: str, visible: Visible, api: TheApi) -> Reply[CheckpointReply]:
    row = await api.reads.checkpoints.checkpoint(checkpoint_uuid, visible)
    return reply({"checkpoint": (await with_metrics(api, [row], visible))[0]})


class ListCheckpoints(Paging):
    sort_by_attr: Annotated[str, Word("SORT_BY_", SORTS)] = ""
    sort_by_metric: str = ""
    states: tuple[State, ...] = ()
    omit_config: bool = False
    """Our own: without the configurations of experiments."""


@router.get("/api/v1/experiments/{id}/checkpoints")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def of_experiment(
    id: RowId, query: Annotated[ListCheckpoints, Query()], visible: Visible, api: TheApi
) -> Reply[CheckpointsReply]:
    row = await api.reads.experiments.experiment(id, visible)
    searcher = row.experiment.config.get("searcher") or {}
    keys = await api.reads.checkpoints.keys(experiment_id=id, states=_states(query))
    best_first = not searcher.get("smaller_is_better", True) if not query.order_by else None
    return await _list(api, visible, keys, query, str(searcher.get("metric", "")), best_first)


@router.get("/api/v1/trials/{id}/checkpoints")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def of_trial(
    id: RowId, query: Annotated[ListCheckpoints, Query()], visible: Visible, api: TheApi
) -> Reply[CheckpointsReply]:
    row = await api.reads.experiments.trial(id, visible)
    searcher = row.experiment_config.get("searcher") or {}
    keys = await api.reads.checkpoints.keys(trial_id=id, states=_states(query))
    return await _list(api, visible, keys, query, str(searcher.get("metric", "")), None)


def _states(query: ListCheckpoints) -> list[str]:
    return [state for state in query.states if state]


async def _list(
    api: ApiContext,
    visible: Visibility,
    keys: Sequence[CheckpointKey],
    query: ListCheckpoints,
    searcher: str,
    best_first: bool | None,
) -> Reply[CheckpointsReply]:
    """`best_first`: the direction of the searcher's metric when none is asked for (True: descending)."""
    if query.sort_by_metric and query.sort_by_attr:
        raise InvalidArgument("sortByMetric: not together with sortByAttr")
    descending = query.order_by == "DESC"
    metric = query.sort_by_metric
    if query.sort_by_attr == "SEARCHER_METRIC":
        metric = searcher
        descending = descending if best_first is None else best_first
    if metric:
        ordered = await _by_metric(api, keys, metric, descending)
    else:
        key = _KEYS[query.sort_by_attr]
        ordered = sorted(keys, key=lambda row: (key(row), row.uuid), reverse=descending)
    page = cut(ordered, query.page())
    rows = await api.reads.checkpoints.by_uuid([row.uuid for row in page.rows])
    items = await with_metrics(api, rows, visible)
    if query.omit_config:
        for item in items:
            item["training"]["experimentConfig"] = None
    return reply({"checkpoints": items, "pagination": pagination(page)})


async def _by_metric(
    api: ApiContext, keys: Sequence[CheckpointKey], metric: str, descending: bool
) -> list[CheckpointKey]:
    """Those that have the metric, then the others in order of time."""
    averages = await api.reads.metrics.averages_at(places(keys))

    def value(row: CheckpointKey) -> float | None:
        at = averages.get((row.trial_id or 0, row.steps), {})
        found = number(at.get("validation", {}).get(metric))
        return None if found is None or found != found else found

    ranked = [(v, row) for row in keys if (v := value(row)) is not None]
    ranked.sort(key=lambda pair: pair[0], reverse=descending)
    return [row for _, row in ranked] + [row for row in keys if value(row) is None]
