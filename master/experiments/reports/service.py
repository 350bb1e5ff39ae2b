"""What tasks report about their trials: metrics, progress, checkpoints, early exits. Every call may be repeated."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import orjson
import structlog
from sqlalchemy import select

from master.core.actor import Actor
from master.core.expconf.references import PoolSecrets
from master.core.searcher.types import ExitReason
from master.experiments.lifecycle import machine
from master.experiments.lifecycle.garbage import changed_checkpoint
from master.experiments.lifecycle.state import ExperimentState
from master.experiments.lifecycle.step_builder import Env, ExperimentStep
from master.experiments.live import LiveExperiment
from master.experiments.reports.metric_reports import (
    History,
    HistoryNeeded,
    report_from_row,
    report_metrics,
    surviving,
)
from master.experiments.reports.metrics import PostedMetrics, check
from master.experiments.service import ExperimentService
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidArgument, InvalidState, NotFound

log = structlog.get_logger(__name__)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """A checkpoint that a task has written to its storage."""

    uuid: str
    task_id: str
    state: str = "COMPLETED"
    allocation_id: str | None = None
    resources: Mapping[str, int]
    metadata: Mapping[str, object]
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

    def __init__(
        self,
        *,
        store: Store,
        experiments: ExperimentService,
        clock: Clock,
        secrets: PoolSecrets,
        cluster_id: str,
    ) -> None:
        """`cluster_id`: the folder of TensorBoard files in every storage."""
        self._store = store
        self._cluster_id = cluster_id
        self._secrets = secrets
        self._experiments = experiments
        self._clock = clock

    async def metrics(self, report: PostedMetrics) -> None:
        """Store a report; tell the searcher of a validation; both in one commit."""
        check(report)
        live, request_id = await self._require_live(report.trial_id)
        step = partial(report_metrics, request_id=request_id, report=report)
        while True:
            try:
                await live.apply(step)
                return
            except HistoryNeeded:
                history = await self._history(live, report)
                step = partial(step, history=history)

    async def _history(self, live: LiveExperiment, report: PostedMetrics) -> History:
        seen = live.trial(report.trial_id).metrics
        rows = await self._store.read(surviving(report))
        return History(seen, [(row.id, report_from_row(row)) for row in rows])

    async def progress(self, trial_id: int, fraction: float) -> None:
        live = await self._live(trial_id)
        if live is None:
            await self._require_trial_row(trial_id)
            return
        request_id = live.trials.request_id(trial_id)
        clamped = min(1.0, max(0.0, fraction)) if fraction == fraction else 0.0
        await live.apply(lambda s, e: machine.progress_reported(s, e, request_id, clamped))

    async def early_exit(self, trial_id: int, reason: ExitReason) -> None:
        live, request_id = await self._require_live(trial_id)
        await live.apply(lambda s, e: machine.early_exit_reported(s, e, request_id, reason))

    async def runner_state(self, trial_id: int, text: str) -> None:
        live = await self._live(trial_id)
        if live is None:
            await self._require_trial_row(trial_id)
            return
        request_id = live.trials.request_id(trial_id)
        await live.apply(lambda s, e: machine.runner_state_reported(s, e, request_id, text))

    async def storage_id(
        self, config: Mapping[str, object] | None, *, owner_id: int | None
    ) -> int | None:
        """The id of a checkpoint storage config; the same config of the same user has the same id.

        It comes with the master's own secrets, as its task was given it; it is stored without.
        """
        if not config:
            return None
        config = self._secrets.storage_referring(config)
        digest = _storage_digest(config, owner_id)
        known = await self._storage_row(digest)
        if known is not None:
            return known
        id_ = self._store.next_id(tables.StorageBackend)
        uow = UnitOfWork()
        uow.insert(tables.StorageBackend, {"id": id_, "config_hash": digest, "config": config})
        try:
            await self._store.commit(uow)
        except Conflict:  # another rank was faster
            return await self._storage_row(digest)
        return id_

    async def _storage_row(self, digest: str) -> int | None:
        backend = tables.StorageBackend
        return await self._store.read_one(select(backend.id).where(backend.config_hash == digest))

    async def checkpoint(self, report: CheckpointReport) -> None:
        """Record a checkpoint. A repeat is fine; Conflict for one that another task has reported."""
        steps = report.steps
        self._require_plain_name(report.uuid)
        await self._require_own(report)
        task = await self._store.read_one(
            select(tables.Task).where(tables.Task.id == report.task_id)
        )
        if task is None:
            raise NotFound("task", report.task_id)
        if task.type != "TRIAL" or task.trial_id is None:
            raise InvalidArgument(f"task {report.task_id} is not a trial: it has no checkpoints")
        report = await self._with_own_storage(report, task.owner_id)
        live = await self._live(task.trial_id)
        if live is None:
            await self._late_checkpoint(report, task)
            return

        request_id = live.trials.request_id(task.trial_id)

        def step(state: ExperimentState, env: Env) -> ExperimentStep:
            trial = state.trials[request_id]
            allocation = trial.allocation
            if report.allocation_id and (
                allocation is None or allocation.id != report.allocation_id
            ):
                raise InvalidArgument(
                    f"allocation {report.allocation_id} is not the current allocation of its trial"
                )
            rows = UnitOfWork()
            row = _checkpoint_row(report, steps, task, trial.run_id, env.now)
            rows.upsert(tables.Checkpoint, row)
            reported = (
                machine.checkpoint_reported(state, env, request_id, report.uuid, steps)
                if report.state == "COMPLETED"
                else ExperimentStep(state)
            )
            return replace(reported, rows=tuple(rows.operations))

        await live.apply(step)

    def _require_plain_name(self, uuid: str) -> None:
        """It names a folder of the storage, which is deleted with it: one of its own, beside all others."""
        if not _PLAIN_NAME.fullmatch(uuid) or uuid == self._cluster_id:
            raise InvalidArgument(
                f"uuid: {uuid[:80]!r} cannot be the name of a checkpoint: use a new UUID"
            )

    async def _require_own(self, report: CheckpointReport) -> None:
        checkpoint = tables.Checkpoint
        task_id = await self._store.read_one(
            select(checkpoint.task_id).where(checkpoint.uuid == report.uuid)
        )
        if task_id not in (None, report.task_id):
            raise Conflict(
                f"checkpoint {report.uuid} belongs to task {task_id}: report a new one with a uuid of its own"
            )

    async def _with_own_storage(
        self, report: CheckpointReport, owner_id: int | None
    ) -> CheckpointReport:
        """The keys of a storage are its user's: nobody else's checkpoints are read and deleted with them.

        One that a release without owners (0.1) has written down is nobody's: the experiment's own storage counts.
        """
        if report.storage_id is None:
            return report
        backend = tables.StorageBackend
        row = await self._store.read_one(select(backend).where(backend.id == report.storage_id))
        if row is not None and row.config_hash == _storage_digest(row.config, owner_id):
            return report
        if (
            row is not None
            and row.config_hash == hashlib.sha256(_canonical(row.config)).hexdigest()
        ):
            return replace(report, storage_id=None)
        raise InvalidArgument(
            f"storageId: {report.storage_id} is no storage of the task's owner: use the id that the start of the "
            "run has returned"
        )

    async def _late_checkpoint(self, report: CheckpointReport, task: tables.Task) -> None:
        """The experiment is over: keep the record, it is on the storage anyway."""
        uow = UnitOfWork()
        now = self._clock.now()
        uow.upsert(tables.Checkpoint, _checkpoint_row(report, report.steps, task, 0, now))
        await self._store.commit(uow)

    async def patch_checkpoints(
        self, remaining: Mapping[str, Mapping[str, int]], *, by: Actor
    ) -> None:
        """uuid -> files that remain: none means deleted, fewer means partially deleted. All or nothing."""
        checkpoint = tables.Checkpoint
        rows = await self._store.read(
            select(checkpoint).where(checkpoint.uuid.in_(list(remaining)))
        )
        known = {row.uuid: row for row in rows}
        uow = UnitOfWork()
        for uuid, files in remaining.items():
            if uuid not in known:
                raise NotFound("checkpoint", uuid)
            values = changed_checkpoint(known[uuid].resources, known[uuid].state, files)
            uow.update(checkpoint, {"uuid": uuid}, values)
        await self._require_unregistered(list(remaining))
        await self._store.commit(uow)
        for uuid in remaining:
            log.info("checkpoint changed", checkpoint=uuid, by=str(by))

    async def _require_unregistered(self, uuids: Sequence[str]) -> None:
        version = tables.ModelVersion
        here = version.checkpoint_uuid.in_(uuids)
        kept = await self._store.read(select(version.checkpoint_uuid).where(here).limit(1))
        if kept:
            raise InvalidState(f"checkpoint {kept[0]} is in the model registry: it must stay whole")

    async def run_metadata(self, trial_id: int) -> Any:
        row = await self._require_trial_row(trial_id)
        return row.run_metadata

    async def set_run_metadata(
        self, trial_id: int, metadata: Mapping[str, object], *, by: Actor
    ) -> None:
        await self._require_trial_row(trial_id)
        uow = UnitOfWork()
        uow.update(tables.Trial, {"id": trial_id}, {"run_metadata": dict(metadata)})
        await self._store.commit(uow)
        log.info("run metadata set", trial=trial_id, by=str(by))

    async def _live(self, trial_id: int) -> LiveExperiment | None:
        """None for a managed trial that has ended: a process elsewhere may come back. Raises NotFound."""
        return await self._experiments.unmanaged.of_trial(trial_id)

    async def _require_live(self, trial_id: int) -> tuple[LiveExperiment, str]:
        """Its experiment, and its request id there."""
        live = await self._live(trial_id)
        if live is None:
            raise NotFound("running trial", trial_id)
        return live, live.trials.request_id(trial_id)

    async def _require_trial_row(self, trial_id: int) -> tables.Trial:
        row = await self._store.read_one(select(tables.Trial).where(tables.Trial.id == trial_id))
        if row is None:
            raise NotFound("trial", trial_id)
        return row


def _storage_digest(config: Mapping[str, object], owner_id: int | None) -> str:
    return hashlib.sha256(b"%d\0" % (owner_id or 0) + _canonical(config)).hexdigest()


def _canonical(config: Mapping[str, object]) -> bytes:
    return orjson.dumps(config, option=orjson.OPT_SORT_KEYS)


def _checkpoint_row(
    report: CheckpointReport, steps: int, task: tables.Task, run_id: int, now: datetime
) -> dict[str, object]:
    return {
        "uuid": report.uuid,
        "task_id": report.task_id,
        "allocation_id": report.allocation_id,
        "trial_id": task.trial_id,
        "experiment_id": task.experiment_id,
        "run_id": run_id,
        "state": report.state,
        "steps": steps,
        "resources": dict(report.resources),
        "meta": dict(report.metadata),
        "size": sum(report.resources.values()),
        "storage_id": report.storage_id,
        "reported_at": report.at or now,
    }
