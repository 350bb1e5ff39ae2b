"""Searching experiments and runs by the language of filters."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Caller, Visible
from master.api.enums import TrialState
from master.api.experiments import wire
from master.api.experiments.replies import Experiment
from master.api.experiments.requests import DEFAULT_LIMIT
from master.api.experiments.waiting import waiting_reason
from master.api.lists.search import ARCHIVED, both, live_states, written
from master.api.paging import Pagination, pagination
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Int32
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.trials.replies import Trial
from master.api.trials.routes import trials_json
from master.api.trials.wire import run_state
from master.api.values import Int64, Number, Timestamp, finite, time
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.experiments.finding.columns import Table
from master.experiments.finding.filters import Filter, parse_filter
from master.experiments.finding.language import mentions
from master.experiments.finding.queries import FoundRun, Search
from master.experiments.finding.sorts import parse_sorts
from master.store.paging import Page
from windlass.base.formats.json_types import JsonObject

router = APIRouter(route_class=ApiRoute, tags=["experiments"])


class FlatRunExperiment(TypedDict):
    id: int
    name: str
    description: str
    searcherType: str
    searcherMetric: str
    isMultitrial: bool
    forkedFrom: int | None
    externalExperimentId: str | None
    resourcePool: str
    progress: Number
    unmanaged: bool


class FlatRun(TypedDict):
    id: int
    localId: str
    state: TrialState
    startTime: Timestamp
    endTime: Timestamp | None
    duration: int
    labels: list[str]
    archived: bool
    parentArchived: bool
    checkpointCount: int
    checkpointSize: Int64
    searcherMetricValue: Number | None
    hyperparameters: JsonObject
    summaryMetrics: JsonObject
    metadata: JsonObject | None
    externalRunId: str | None
    logPolicyMatched: str | None
    deletion: str
    """Our own: DELETING or DELETE_FAILED; else empty."""
    deletionError: str
    """Our own: why it could not be deleted."""
    userId: int
    projectId: int
    projectName: str
    workspaceId: int
    workspaceName: str
    experiment: FlatRunExperiment


class RunsReply(TypedDict):
    runs: list[FlatRun]
    pagination: Pagination


class FoundExperiment(TypedDict):
    experiment: Experiment
    bestTrial: Trial | None


class FoundExperimentsReply(TypedDict):
    experiments: list[FoundExperiment]
    pagination: Pagination


class SearchBody(Body):
    project_id: Annotated[Int32, Field(ge=0)] = 0
    offset: Int32 = 0
    limit: Annotated[Int32, Field(ge=-2)] = 0
    """-1: all, -2: none."""
    sort: str = ""
    filter: str = ""
    written: str = ""
    """Our own: a filter as people write it, which must hold, too."""

    def page(self) -> Page:
        limit = {0: DEFAULT_LIMIT, -1: None, -2: 0}.get(self.limit, self.limit)
        return Page(offset=self.offset, limit=limit)

    async def search(
        self, api: ApiContext, table: Table, by: Principal, visible: Visibility
    ) -> Search:
        """Raises InvalidArgument; NotFound for a project that is not there."""
        wanted = parse_filter(self.filter, table)
        sorts = parse_sorts(self.sort, table)
        root = written(api, self.written, table, by)
        if self.project_id:
            await api.reads.workspaces.project(self.project_id, visible)
        both_hold = both(wanted.root, root)
        return Search(
            filter=Filter(both_hold, wanted.show_archived or mentions(root, ARCHIVED)),
            sorts=sorts,
            project_id=self.project_id,
            live=live_states(api, table, both_hold, sorts),
        )


@router.post("/api/v1/runs")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def search_runs(
    body: SearchBody, by: Caller, visible: Visible, api: TheApi
) -> Reply[RunsReply]:
    search = await body.search(api, Table.RUNS, by, visible)
    now = api.services.clock.now()
    found = await api.reads.finder.run_page(search, body.page(), now, visible)
    items = [_run(api, row, now) for row in found.rows]
    return reply({"runs": items, "pagination": pagination(found)})


@router.post("/api/v1/experiments-search")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def search_experiments(
    body: SearchBody, by: Caller, visible: Visible, api: TheApi
) -> Reply[FoundExperimentsReply]:
    search = await body.search(api, Table.EXPERIMENTS, by, visible)
    now = api.services.clock.now()
    found = await api.reads.finder.experiment_page(search, body.page(), now, visible)
    trials = await trials_json(
        api, await api.reads.experiments.trials_by_id([b for _, b in found.rows if b], visible)
    )
    by_id = {trial["id"]: trial for trial in trials}
    rows = await api.reads.experiments.experiments_by_id([id_ for id_, _ in found.rows], visible)
    items: list[FoundExperiment] = []
    for id_, best in found.rows:
        if id_ not in rows:
            continue  # deleted meanwhile
        live = api.services.experiments.live(id_)
        waiting = waiting_reason(api, live)
        item = wire.experiment(rows[id_], live, now, visible, waiting=waiting, notes=wire.OMITTED)
        trial = by_id.get(best) if best is not None else None
        if trial is not None:
            item["bestTrialId"] = trial["id"]
            item["bestTrialSearcherMetric"] = trial["searcherMetricValue"]
        items.append({"experiment": item, "bestTrial": trial})
    return reply({"experiments": items, "pagination": pagination(found)})


def _run(api: ApiContext, row: FoundRun, now: datetime) -> FlatRun:
    run, experiment = row.trial, row.experiment
    live = api.services.experiments.live(experiment.id)
    searcher = experiment.config.get("searcher") or {}
    return {
        "id": run.id,
        "localId": row.local_id,
        "state": run_state(run, experiment.state, live),
        "startTime": time(run.created_at),
        "endTime": time(run.ended_at),
        "duration": max(0, ((run.ended_at or now) - run.created_at) // timedelta(seconds=1)),
        "labels": experiment.labels,
        "archived": row.trial.archived or experiment.archived,
        "parentArchived": row.parent_archived,
        "checkpointCount": row.checkpoint_count,
        "checkpointSize": str(row.checkpoint_size),
        "searcherMetricValue": finite(run.searcher_metric),
        "hyperparameters": finite(run.hparams),
        "summaryMetrics": finite(run.summary_metrics),
        "metadata": finite(run.run_metadata),
        "externalRunId": run.external_id,
        "logPolicyMatched": run.log_policy or None,
        "deletion": run.deletion,
        "deletionError": run.deletion_error,
        "userId": experiment.owner_id,
        "projectId": experiment.project_id,
        "projectName": row.project_name,
        "workspaceId": row.workspace_id,
        "workspaceName": row.workspace_name,
        "experiment": {
            "id": experiment.id,
            "name": experiment.name,
            "description": experiment.description,
            "searcherType": searcher.get("name", ""),
            "searcherMetric": searcher.get("metric") or "",
            "isMultitrial": searcher.get("name") != "single",
            "forkedFrom": experiment.parent_id,
            "externalExperimentId": experiment.external_id,
            "resourcePool": experiment.resource_pool,
            "progress": finite(experiment.progress),
            "unmanaged": experiment.unmanaged,
        },
    }
