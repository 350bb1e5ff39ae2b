"""An experiment that has ended goes on: the pure step, and the rows that it writes beside those of every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from sqlalchemy import ColumnElement, and_, update

from master.core.searcher.state_json import state_to_json
from master.core.searcher.types import TrialContinued
from master.experiments.lifecycle.state import ExperimentState, Phase, TrialReports, TrialState
from master.experiments.lifecycle.step_builder import Env, ExperimentStep, StepBuilder
from master.experiments.lifecycle.transitions import feed, settle_trials
from master.store import tables
from master.store.unit_of_work import Operation, UnitOfWork
from windlass.base.formats.json_types import JsonMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedTrial:
    """Where one trial goes on."""

    request_id: str
    task_id: str
    """Of its next task."""
    checkpoint: str | None
    steps: int
    """At the checkpoint; 0 without one."""
    metrics: TrialReports
    """Of the reports up to there."""
    hparams: JsonMapping


def to_be_continued(state: ExperimentState) -> Sequence[TrialState]:
    """Of one that has ended. A single trial always; of a search those that have not completed."""
    trials = list(state.trials.values())
    if state.config.searcher.name == "single":
        return trials
    return [trial for trial in trials if trial.phase is not Phase.COMPLETED]


def continued(
    state: ExperimentState,
    env: Env,
    trials: Sequence[ContinuedTrial],
    origins: Sequence[JsonMapping] | None,
) -> ExperimentStep:
    """`state` has ended; its configuration, with `origins`, and settings are already those that it goes on with."""
    rows = UnitOfWork(list(_replaced_rows(state, origins)))
    position = Decimal(str(env.now.timestamp()))
    builder = StepBuilder(
        replace(
            state,
            phase=Phase.ACTIVE,
            settings=replace(state.settings, queue_position=position),
            error="",
            ended_at=None,
            last_release="",
        ),
        env,
    )
    for one in trials:
        trial = state.trials[one.request_id]
        awaits_point = state.searcher.trials[one.request_id].awaits_point
        builder.put(replace(_again(trial, one), awaits_point=awaits_point))
        rows.operations.extend(_trial_rows(state, env, trial, one))
    for one in trials:
        feed(builder, TrialContinued(one.request_id))
    builder.state = replace(builder.state, progress=0.0)
    settle_trials(builder)
    # A replay of earlier events with another configuration would come to something else.
    snapshot = {
        "experiment_id": state.id,
        "seq": builder.state.searcher_seq,
        "state": state_to_json(builder.state.searcher),
    }
    rows.upsert(tables.SearcherSnapshot, snapshot)
    return replace(builder.done(), rows=tuple(rows.operations))


def _replaced_rows(
    state: ExperimentState, origins: Sequence[JsonMapping] | None
) -> Sequence[Operation]:
    """The row of the experiment as it goes on, unless something else has been done to it meanwhile."""
    uow = UnitOfWork()
    config = state.config
    values = {
        "config": config.to_json(),
        "config_origins": origins,
        "name": config.name,
        "description": config.description or "",
        "labels": list(config.labels),
        "resource_pool": state.settings.pool,
    }
    where = {"id": state.id, "state": state.phase.value, "archived": False}
    uow.update(tables.Experiment, where, values, expect=1)
    return uow.operations


def _again(trial: TrialState, one: ContinuedTrial) -> TrialState:
    """What it has done, without how it ended."""
    return TrialState(
        id=trial.id,
        request_id=trial.request_id,
        task_id=one.task_id,
        hparams=one.hparams,
        seed=trial.seed,
        created_at=trial.created_at,
        run_id=trial.run_id,
        log_policy=trial.log_policy,
        warm_start_checkpoint=trial.warm_start_checkpoint,
        latest_checkpoint=one.checkpoint,
        latest_checkpoint_steps=one.steps,
        metrics=one.metrics,
    )


def _trial_rows(
    state: ExperimentState, env: Env, trial: TrialState, one: ContinuedTrial
) -> Sequence[Operation]:
    uow = UnitOfWork()
    task = {
        "id": one.task_id,
        "type": "TRIAL",
        "job_id": state.job_id,
        "owner_id": state.owner_id,
        "experiment_id": state.id,
        "trial_id": trial.id,
        "created_at": env.now,
        "ended_at": None,
        "log_retention_days": state.config.log_retention_days,
    }
    uow.insert(tables.Task, task)
    where: Mapping[str, object] = {"id": trial.id, "task_id": trial.task_id}
    uow.update(
        tables.Trial, where, {"task_id": one.task_id, "hparams": dict(one.hparams)}, expect=1
    )
    uow.execute(update(tables.Metric).where(beyond(trial.id, one)).values(archived=True))
    return uow.operations


def beyond(trial_id: int, one: ContinuedTrial) -> ColumnElement[bool]:
    """The reports after its checkpoint: it will report them again."""
    metric = tables.Metric
    return and_(
        metric.trial_id == trial_id,
        metric.archived.is_(False),
        metric.steps > one.steps if one.checkpoint is not None else metric.steps.is_not(None),
    )
