"""Trials: look, history, kill, and the small things that training code reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from master.api.access import Caller, Visible
from master.api.checkpoints.wire import checkpoint_workload
from master.api.paging import pagination
from master.api.permits import VISIBLE, permit, trial
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Paging, RowId, Text, Word
from master.api.routing import ApiRoute, HotRoute
from master.api.services import ApiContext, TheApi
from master.api.trials import wire
from master.api.trials.replies import Trial, TrialReply, Workload, WorkloadsReply
from master.auth.actions import Action
from master.core.reasons import Reason
from master.core.searcher.types import ExitReason
from master.experiments.live import LiveExperiment
from master.experiments.queries.experiments import TrialRow
from master.experiments.reports.metrics import TRAINING, VALIDATION, number
from master.store.paging import cut
from windlass.base.errors import InvalidArgument

router = APIRouter(route_class=ApiRoute, tags=["trials"])
hot = APIRouter(route_class=HotRoute, tags=["trials"])

_FILTERS = ("CHECKPOINT", "VALIDATION", "CHECKPOINT_OR_VALIDATION")
_EXIT_REASONS = (ExitReason.INVALID_HP.name, ExitReason.INIT_INVALID_HP.name)
_METRIC_TYPES = ("TRAINING", "VALIDATION", "PROFILING")


@router.get("/api/v1/trials/{trial_id}")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def get(trial_id: RowId, visible: Visible, api: TheApi) -> Reply[TrialReply]:
    row = await api.reads.experiments.trial(trial_id, visible)
    return reply({"trial": (await trials_json(api, [row]))[0]})


@router.post("/api/v1/trials/{id}/kill")
@permit(Action.END_EXPERIMENT, trial("id"))
async def kill(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.experiments.kill_trial(id, by=principal)
    return reply()


class ListWorkloads(Paging):
    filter: Annotated[str, Word("FILTER_OPTION_", _FILTERS)] = ""
    metric_type: Annotated[str, Word("METRIC_TYPE_", _METRIC_TYPES)] = ""
    group: str = ""
    include_batch_metrics: bool = False
    remove_deleted_checkpoints: bool = False
    sort_key: str = ""


@router.get("/api/v1/trials/{trial_id}/workloads")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def workloads(
    trial_id: RowId,
    query: Annotated[ListWorkloads, Query()],
    visible: Visible,
    api: TheApi,
) -> Reply[WorkloadsReply]:
    await api.reads.experiments.require_trials([trial_id], visible)
    items = await _workloads(api, trial_id, query)
    page = cut(_ordered(items, query), query.page())
    return reply({"workloads": list(page.rows), "pagination": pagination(page)})


class Progress(Body):
    progress: float = 0.0
    is_raw: bool = True


@hot.post("/api/v1/trials/{trial_id}/progress")
@permit(Action.REPORT, trial("trial_id"))
async def progress(trial_id: RowId, body: Progress, api: TheApi) -> Reply[Empty]:
    await api.services.reports.progress(trial_id, body.progress)
    return reply()


class EarlyExit(Body):
    reason: Annotated[str, Word("EXITED_REASON_", _EXIT_REASONS)] = ""


@router.post("/api/v1/trials/{trial_id}/early_exit")
@permit(Action.REPORT, trial("trial_id"))
async def early_exit(trial_id: RowId, body: EarlyExit, api: TheApi) -> Reply[Empty]:
    if not body.reason:
        raise InvalidArgument("reason: required")
    await api.services.reports.early_exit(trial_id, ExitReason[body.reason])
    return reply()


class RunnerMetadata(Body):
    state: Text = ""


@router.post("/api/v1/trials/{trial_id}/runner/metadata")
@permit(Action.REPORT, trial("trial_id"))
async def runner_metadata(
    trial_id: RowId,
    body: RunnerMetadata,
    api: TheApi,
) -> Reply[Empty]:
    await api.services.reports.runner_state(trial_id, body.state)
    return reply()


async def trials_json(api: ApiContext, rows: Sequence[TrialRow]) -> list[Trial]:
    """Trials in full, with one query for each kind of thing they refer to."""
    trials = [row.trial for row in rows]
    ids = {id_ for t in trials for id_ in (t.best_validation_id, t.latest_validation_id)}
    reports = await api.reads.metrics.rows_by_id(sorted(id_ for id_ in ids if id_ is not None))
    at_best = {
        (trial.id, reports[trial.best_validation_id].steps)
        for trial in trials
        if trial.best_validation_id in reports
    }
    checkpoints = await api.reads.checkpoints.of_trials([trial.id for trial in trials])
    best = {
        c.trial_id: c
        for c in checkpoints
        if (c.trial_id, c.steps) in at_best and c.state == "COMPLETED"
    }
    now = api.services.clock.now()
    tasks = await api.reads.tasks.tasks_of_trials([trial.id for trial in trials])
    seconds = await api.reads.metrics.slot_seconds(
        [task for some in tasks.values() for task in some], now
    )
    retention = await api.reads.tasks.log_retention([trial.task_id for trial in trials])
    items = []
    for row in rows:
        live = api.services.experiments.live(row.trial.experiment_id)
        of_trial = tasks.get(row.trial.id, [row.trial.task_id])
        items.append(
            wire.trial(
                row,
                live,
                reports=reports,
                best_checkpoint=best.get(row.trial.id),
                task_ids=of_trial,
                slot_seconds=sum(seconds.get(task, 0.0) for task in of_trial),
                waiting=_waiting(api, live, row.trial.request_id),
                log_retention_days=api.services.retention.days(retention.get(row.trial.task_id)),
            )
        )
    return items


def _waiting(api: ApiContext, live: LiveExperiment | None, request_id: str) -> Reason | None:
    trial = live.state.trials.get(request_id) if live is not None else None
    return None if trial is None else api.services.experiments.waiting_reason(trial)


async def _workloads(api: ApiContext, trial_id: int, query: ListWorkloads) -> list[Workload]:
    """Each with exactly one of training, validation and checkpoint, in order of steps and time."""
    items: list[Workload] = []
    groups = _groups(query)
    if groups:
        for report in await api.reads.metrics.reports(trial_id, groups):
            done = wire.metrics_workload(report, batches=query.include_batch_metrics)
            items.append(
                wire.workload(validation=done)
                if report.group == VALIDATION
                else wire.workload(training=done)
            )
    if query.filter != "VALIDATION":
        for checkpoint in await api.reads.checkpoints.of_trials([trial_id]):
            if not (query.remove_deleted_checkpoints and checkpoint.state == "DELETED"):
                items.append(wire.workload(checkpoint=checkpoint_workload(checkpoint)))
    return items


def _groups(query: ListWorkloads) -> list[str]:
    groups = [TRAINING, VALIDATION]
    if query.filter:
        groups.remove(TRAINING)
    if query.filter == "CHECKPOINT":
        groups.remove(VALIDATION)
    only = query.group or query.metric_type.lower()
    return [group for group in groups if not only or group == only]


def _ordered(items: list[Workload], query: ListWorkloads) -> list[Workload]:
    descending = query.order_by == "DESC"
    items = sorted(items, key=wire.place, reverse=descending)
    if not query.sort_key:
        return items

    def value(item: Workload) -> float | None:
        done = item["training"] or item["validation"]
        return None if done is None else number(done["metrics"]["avgMetrics"].get(query.sort_key))

    ranked = [(v, item) for item in items if (v := value(item)) is not None]
    ranked.sort(key=lambda pair: pair[0], reverse=descending)
    return [item for _, item in ranked] + [item for item in items if value(item) is None]
