"""What users do with experiments: create, list the live ones, pause, activate, cancel, kill; and restore at start."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import RowMapping, select
from sqlmodel import col

from master.allocations import machine as allocation_machine
from master.allocations.policy import ClusterPolicy
from master.allocations.service import AllocationService
from master.allocations.task_messages import TaskLog
from master.core.reasons import Reason
from master.experiments import machine, waiting
from master.experiments.admission import Admission, Checked
from master.experiments.creation import Created, NewExperiment, experiment_row
from master.experiments.live import LiveExperiment, LiveParts, PureStep, search_of
from master.experiments.restoring import last_checkpoints, rebuild_all
from master.experiments.state import ExperimentState, Phase, TrialState
from master.experiments.task_messages import TaskMessages
from master.experiments.task_spec import TaskSpecs
from master.store import tables
from master.store.blobs import BlobStore
from master.store.contexts import Listing, listing, store_context
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from rm_backends.base import RestoreRecord
from windlass.base.clock import Clock
from windlass.base.errors import InvalidState, LeaseLost, NotFound, StoreUnavailable
from windlass.base.ids import Ids

log = structlog.get_logger(__name__)


class ExperimentService:
    """All live experiments of this master."""

    def __init__(
        self,
        *,
        store: Store,
        blobs: BlobStore,
        allocations: AllocationService,
        policy: ClusterPolicy,
        task_log: TaskLog,
        specs: TaskSpecs,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._allocations = allocations
        self._clock = clock
        self._ids = ids
        self._admission = Admission(policy=policy, rm=lambda: allocations.rm, clock=clock, ids=ids)
        self._parts = LiveParts(
            store=store,
            clock=clock,
            allocations=allocations,
            admission=self._admission,
            specs=specs,
            task_messages=TaskMessages(task_log),
        )
        self._live: dict[int, LiveExperiment] = {}
        self._experiment_of_trial: dict[int, int] = {}
        self._experiment_of_job: dict[str, int] = {}

    # --- create ---------------------------------------------------------------------------------------------------

    def check(self, text: str) -> Checked:
        """Parse, complete and test an experiment config against this cluster. Creates nothing."""
        return self._admission.check(text)

    async def create(self, new: NewExperiment) -> Created:
        """Check, store the context, then write experiment, first trials and their requests in one commit."""
        checked = await asyncio.to_thread(self.check, new.config)
        blob, listing = await self._context(new)
        project = await self._require_row(tables.Project, new.project_id, "project")
        document = checked.config.to_json()
        state = ExperimentState(
            id=self._store.next_id(tables.Experiment),
            job_id=self._ids.uuid(),
            owner_id=new.owner_id,
            name=document["name"],
            settings=checked.settings,
            searcher=search_of(checked.config).start(),
            created_at=self._clock.now(),
            phase=Phase.ACTIVE if new.activate else Phase.PAUSED,
        )
        live = LiveExperiment(
            self._parts,
            state,
            checked.config,
            owner_name=new.owner_name,
            workspace_id=project["workspace_id"],
        )
        step = machine.begin(state, live.env())
        uow = UnitOfWork()
        uow.insert(tables.Experiment, experiment_row(step.state, new, document, blob, listing))
        await live.create(step, uow, lambda: self._register(live))
        return Created(experiment_id=state.id, config=checked.config, warnings=checked.warnings)

    async def _context(self, new: NewExperiment) -> tuple[str | None, Listing]:
        """The blob of the model definition and what is in it. Raises NotFound for an unknown `blob_of`."""
        if new.files or new.blob_of is None:
            blob = await store_context(self._blobs, new.files, what="model definition")
            return blob, listing(new.files)
        row = await self._require_row(tables.Experiment, new.blob_of, "experiment")
        return row["model_definition"], row["model_files"]

    # --- what users do --------------------------------------------------------------------------------------------

    async def activate(self, experiment_id: int) -> None:
        await self._apply(experiment_id, machine.activate)

    async def pause(self, experiment_id: int) -> None:
        await self._apply(experiment_id, machine.pause)

    async def cancel(self, experiment_id: int) -> None:
        await self._apply(experiment_id, machine.cancel, over_is_fine=True)

    async def kill(self, experiment_id: int) -> None:
        await self._apply(experiment_id, machine.kill, over_is_fine=True)

    async def kill_trial(self, trial_id: int) -> None:
        live = self.live_of_trial(trial_id)
        if live is None:
            await self._require_row(tables.Trial, trial_id, "trial")
            return
        await live.apply(lambda s, e: machine.kill_trial(s, e, trial_id))

    async def _apply(
        self, experiment_id: int, step: PureStep, *, over_is_fine: bool = False
    ) -> None:
        live = self._live.get(experiment_id)
        if live is not None:
            await live.apply(step)
            return
        row = await self._require_row(tables.Experiment, experiment_id, "experiment")
        if not over_is_fine:
            state = row["state"]
            raise InvalidState(f"experiment {experiment_id} is over: it is {state}")

    async def _require_row(self, table: Any, id_: int, kind: str) -> RowMapping:
        row = await self._store.row(select(table).where(col(table.id) == id_))
        if row is None:
            raise NotFound(kind, id_)
        return row

    # --- live state -----------------------------------------------------------------------------------------------

    def live(self, experiment_id: int) -> LiveExperiment | None:
        """The live root, None when the experiment is over or unknown."""
        return self._live.get(experiment_id)

    def live_of_trial(self, trial_id: int) -> LiveExperiment | None:
        experiment_id = self._experiment_of_trial.get(trial_id)
        live = self._live.get(experiment_id) if experiment_id is not None else None
        if live is not None:
            return live
        for candidate in self._live.values():  # created since the last look
            for trial in candidate.state.trials.values():
                self._experiment_of_trial[trial.id] = candidate.state.id
        experiment_id = self._experiment_of_trial.get(trial_id)
        return self._live.get(experiment_id) if experiment_id is not None else None

    def all_live(self) -> Sequence[LiveExperiment]:
        return tuple(self._live.values())

    def job_roots(self) -> Sequence[LiveExperiment]:
        """Of every experiment that is not over. With `job_root`: `master.jobs.ports.JobSource`."""
        return [live for live in self._live.values() if not live.state.phase.is_terminal]

    def job_root(self, job_id: str) -> LiveExperiment | None:
        live = self._live.get(self._experiment_of_job.get(job_id, -1))
        return live if live is not None and not live.state.phase.is_terminal else None

    def waiting_reasons(self, state: ExperimentState) -> dict[int, Reason]:
        """trial id -> why its allocation waits, for every trial that waits."""
        return waiting.waiting_reasons(state, self._allocations.rm.explain)

    def first_waiting_reason(self, state: ExperimentState) -> Reason | None:
        """Why the first trial that waits does."""
        return waiting.first_waiting_reason(state, self._allocations.rm.explain)

    def waiting_reason(self, trial: TrialState) -> Reason | None:
        """None if it does not wait."""
        return waiting.waiting_reason(trial, self._allocations.rm.explain)

    def _register(self, live: LiveExperiment) -> None:
        self._live[live.state.id] = live
        self._experiment_of_job[live.state.job_id] = live.state.id
        for trial in live.state.trials.values():
            self._experiment_of_trial[trial.id] = live.state.id

    # --- time and restarts ----------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Deadlines of all live experiments, and orders that could not be told; forget those that are over."""
        now = self._clock.now()
        for live in list(self._live.values()):
            try:
                await self._look_after(live, now)
            except LeaseLost:
                raise
            except Exception:  # tried again; the others have deadlines too
                log.exception("an experiment's deadline was not kept", experiment=live.state.id)

    async def _look_after(self, live: LiveExperiment, now: datetime) -> None:
        due = machine.next_deadline(live.state)
        if due is not None and due <= now:
            with suppress(StoreUnavailable):  # tried again
                await live.apply(machine.clock_ticked)
        if live.has_unsynced_order:
            await live.sync_order()
        if live.state.phase.is_terminal and _quiet(live.state, now):
            self._forget(live)

    def _forget(self, live: LiveExperiment) -> None:
        del self._live[live.state.id]
        self._experiment_of_job.pop(live.state.job_id, None)
        for trial in live.state.trials.values():
            self._experiment_of_trial.pop(trial.id, None)

    async def restore(self) -> list[RestoreRecord]:
        """Rebuild everything that was not over, and say what the resource managers must know of it.

        `resume` then runs the pending effects, after the resource managers were given the records.
        """
        records: list[RestoreRecord] = []
        for live in await rebuild_all(self._parts):
            self._register(live)
            for trial in live.state.trials.values():
                allocation = trial.open_allocation
                if allocation is not None:
                    self._allocations.adopt(allocation, live)
                    records.append(self._allocations.restore_record(allocation, live))
        return records

    async def resume(self) -> None:
        """Do again what a crash may have cut off: every live root settles, every open allocation's effects run."""
        for live in list(self._live.values()):
            await live.apply(machine.settle)
            for trial in live.state.trials.values():
                allocation = trial.open_allocation
                # A queued request was given to the resource manager by `restore` already.
                if allocation is not None and allocation.has_slots:
                    await self._allocations.run_effects(
                        allocation_machine.pending_effects(allocation)
                    )
            live.hints.restarted(live.state)
        for note in await last_checkpoints(self._store):
            self._allocations.rm.hint(note)


def _quiet(state: ExperimentState, now: datetime) -> bool:
    """Nothing more can come in: late reports are answered from memory for a while after the end."""
    return state.ended_at is not None and (now - state.ended_at).total_seconds() > 60
