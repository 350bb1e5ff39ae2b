"""Experiments: create, look, list."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from master.api.access import Caller, Visible
from master.api.enums import LaunchWarning
from master.api.experiments import wire
from master.api.experiments.replies import (
    CreatedExperimentReply,
    Experiment,
    ExperimentsReply,
    FilesReply,
    GetExperimentReply,
    MetricReply,
)
from master.api.experiments.requests import (
    CreateExperiment,
    ListExperiments,
    ListTrials,
    read_create,
)
from master.api.experiments.waiting import waiting_reason
from master.api.jobs.replies import JobSummary
from master.api.jobs.wire import summary
from master.api.openapi import reads
from master.api.paging import pagination
from master.api.permits import MAX_CREATE_BYTES, SOME, VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import RowId
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.targets import applied_template, require_new
from master.api.trials.replies import TrialsReply
from master.api.trials.routes import trials_json
from master.api.values import finite
from master.auth.actions import Action
from master.auth.permissions import visibility
from master.auth.principal import Principal
from master.core.expconf.origins import origins_from_document
from master.core.visibility import Visibility
from master.experiments.live import LiveExperiment
from master.experiments.queries.experiments import ExperimentFilter, ExperimentRow
from master.experiments.submission.admission import CheckedExperiment
from master.experiments.submission.creation import Created, NewExperiment
from master.parsing import in_parsing_thread
from master.store.contexts import ContextFile
from master.store.paging import Page
from master.store.tables import Trial
from windlass.base.errors import InvalidArgument, NotFound
from windlass.base.formats.json_types import JsonObject

router = APIRouter(route_class=ApiRoute, tags=["experiments"])


@router.post(
    "/api/v1/experiments",
    openapi_extra=reads(CreateExperiment),
)
@permit(Action.CREATE_EXPERIMENT, SOME, max_body=MAX_CREATE_BYTES)
async def create(
    request: Request, principal: Caller, visible: Visible, api: TheApi
) -> Reply[CreatedExperimentReply]:
    # Read by hand: the largest body of all must not be parsed on the event loop.
    body, files = await in_parsing_thread(read_create, await request.body())
    if body.unmanaged:
        return await _create_unmanaged(body, files, principal, visible, api)
    template = await applied_template(api, body.template, principal)
    experiments = api.services.experiments
    project_id = await experiments.place(
        body.config, project_id=body.project_id, template=template, visible=visible
    )
    await require_new(api, principal, Action.CREATE_EXPERIMENT, project_id=project_id)
    if body.validate_only:
        checked = await experiments.check(
            body.config, by=principal, project_id=project_id, template=template
        )
        return _created(wire.nothing(), None, checked)
    parent = body.parent_id or None
    if parent is not None:
        source = visibility(principal, Action.VIEW_EXPERIMENTS)
        await api.reads.experiments.require_experiments([parent], source)
    created = await experiments.create(
        NewExperiment(
            config=body.config,
            template=template,
            files=files,
            blob_of=parent,
            parent_id=parent,
            activate=body.activate,
            project_id=project_id,
        ),
        by=principal,
    )
    experiment = await experiment_json(api, created.experiment_id, visible)
    return _created(experiment, finite(created.config.to_json()), created)


async def _create_unmanaged(
    body: CreateExperiment,
    files: Sequence[ContextFile],
    principal: Principal,
    visible: Visibility,
    api: ApiContext,
) -> Reply[CreatedExperimentReply]:
    new = await new_unmanaged(body, files, principal, visible, api)
    unmanaged = api.services.experiments.unmanaged
    if body.validate_only:
        checked = await unmanaged.check(new)
        return _created(wire.nothing(), None, checked)
    id_ = await unmanaged.create(new, by=principal)
    experiment = await experiment_json(api, id_, visible)
    return reply(
        {
            "experiment": experiment,
            "config": experiment["config"],
            "warnings": [],
            "configWarnings": [],
        }
    )


async def new_unmanaged(
    body: CreateExperiment,
    files: Sequence[ContextFile],
    by: Principal,
    visible: Visibility,
    api: ApiContext,
) -> NewExperiment:
    """Raises InvalidArgument for what only managed experiments have, NotFound."""
    for field, given in (("parentId", body.parent_id), ("modelDefinition", files)):
        if given:
            raise InvalidArgument(f"{field}: an unmanaged experiment has none: leave it out")
    template = await applied_template(api, body.template, by)
    project_id = await api.services.experiments.place(
        body.config, project_id=body.project_id, template=template, visible=visible
    )
    await require_new(api, by, Action.CREATE_EXPERIMENT, project_id=project_id)
    return NewExperiment(config=body.config, template=template, project_id=project_id)


def _created(
    experiment: Experiment, config: JsonObject | None, checked: CheckedExperiment | Created
) -> Reply[CreatedExperimentReply]:
    return reply(
        {
            "experiment": experiment,
            "config": config,
            "warnings": [LaunchWarning(warning) for warning in checked.warnings],
            "configWarnings": list(checked.config_warnings),
        }
    )


@router.get("/api/v1/experiments/{experiment_id}")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def get(experiment_id: RowId, visible: Visible, api: TheApi) -> Reply[GetExperimentReply]:
    row = await api.reads.experiments.experiment(experiment_id, visible)
    experiment = await _whole(api, row, visible)
    live = api.services.experiments.live(experiment_id)
    return reply(
        {
            "experiment": experiment,
            "config": experiment["config"],
            "jobSummary": _job_summary(api, live) if live is not None else None,
            "origins": wire.origins_json(origins_from_document(row.experiment.config_origins)),
            "template": row.experiment.template,
        }
    )


@router.get("/api/v1/experiments")
@permit(Action.VIEW_EXPERIMENTS, VISIBLE)
async def list_experiments(
    query: Annotated[ListExperiments, Query()], visible: Visible, api: TheApi
) -> Reply[ExperimentsReply]:
    where = ExperimentFilter(
        name=query.name,
        description=query.description,
        labels=tuple(query.labels),
        archived=query.archived,
        states=tuple(state for state in query.states if state),
        users=tuple(user.lower() for user in query.users),
        user_ids=tuple(query.user_ids),
        project_id=query.project_id,
        ids=query.id_filters(),
    )
    if query.project_id:
        await api.reads.workspaces.project(query.project_id, visible)
    page = Page(
        offset=query.offset,
        limit=query.row_limit,
        descending=query.order_by == "DESC",
        sort=query.sort_by.lower() or "id",
    )
    if query.omit_config and not query.show_trial_data:
        return await _summaries(api, where, page, visible)
    found = await api.reads.experiments.experiments(where, page, visible)
    best = await _best(api, found.rows) if query.show_trial_data else {}
    now = api.services.clock.now()
    items: list[Experiment] = []
    for row in found.rows:
        live = api.services.experiments.live(row.experiment.id)
        item = wire.experiment(
            row, live, now, visible, waiting=waiting_reason(api, live), notes=wire.OMITTED
        )
        item["bestTrialSearcherMetric"] = finite(best.get(row.experiment.id))
        items.append(item)
    return reply({"experiments": items, "pagination": pagination(found)})


async def _summaries(
    api: ApiContext, where: ExperimentFilter, page: Page, visible: Visibility
) -> Reply[ExperimentsReply]:
    found = await api.reads.experiments.summaries(where, page, visible)
    now = api.services.clock.now()
    items = []
    for row in found.rows:
        live = api.services.experiments.live(row.id)
        items.append(wire.summary(row, live, now, waiting=waiting_reason(api, live)))
    return reply({"experiments": items, "pagination": pagination(found)})


@router.get("/api/v1/experiments/{experiment_id}/trials")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def list_trials(
    experiment_id: RowId,
    query: Annotated[ListTrials, Query()],
    visible: Visible,
    api: TheApi,
) -> Reply[TrialsReply]:
    await api.reads.experiments.require_experiments([experiment_id], visible)
    states = [state for state in query.states if state]
    page = query.page(sort=query.sort_by.lower() or "id")
    found = await api.reads.experiments.trials(experiment_id, states, page, visible)
    return reply({"trials": await trials_json(api, found.rows), "pagination": pagination(found)})


@router.get("/api/v1/experiments/{experiment_id}/model_def")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def model_definition(
    experiment_id: RowId, visible: Visible, api: TheApi
) -> Reply[FilesReply]:
    row = await api.reads.experiments.experiment(experiment_id, visible)
    blob = row.experiment.model_definition
    content = await api.services.blobs.get(blob) if blob else b""
    return reply({"b64Tgz": base64.b64encode(content).decode()})


@router.get("/api/v1/experiments/{experiment_id}/searcher/best_searcher_validation_metric")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def best_metric(experiment_id: RowId, visible: Visible, api: TheApi) -> Reply[MetricReply]:
    row = await api.reads.experiments.experiment(experiment_id, visible)
    trial = await _best_trial(api, row)
    if trial is None:
        raise NotFound("validation metric of experiment", experiment_id)
    return reply({"metric": finite(trial.searcher_metric)})


async def experiment_json(api: ApiContext, experiment_id: int, visible: Visibility) -> Experiment:
    """One experiment in full. Raises NotFound."""
    return await _whole(
        api, await api.reads.experiments.experiment(experiment_id, visible), visible
    )


async def _whole(api: ApiContext, row: ExperimentRow, visible: Visibility) -> Experiment:
    experiment_id = row.experiment.id
    live = api.services.experiments.live(experiment_id)
    return wire.experiment(
        row,
        live,
        api.services.clock.now(),
        visible,
        trial_ids=await api.reads.experiments.trial_ids(experiment_id),
        best_trial=await _best_trial(api, row),
        waiting=waiting_reason(api, live),
    )


async def _best_trial(api: ApiContext, row: ExperimentRow) -> Trial | None:
    return await api.reads.experiments.best_trial(
        row.experiment.id, smaller_is_better=_smaller_is_better(row)
    )


def _smaller_is_better(row: ExperimentRow) -> bool:
    searcher: Mapping[str, Any] = row.experiment.config.get("searcher") or {}
    return bool(searcher.get("smaller_is_better", True))


async def _best(api: ApiContext, rows: Sequence[ExperimentRow]) -> dict[int, float | None]:
    """experiment -> its best searcher metric."""
    extremes = await api.reads.experiments.best_metrics([row.experiment.id for row in rows])
    return {
        id_: found.smallest if _smaller_is_better(row) else found.largest
        for row in rows
        if (found := extremes.get(id_ := row.experiment.id)) is not None
    }


def _job_summary(api: ApiContext, live: LiveExperiment) -> JobSummary | None:
    if live.state.phase.is_terminal:
        return None
    queued = api.services.jobs.in_queue(live.state.job_id)
    return summary(queued) if queued is not None else None
