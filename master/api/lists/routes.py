"""Lists of experiments and of runs, by filters that people write, with columns of their choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import fastapi
from fastapi import APIRouter
from pydantic import Field

from master.api.access import Caller, Visible
from master.api.experiments import wire
from master.api.experiments.waiting import waiting_reason
from master.api.lists.replies import (
    IdsReply,
    ListedExperiment,
    ListedExperimentsReply,
    ListedRun,
    ListedRunsReply,
    ListWord,
    ListWordsReply,
)
from master.api.lists.search import written_search
from master.api.paging import pagination
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Int32, Query, Text
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.trials.wire import run_state
from master.api.values import finite, time
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.experiments.finding import listed
from master.experiments.finding.columns import COLUMNS, Table
from master.experiments.finding.literals import STATES
from master.experiments.finding.queries import Search
from master.experiments.finding.sources import Column, Source
from master.experiments.finding.words import METRIC, WORDS, source_of
from master.store.paging import Page
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["lists"])

MAX_ROWS = 1_000
MAX_COLUMNS = 50
MAX_IDS = 10_000
"""As many as one call may act on."""
MAX_LABELS = 100


class ListFilter(Query):
    project_id: Annotated[Int32, Field(ge=0)] = 0
    """0: of any."""
    filter: Text = ""
    """As people write it: docs/filters.md."""
    archived: bool = False
    """Archived ones, too."""


class ListQuery(ListFilter):
    sort: Text = ""
    """`-started,hp.lr`: words, descending after a minus; else the newest first."""
    columns: Annotated[tuple[Text, ...], Field(max_length=MAX_COLUMNS)] = ()
    """Hyperparameters, metrics and metadata."""
    offset: Annotated[Int32, Field(ge=0)] = 0
    limit: Annotated[Int32, Field(ge=1, le=MAX_ROWS)] = 200

    def page(self) -> Page:
        return Page(offset=self.offset, limit=self.limit)

    def sources(self, table: Table) -> list[Source]:
        """Raises InvalidArgument."""
        return [_source(table, word) for word in self.columns]


class WordsQuery(Query):
    project_id: Annotated[Int32, Field(ge=0)] = 0


Listed = Annotated[ListQuery, fastapi.Query()]
Filtered = Annotated[ListFilter, fastapi.Query()]


@router.get("/experiments")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def list_experiments(
    query: Listed, by: Caller, visible: Visible, api: TheApi
) -> Reply[ListedExperimentsReply]:
    sources = query.sources(Table.EXPERIMENTS)
    search = await _search(api, Table.EXPERIMENTS, query, by, visible, sort=query.sort)
    now = api.services.clock.now()
    found = await api.reads.finder.experiment_id_page(search, query.page(), now, visible)
    values = await api.reads.listed.values(Table.EXPERIMENTS, found.rows, sources, now)
    rows = await api.reads.experiments.summaries_by_id(found.rows, visible)
    items: list[ListedExperiment] = []
    for row in (rows[id_] for id_ in found.rows if id_ in rows):
        live = api.services.experiments.live(row.id)
        item = wire.summary(row, live, now, waiting=waiting_reason(api, live))
        items.append({"experiment": item, "values": _values(values, row.id, sources)})
    return reply({"experiments": items, "pagination": pagination(found)})


@router.get("/runs")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def list_runs(
    query: Listed, by: Caller, visible: Visible, api: TheApi
) -> Reply[ListedRunsReply]:
    sources = query.sources(Table.RUNS)
    search = await _search(api, Table.RUNS, query, by, visible, sort=query.sort)
    now = api.services.clock.now()
    found = await api.reads.finder.run_id_page(search, query.page(), now, visible)
    values = await api.reads.listed.values(Table.RUNS, found.rows, sources, now)
    rows = await api.reads.listed.runs(found.rows, visible)
    items = [
        _run(api, rows[id_], _values(values, id_, sources), now)
        for id_ in found.rows
        if id_ in rows
    ]
    return reply({"runs": items, "pagination": pagination(found)})


@router.get("/experiments/ids")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def experiment_ids(
    query: Filtered, by: Caller, visible: Visible, api: TheApi
) -> Reply[IdsReply]:
    """All that the filter finds, to act on them."""
    search = await _search(api, Table.EXPERIMENTS, query, by, visible)
    now = api.services.clock.now()
    found = await api.reads.finder.experiment_id_page(search, Page(limit=MAX_IDS), now, visible)
    return reply({"ids": list(found.rows), "total": found.total})


@router.get("/runs/ids")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def run_ids(query: Filtered, by: Caller, visible: Visible, api: TheApi) -> Reply[IdsReply]:
    """All that the filter finds, to act on them."""
    search = await _search(api, Table.RUNS, query, by, visible)
    now = api.services.clock.now()
    found = await api.reads.finder.run_id_page(search, Page(limit=MAX_IDS), now, visible)
    return reply({"ids": list(found.rows), "total": found.total})


@router.get("/experiments/words")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def experiment_words(
    query: Annotated[WordsQuery, fastapi.Query()], visible: Visible, api: TheApi
) -> Reply[ListWordsReply]:
    """What filters and columns are made of; hyperparameters and metrics of what the caller may see."""
    return await _words(api, Table.EXPERIMENTS, query.project_id, visible)


@router.get("/runs/words")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def run_words(
    query: Annotated[WordsQuery, fastapi.Query()], visible: Visible, api: TheApi
) -> Reply[ListWordsReply]:
    """What filters and columns are made of; hyperparameters, metrics and metadata of what the caller may see."""
    return await _words(api, Table.RUNS, query.project_id, visible)


async def _search(
    api: ApiContext,
    table: Table,
    query: ListFilter,
    by: Principal,
    visible: Visibility,
    *,
    sort: str = "",
) -> Search:
    return await written_search(
        *(api, table, by, visible),
        filter=query.filter,
        sort=sort,
        project_id=query.project_id,
        archived=query.archived,
    )


def _source(table: Table, word: str) -> Source:
    try:
        source = source_of(table, word)
    except InvalidArgument as error:
        raise InvalidArgument(f"columns: {error.message}") from None
    if isinstance(source, Column):
        raise InvalidArgument(f"columns: {word[:80]!r} is in each row in any case")
    return source


def _values(values: Mapping[int, Sequence[Any]], id_: int, sources: Sequence[Source]) -> list[Any]:
    found: list[Any] = finite(values.get(id_, [None] * len(sources)))
    return found


def _run(api: ApiContext, row: listed.ListedRun, values: list[Any], now: datetime) -> ListedRun:
    live = api.services.experiments.live(row.experiment_id)
    trial = live.state.trials.get(row.request_id) if live is not None else None
    waiting = api.services.experiments.waiting_reason(trial) if trial is not None else None
    return {
        "id": row.id,
        "localId": row.local_id,
        "state": run_state(row, row.experiment_state, live),
        "waitingReason": waiting.text if waiting is not None else None,
        "startTime": time(row.created_at),
        "endTime": time(row.ended_at),
        "duration": max(0, ((row.ended_at or now) - row.created_at) // timedelta(seconds=1)),
        "searcherMetricValue": finite(row.searcher_metric),
        "archived": row.archived,
        "labels": row.labels,
        "checkpointCount": row.checkpoint_count,
        "experimentId": row.experiment_id,
        "experimentName": row.experiment_name,
        "resourcePool": row.resource_pool,
        "username": row.username,
        "displayName": row.display_name,
        "projectId": row.project_id,
        "projectName": row.project_name,
        "workspaceId": row.workspace_id,
        "workspaceName": row.workspace_name,
        "values": values,
    }


async def _words(
    api: ApiContext, table: Table, project_id: int, visible: Visibility
) -> Reply[ListWordsReply]:
    if project_id:
        await api.reads.workspaces.project(project_id, visible)
    values = {
        "state": list(STATES),
        "archived": ["true", "false"],
        "label": (await api.reads.values.labels(project_id, visible))[:MAX_LABELS],
    }
    words: list[ListWord] = [
        {
            "name": name,
            "kind": COLUMNS[table][word.column].kind,
            "meaning": word.meaning,
            "values": values.get(name, []),
        }
        for name, word in WORDS[table].items()
    ]
    for one in await api.reads.values.columns(project_id, table, visible):
        if one.location in _OF_METRICS or one.name not in COLUMNS[table]:
            prefix = METRIC if one.location in _OF_METRICS else ""
            words.append({"name": prefix + one.name, "kind": one.kind, "meaning": "", "values": []})
    return reply({"words": words})


_OF_METRICS = frozenset({"TRAINING", "VALIDATIONS", "CUSTOM_METRIC"})
