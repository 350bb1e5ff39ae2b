"""What users do with experiments: create, list the live ones, pause, activate, cancel, kill; and restore at start."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import structlog
from sqlalchemy import RowMapping, select
from sqlmodel import col

from master.allocations import machine as allocation_machine
from master.allocations.service import AllocationService
from master.core.expconf import ClusterDefaults, ExperimentConfig, complete, parse
from master.core.reasons import Reason
from master.core.searcher.event_json import event_from_json
from master.core.searcher.search import Search
from master.core.searcher.state_json import state_from_json
from master.experiments import machine
from master.experiments.live import LiveExperiment, LiveParts, PureStep, search_of
from master.experiments.narration import Narrator, TaskLog
from master.experiments.persistence import newest_runs, trials_in_order
from master.experiments.state import ExperimentState, Phase, RunSettings
from master.experiments.task_spec import TaskSpecs
from master.experiments.waiting import waiting_reasons
from master.store import tables
from master.store.blobs import BlobStore
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from rm_backends.base import AllocationRequest, JobOrder, RestoreRecord
from windlass.base.clock import Clock
from windlass.base.errors import (
    InvalidConfig,
    InvalidState,
    NotFound,
    StoreUnavailable,
    Unsatisfiable,
)
from windlass.base.ids import Ids

log = structlog.get_logger(__name__)

Listing: TypeAlias = list[dict[str, Any]]
"""Path, size, mode and mtime of each file of a model definition."""

MAX_CONTEXT_BYTES = 96 * 1024 * 1024
"""Decoded size of a model definition; the published client refuses at 95 MiB."""
DEFAULT_PREEMPTION_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFile:
    """One file or directory of a model definition."""

    path: str
    content: bytes = b""
    is_directory: bool = False
    mode: int = 0o644
    mtime: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExperiment:
    """A request to create an experiment, parsed from the wire but not yet checked."""

    config: str
    owner_id: int
    owner_name: str
    files: tuple[ContextFile, ...] = ()
    blob_of: int | None = None
    """Without files of its own it gets those of this experiment."""
    activate: bool = True
    parent_id: int | None = None
    project_id: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPolicy:
    """What the cluster adds to every experiment."""

    defaults: Mapping[str, ClusterDefaults]
    """By pool: its container defaults and the cluster's checkpoint storage."""
    default_compute_pool: str = "default"
    default_aux_pool: str = "default"
    launch_error: bool = True
    """Refuse what could never run; false: accept it with a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A config that could run here."""

    config: ExperimentConfig
    settings: RunSettings
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    experiment_id: int
    config: ExperimentConfig
    warnings: tuple[str, ...] = ()


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
        self._policy = policy
        self._clock = clock
        self._ids = ids
        self._parts = LiveParts(
            store=store,
            clock=clock,
            allocations=allocations,
            specs=specs,
            narrator=Narrator(task_log),
        )
        self._live: dict[int, LiveExperiment] = {}
        self._experiment_of_trial: dict[int, int] = {}

    # --- create ---------------------------------------------------------------------------------------------------

    def check(self, text: str) -> Checked:
        """Parse, complete and test an experiment config against this cluster. Creates nothing."""
        name = f"Experiment ({self._ids.uuid()[:8]})"
        seed = int(self._clock.now().timestamp()) % 2**31
        raw = parse(text)
        pool = self._pool_of(raw.get("resources") or {})
        config = complete(raw, defaults=self._policy.defaults[pool], seed=seed, name=name)
        settings = run_settings(config, pool)
        warnings: tuple[str, ...] = ()
        try:
            self._allocations.rm.check(self._probe(settings))
        except Unsatisfiable as error:
            if self._policy.launch_error:
                raise
            log.warning("experiment may never run", reason=error.message)
            warnings = ("LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED",)
        return Checked(config=config, settings=settings, warnings=warnings)

    async def create(self, new: NewExperiment) -> Created:
        """Check, store the context, then write experiment, first trials and their requests in one commit."""
        checked = await asyncio.to_thread(self.check, new.config)
        blob, listing = await self._context(new)
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
        live = LiveExperiment(self._parts, state, checked.config, new.owner_name)
        step = machine.begin(state, live.env())
        uow = UnitOfWork()
        uow.insert(tables.Experiment, _experiment_row(step.state, new, document, blob, listing))
        await live.found(step, uow, lambda: self._learn(live))
        return Created(experiment_id=state.id, config=checked.config, warnings=checked.warnings)

    async def _context(self, new: NewExperiment) -> tuple[str | None, Listing]:
        """The blob of the model definition and what is in it. Raises NotFound for an unknown `blob_of`."""
        if new.files or new.blob_of is None:
            return await self._store_context(new.files), [_listed(f) for f in new.files]
        row = await self._require_row(tables.Experiment, new.blob_of, "experiment")
        return row["model_definition"], row["model_files"]

    async def _store_context(self, files: Sequence[ContextFile]) -> str | None:
        if not files:
            return None
        size = sum(len(f.content) for f in files)
        if size > MAX_CONTEXT_BYTES:
            raise InvalidConfig(
                [f"the model definition has {size} bytes, more than {MAX_CONTEXT_BYTES}"],
                what="model definition",
            )
        return await self._blobs.put(await asyncio.to_thread(pack, files))

    def _pool_of(self, resources: Mapping[str, Any]) -> str:
        """The pool that a raw `resources` section names or implies. Raises InvalidConfig for an unknown one."""
        slots = resources.get("slots_per_trial")
        aux = slots is not None and slots == 0
        pool = resources.get("resource_pool") or (
            self._policy.default_aux_pool if aux else self._policy.default_compute_pool
        )
        if pool not in self._policy.defaults:
            known = ", ".join(sorted(self._policy.defaults))
            problem = (
                f'<config>.resources.resource_pool: there is no pool "{pool}"; use one of {known}'
            )
            raise InvalidConfig([problem], what="experiment configuration")
        return str(pool)

    def _probe(self, settings: RunSettings) -> AllocationRequest:
        """The request that a trial of this experiment would make."""
        now = self._clock.now()
        return AllocationRequest(
            allocation_id="check",
            task_id="check",
            name="check",
            pool=settings.pool,
            slots=settings.slots_per_trial,
            job=JobOrder(
                job_id="check",
                submitted=now,
                weight=settings.weight,
                max_slots=settings.max_slots,
                priority=settings.priority,
            ),
            requested=now,
            single_agent=settings.single_node,
        )

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

    def waiting_reasons(self, state: ExperimentState) -> dict[int, Reason]:
        """trial id -> why its run waits, for every trial that waits."""
        return waiting_reasons(state, self._allocations.rm.explain)

    def _learn(self, live: LiveExperiment) -> None:
        self._live[live.state.id] = live
        for trial in live.state.trials.values():
            self._experiment_of_trial[trial.id] = live.state.id

    # --- time and restarts ----------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Deadlines of all live experiments; forget those that are over."""
        now = self._clock.now()
        for experiment_id, live in list(self._live.items()):
            due = machine.next_deadline(live.state)
            if due is not None and due <= now:
                with suppress(StoreUnavailable):  # tried again; the others have deadlines too
                    await live.apply(machine.clock_ticked)
            if live.state.phase.is_terminal and _quiet(live.state, now):
                del self._live[experiment_id]
                for trial in live.state.trials.values():
                    self._experiment_of_trial.pop(trial.id, None)

    async def restore(self) -> list[RestoreRecord]:
        """Rebuild everything that was not over, and say what the resource managers must know of it.

        `resume` then runs the pending effects, after the resource managers were given the records.
        """
        experiment = tables.Experiment
        over = [p.value for p in Phase if p.is_terminal]
        rows = await self._store.rows(
            select(experiment, col(tables.User.username))
            .join(tables.User, col(tables.User.id) == col(experiment.owner_id))
            .where(col(experiment.state).not_in(over))
        )
        records: list[RestoreRecord] = []
        for row in rows:
            live = await self._rebuild(row)
            self._learn(live)
            for trial in live.state.trials.values():
                run = trial.open_allocation
                if run is not None:
                    self._allocations.adopt(run, live)
                    records.append(self._allocations.restore_record(run, live))
        return records

    async def resume(self) -> None:
        """Do again what a crash may have cut off: every live root settles, every open run's effects run."""
        for live in list(self._live.values()):
            await live.apply(machine.settle)
            for trial in live.state.trials.values():
                run = trial.open_allocation
                # A queued request was given to the resource manager by `restore` already.
                if run is not None and run.has_slots:
                    await self._allocations.run_effects(allocation_machine.pending_effects(run))

    async def _rebuild(self, row: RowMapping) -> LiveExperiment:
        config = ExperimentConfig.from_json(row["config"])
        experiment_id = row["id"]
        trial, run = tables.Trial, tables.Allocation
        trial_rows = await self._store.rows(
            select(trial).where(col(trial.experiment_id) == experiment_id)
        )
        run_rows = await self._store.rows(
            select(run)
            .join(trial, col(trial.task_id) == col(run.task_id))
            .where(col(trial.experiment_id) == experiment_id, col(trial.run_id) == col(run.run_id))
        )
        searcher, seq = await self._restore_searcher(experiment_id, search_of(config))
        state = ExperimentState(
            id=experiment_id,
            job_id=row["job_id"],
            owner_id=row["owner_id"],
            name=row["name"],
            settings=run_settings(config, row["resource_pool"]),
            searcher=searcher,
            searcher_seq=seq,
            created_at=row["created_at"],
            phase=Phase(row["state"]),
            trials=trials_in_order(trial_rows, newest_runs(run_rows)),
            progress=row["progress"],
            error=row["error"],
        )
        return LiveExperiment(self._parts, state, config, row["username"])

    async def _restore_searcher(self, experiment_id: int, search: Search) -> tuple[Any, int]:
        """The newest snapshot plus a replay of the events after it."""
        snapshot = await self._store.row(
            select(tables.SearcherSnapshot).where(
                col(tables.SearcherSnapshot.experiment_id) == experiment_id
            )
        )
        state, seq = (
            (search.start(), 0)
            if snapshot is None
            else (state_from_json(snapshot["state"]), int(snapshot["seq"]))
        )
        event = tables.SearcherEvent
        rows = await self._store.rows(
            select(event)
            .where(col(event.experiment_id) == experiment_id, col(event.seq) > seq)
            .order_by(col(event.seq))
        )
        for row in rows:
            state, _ = search.on(state, event_from_json(row["event"]))
            seq = row["seq"]
        return state, seq


