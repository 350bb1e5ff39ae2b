"""What tasks report about their trials: metrics, progress, checkpoints, early exits. Every call may be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import RowMapping, and_, or_, select, update
from sqlmodel import col

from master.core.searcher.types import ExitReason
from master.experiments import machine
from master.experiments.live import LiveExperiment
from master.experiments.metrics import (
    VALIDATION,
    Report,
    check,
    fold,
    rebuild,
    row_document,
)
from master.experiments.service import ExperimentService
from master.experiments.state import ExperimentState, TrialState
from master.experiments.step_builder import Env, Step
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidArgument, NotFound

INVALID_HP_REASONS: Mapping[str, ExitReason] = {
    "EXITED_REASON_INVALID_HP": ExitReason.INVALID_HP,
    "EXITED_REASON_INIT_INVALID_HP": ExitReason.INIT_INVALID_HP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """A checkpoint that a task has written to its storage."""

    uuid: str
    task_id: str
    state: str = "COMPLETED"
    allocation_id: str | None = None
    resources: Mapping[str, int]
    metadata: Mapping[str, Any]
    storage_id: int | None = None
    at: datetime | None = None

    @property
    def steps(self) -> int:
        steps = self.metadata.get("steps_completed", 0)
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise InvalidArgument(
                f"metadata.steps_completed must be an integer >= 0, but is {steps!r}"
            )
        return steps


class ReportService:
    """Writes what tasks report. `run_id` guards every write: an allocation thought dead is refused."""

    def __init__(self, *, store: Store, experiments: ExperimentService, clock: Clock) -> None:
        self._store = store
        self._experiments = experiments
        self._clock = clock

    # --- metrics --------------------------------------------------------------------------------------------------

    async def metrics(self, report: Report) -> None:
        """Store a report; tell the searcher of a validation; both in one commit."""
        check(report)
        live = self._require_live(report.trial_id)

        async def prepare(state: ExperimentState, env: Env) -> tuple[Step, UnitOfWork]:
            return await self._fold(live, state, env, report)

        await live.transact(prepare)

    async def _fold(
        self, live: LiveExperiment, state: ExperimentState, env: Env, report: Report
    ) -> tuple[Step, UnitOfWork]:
        trial = _current(state, report.trial_id, report.run_id)
        row_id = self._store.next_id(tables.Metric)
        folded = fold(trial.metrics, report, state.settings, row_id)
        uow = UnitOfWork()
        if folded.rolled_back:
            live_rows = await self._surviving(report)
            metrics = rebuild(live_rows, state.settings)
            folded = fold(metrics, report, state.settings, row_id)
            uow.execute(update(tables.Metric).where(_overtaken(report)).values(archived=True))
        if folded.is_repeat:
            return Step(state), uow
        if folded.merge_into is not None:
            uow.update(tables.Metric, {"id": folded.merge_into}, {"metrics": folded.row})
        else:
            uow.insert(tables.Metric, _metric_row(report, row_id))
        state = machine.with_metrics(state, trial, folded.metrics)
        if report.group != VALIDATION:
            return Step(state), uow
        return machine.validation_completed(state, env, trial.request_id, report.avg), uow

    async def _surviving(self, report: Report) -> list[tuple[int, Report]]:
        """The live rows of the trial that this report does not roll back, oldest first."""
        metric = tables.Metric
        rows = await self._store.rows(
            select(metric)
            .where(
                col(metric.trial_id) == report.trial_id,
                col(metric.archived).is_(False),
                ~_overtaken(report),
            )
            .order_by(col(metric.id))
        )
        return [(row["id"], report_from_row(row)) for row in rows]

    # --- everything else ------------------------------------------------------------------------------------------

    async def progress(self, trial_id: int, fraction: float) -> None:
        live = self._experiments.live_of_trial(trial_id)
        if live is None:
            await self._require_trial_row(trial_id)
            return
        request_id = live.state.trial_by_id(trial_id).request_id
        clamped = min(1.0, max(0.0, fraction)) if fraction == fraction else 0.0
        await live.apply(lambda s, e: machine.progress_reported(s, e, request_id, clamped))
        live.hints.progressed(live.state.trials[request_id], self._clock.now())

    async def early_exit(self, trial_id: int, reason: str) -> None:
        """Raises InvalidArgument for a reason the API does not know."""
        known = INVALID_HP_REASONS.get(reason)
        if known is None:
            raise InvalidArgument(
                f'"{reason}" is not an exit reason; use one of {", ".join(INVALID_HP_REASONS)}'
            )
        live = self._require_live(trial_id)
        request_id = live.state.trial_by_id(trial_id).request_id
        await live.apply(lambda s, e: machine.early_exit_reported(s, e, request_id, known))

    async def runner_state(self, trial_id: int, text: str) -> None:
        live = self._experiments.live_of_trial(trial_id)
        if live is None:
            await self._require_trial_row(trial_id)
            return
        request_id = live.state.trial_by_id(trial_id).request_id
        await live.apply(lambda s, e: machine.runner_state_reported(s, e, request_id, text))

    async def storage_id(self, config: Mapping[str, Any] | None) -> int | None:
        """The id of a checkpoint storage config; the same config has the same id."""
        if not config:
            return None
        text = orjson.dumps(config, option=orjson.OPT_SORT_KEYS)
        digest = hashlib.sha256(text).hexdigest()
        known = await self._storage_row(digest)
        if known is not None:
            return known
        id_ = self._store.next_id(tables.StorageBackend)
        uow = UnitOfWork()
        uow.insert(
            tables.StorageBackend, {"id": id_, "config_hash": digest, "config": dict(config)}
        )
        try:
            await self._store.commit(uow)
        except Conflict:  # another rank was faster
            return await self._storage_row(digest)
        return id_

    async def _storage_row(self, digest: str) -> int | None:
        backend = tables.StorageBackend
        row = await self._store.row(
            select(col(backend.id)).where(col(backend.config_hash) == digest)
        )
        return None if row is None else int(row["id"])

    async def checkpoint(self, report: CheckpointReport) -> None:
        """Record a checkpoint. The same uuid again replaces nothing that differs; a repeat is fine."""
        steps = report.steps
        task = await self._store.row(
            select(tables.Task).where(col(tables.Task.id) == report.task_id)
        )
        if task is None:
            raise NotFound("task", report.task_id)
        if task["type"] != "TRIAL":
            raise InvalidArgument(f"task {report.task_id} is not a trial: it has no checkpoints")
        live = self._experiments.live_of_trial(task["trial_id"])
        if live is None:
            await self._late_checkpoint(report, task)
            return

        async def prepare(state: ExperimentState, env: Env) -> tuple[Step, UnitOfWork]:
            trial = state.trial_by_id(task["trial_id"])
            allocation = trial.allocation
            if report.allocation_id and (
                allocation is None or allocation.id != report.allocation_id
            ):
                raise InvalidArgument(
                    f"allocation {report.allocation_id} is not the current allocation of its trial"
                )
            uow = UnitOfWork()
            row = _checkpoint_row(report, steps, task, trial.run_id, env.now)
            uow.upsert(tables.Checkpoint, row)
            if report.state != "COMPLETED":
                return Step(state), uow
            step = machine.checkpoint_reported(state, env, trial.request_id, report.uuid, steps)
            return step, uow

        await live.transact(prepare)
        if report.state == "COMPLETED":
            live.hints.checkpointed(live.state.trial_by_id(task["trial_id"]), self._clock.now())

    async def _late_checkpoint(self, report: CheckpointReport, task: RowMapping) -> None:
        """The experiment is over: keep the record, it is on the storage anyway."""
        uow = UnitOfWork()
        now = self._clock.now()
        uow.upsert(tables.Checkpoint, _checkpoint_row(report, report.steps, task, 0, now))
        await self._store.commit(uow)

    async def patch_checkpoints(self, remaining: Mapping[str, Mapping[str, int]]) -> None:
        """uuid -> files that remain: none means deleted, fewer means partially deleted. All or nothing."""
        checkpoint = tables.Checkpoint
        rows = await self._store.rows(
            select(checkpoint).where(col(checkpoint.uuid).in_(list(remaining)))
        )
        known = {row["uuid"]: row for row in rows}
        uow = UnitOfWork()
        for uuid, files in remaining.items():
            if uuid not in known:
                raise NotFound("checkpoint", uuid)
            state = known[uuid]["state"]
            if not files:
                state = "DELETED"
            elif dict(files) != known[uuid]["resources"]:
                state = "PARTIALLY_DELETED"
            values = {"resources": dict(files), "state": state, "size": sum(files.values())}
            uow.update(checkpoint, {"uuid": uuid}, values)
        await self._store.commit(uow)

    async def run_metadata(self, trial_id: int) -> Any:
        row = await self._require_trial_row(trial_id)
        return row["run_metadata"]

    async def set_run_metadata(self, trial_id: int, metadata: Mapping[str, Any]) -> None:
        await self._require_trial_row(trial_id)
        uow = UnitOfWork()
        uow.update(tables.Trial, {"id": trial_id}, {"run_metadata": dict(metadata)})
        await self._store.commit(uow)

    def _require_live(self, trial_id: int) -> LiveExperiment:
        live = self._experiments.live_of_trial(trial_id)
        if live is None:
            raise NotFound("running trial", trial_id)
        return live

    async def _require_trial_row(self, trial_id: int) -> RowMapping:
        row = await self._store.row(select(tables.Trial).where(col(tables.Trial.id) == trial_id))
        if row is None:
            raise NotFound("trial", trial_id)
        return row


def _current(state: ExperimentState, trial_id: int, run_id: int) -> TrialState:
    trial = state.trial_by_id(trial_id)
    if trial.run_id != run_id:
        raise InvalidArgument(f"invalid run id, {run_id} (reported) != {trial.run_id} (expected)")
    return trial


def _overtaken(report: Report) -> Any:
    """Rows of earlier allocations that a report of a later allocation rolls back."""
    metric = tables.Metric
    return and_(
        col(metric.trial_id) == report.trial_id,
        col(metric.run_id) < report.run_id,
        col(metric.archived).is_(False),
        or_(
            and_(col(metric.group) == report.group, col(metric.steps) >= report.steps),
            and_(col(metric.group) != report.group, col(metric.steps) > report.steps),
        ),
    )


def _metric_row(report: Report, row_id: int) -> dict[str, Any]:
    return {
        "id": row_id,
        "trial_id": report.trial_id,
        "run_id": report.run_id,
        "group": report.group,
        "steps": report.steps,
        "metrics": row_document(report),
        "archived": False,
        "reported_at": report.at,
    }


def report_from_row(row: RowMapping) -> Report:
    document = row["metrics"]
    batches: Sequence[Mapping[str, Any]] | None = document["batch_metrics"]
    return Report(
        trial_id=row["trial_id"],
        run_id=row["run_id"],
        group=row["group"],
        steps=row["steps"],
        avg=document["avg_metrics"],
        batches=None if batches is None else tuple(batches),
        at=row["reported_at"],
    )


def _checkpoint_row(
    report: CheckpointReport, steps: int, task: RowMapping, run_id: int, now: datetime
) -> dict[str, Any]:
    return {
        "uuid": report.uuid,
        "task_id": report.task_id,
        "allocation_id": report.allocation_id,
        "trial_id": task["trial_id"],
        "experiment_id": task["experiment_id"],
        "run_id": run_id,
        "state": report.state,
        "steps": steps,
        "resources": dict(report.resources),
        "meta": dict(report.metadata),
        "size": sum(report.resources.values()),
        "storage_id": report.storage_id,
        "reported_at": report.at or now,
    }