def run_settings(config: ExperimentConfig, pool: str) -> RunSettings:
    """What running the trials needs of a complete config."""
    document = config.to_json()
    resources, searcher = document["resources"], document["searcher"]
    timeout = document.get("preemption_timeout")
    return RunSettings(
        pool=pool,
        slots_per_trial=resources["slots_per_trial"],
        max_restarts=document["max_restarts"],
        single_node=bool(resources["is_single_node"]),
        weight=resources["weight"],
        max_slots=resources["max_slots"],
        priority=resources["priority"],
        preemption_timeout_s=DEFAULT_PREEMPTION_TIMEOUT_S if timeout is None else timeout,
        metric=searcher["metric"],
        smaller_is_better=searcher["smaller_is_better"],
        time_metric=searcher.get("time_metric"),
    )


def _quiet(state: ExperimentState, now: datetime) -> bool:
    """Nothing more can come in: late reports are answered from memory for a while after the end."""
    return state.ended_at is not None and (now - state.ended_at).total_seconds() > 60


def _experiment_row(
    state: ExperimentState,
    new: NewExperiment,
    document: Mapping[str, Any],
    blob: str | None,
    listing: Listing,
) -> dict[str, Any]:
    return {
        "id": state.id,
        "job_id": state.job_id,
        "owner_id": state.owner_id,
        "project_id": new.project_id,
        "parent_id": new.parent_id,
        "state": state.phase.value,
        "name": state.name,
        "description": document["description"] or "",
        "labels": list(document["labels"]),
        "notes": "",
        "archived": False,
        "unmanaged": False,
        "external_id": None,
        "config": dict(document),
        "original_config": new.config,
        "model_definition": blob,
        "model_files": listing,
        "resource_pool": state.settings.pool,
        "progress": state.progress,
        "error": state.error,
        "created_at": state.created_at,
        "ended_at": state.ended_at,
    }


def _listed(file: ContextFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": len(file.content),
        "mode": file.mode,
        "mtime": file.mtime,
    }


def pack(files: Sequence[ContextFile]) -> bytes:
    """A gzipped tar of a model definition. Paths that leave the directory are refused."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=3) as archive:
        for file in files:
            parts = file.path.split("/")
            if file.path.startswith("/") or ".." in parts or not file.path:
                raise InvalidConfig(
                    [f'path "{file.path}" must stay inside the model directory'],
                    what="model definition",
                )
            info = tarfile.TarInfo(file.path)
            info.mode, info.mtime = file.mode & 0o7777, file.mtime
            if file.is_directory:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(file.content)
                archive.addfile(info, io.BytesIO(file.content))
    return buffer.getvalue()
