"""Unmanaged experiments: their processes run outside of the cluster, and say here what they do.

They are roots like others, without allocations. One that has ended comes back into memory when its process does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import structlog
from sqlalchemy import select

from master.core.actor import Actor
from master.experiments.lifecycle import unmanaged
from master.experiments.lifecycle.state import (
    ExperimentState,
    Phase,
    TrialState,
    already_ended,
)
from master.experiments.lifecycle.step_builder import Env, ExperimentStep
from master.experiments.live import LiveExperiment, LiveParts
from master.experiments.restoring import rebuilt, stored
from master.experiments.submission.admission import CheckedExperiment
from master.experiments.submission.creation import NewExperiment, experiment_row
from master.experiments.webhooks import webhook_source
from master.parsing import in_parsing_thread
from master.roots.live_roots import LiveRoots
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.unit_of_work import UnitOfWork
from master.workspace_rules import WorkspaceRules
from windlass.base.errors import InvalidArgument, InvalidState, NotFound
from windlass.base.formats.json_types import JsonMapping
from windlass.base.ids import Ids

log = structlog.get_logger(__name__)


def managed_only(experiment_id: int, what: str) -> InvalidArgument:
    """`what`: as in "cannot be paused"."""
    return InvalidArgument(
        f"experiment {experiment_id} is unmanaged: its processes run outside of the cluster, so it cannot be "
        f"{what} here; stop or start them where they run"
    )


def _require_part(trial_id: int, of: LiveExperiment) -> None:
    if trial_id not in of.trials.trial_ids():
        raise InvalidState(f"run {trial_id} is being deleted, or could not be deleted")


class UnmanagedExperiments:
    def __init__(
        self,
        parts: LiveParts,
        roots: LiveRoots[LiveExperiment],
        row_changes: SerialQueue,
        *,
        of_trial: Callable[[int], LiveExperiment | None],
        workspace_of: Callable[[int], Awaitable[int]],
        follow_project: Callable[[LiveExperiment], Awaitable[None]],
        rules: WorkspaceRules,
        ids: Ids,
    ) -> None:
        """`of_trial`: the live experiment of a trial, if there is one. `follow_project`: into its workspace of now."""
        self._parts = parts
        self._store = parts.store
        self._roots = roots
        self._row_changes = row_changes
        self._live_of_trial = of_trial
        self._workspace_of = workspace_of
        self._follow_project = follow_project
        self._rules = rules
        self._ids = ids

    async def check(self, new: NewExperiment) -> CheckedExperiment:
        """Raises InvalidConfig; creates nothing."""
        return await self._check(new, await self._workspace_of(new.project_id))

    async def _check(self, new: NewExperiment, workspace_id: int) -> CheckedExperiment:
        return await in_parsing_thread(
            self._parts.admission.check_unmanaged,
            new.config,
            workspace=await self._rules.defaults(workspace_id),
            template=new.template,
        )

    async def create(self, new: NewExperiment, *, by: Actor) -> int:
        """An experiment without trials; its id. Raises InvalidConfig."""
        workspace_id = await self._workspace_of(new.project_id)
        checked = await self._check(new, workspace_id)
        if self._parts.webhooks is not None:
            self._parts.webhooks.require(webhook_source(checked.config, workspace_id))
        state = ExperimentState(
            id=self._store.next_id(tables.Experiment),
            job_id=self._ids.uuid(),
            owner_id=by.user_id,
            name=checked.config.name,
            config=checked.config,
            settings=checked.settings,
            searcher=checked.search.start(),
            created_at=self._parts.clock.now(),
            unmanaged=True,
        )

        def begin(state: ExperimentState, env: Env) -> ExperimentStep:
            row = UnitOfWork()
            row.insert(tables.Experiment, experiment_row(state, new, None, [], checked.origins))
            return replace(unmanaged.begin(state, env), rows=tuple(row.operations))

        live = LiveExperiment(
            self._parts, state, owner_name=by.name, workspace_id=workspace_id, search=checked.search
        )
        await live.create(begin, lambda: self._roots.register(live), by=by)
        await self._follow_project(live)
        return state.id

    async def find(self, external_id: str) -> int | None:
        experiment = tables.Experiment
        return await self._store.read_one(
            select(experiment.id).where(experiment.external_id == external_id)
        )

    async def put(self, new: NewExperiment, external_id: str, *, by: Actor) -> int:
        """The experiment with this external id, which is created if there is none: one, whoever asks at once."""

        async def find_or_create() -> int:
            found = await self.find(external_id)
            if found is not None:
                return found
            return await self.create(replace(new, external_id=external_id), by=by)

        return await self._row_changes.run(find_or_create)

    async def find_trial(self, experiment_id: int, external_id: str) -> int | None:
        trial = tables.Trial
        return await self._store.read_one(
            select(trial.id).where(
                trial.experiment_id == experiment_id, trial.external_id == external_id
            )
        )

    async def create_trial(
        self,
        experiment_id: int,
        hparams: JsonMapping,
        *,
        external_id: str | None = None,
        by: Actor,
    ) -> int:
        """The trial with this external id, which is created if there is none; without one, always a new trial.

        Raises NotFound, InvalidArgument for a managed experiment, InvalidState.
        """

        async def find_or_create() -> int:
            live = await self._recalled(experiment_id)
            if external_id is not None:
                found = await self.find_trial(experiment_id, external_id)
                if found is not None:
                    _require_part(found, live)
                    return found
            request_id = self._ids.uuid()
            step = partial(
                unmanaged.trial_created,
                request_id=request_id,
                hparams=hparams,
                external_id=external_id,
            )
            state = await live.apply(step, by=by)
            return state.trials[request_id].id

        return await self._row_changes.run(find_or_create)

    async def start(self, trial_id: int, *, resume: bool, by: Actor) -> TrialState:
        """One more run of the trial. Raises NotFound, InvalidArgument for a managed trial, InvalidState."""
        live = await self._require(trial_id)
        request_id = live.trials.request_id(trial_id)
        state = await live.apply(
            partial(unmanaged.started, request_id=request_id, resume=resume), by=by
        )
        trial = state.trials[request_id]
        log.info("unmanaged trial started", trial=trial_id, run=trial.run_id, by=str(by))
        return trial

    async def heard(self, trial_id: int, phase: Phase | None) -> None:
        """A heartbeat, or what the process says of its trial. Raises as `start`."""
        live = await self._require(trial_id)
        request_id = live.trials.request_id(trial_id)
        await live.apply(partial(unmanaged.heard, request_id=request_id, phase=phase))

    async def of_trial(self, trial_id: int) -> LiveExperiment | None:
        """Its experiment, which is called back into memory if it had ended; None for a managed trial that has ended.

        Raises NotFound.
        """
        live = self._live_of_trial(trial_id)
        if live is not None:
            return self._touched(live)
        experiment, trial = tables.Experiment, tables.Trial
        row = await self._store.read_one(
            select(experiment)
            .join(trial, trial.experiment_id == experiment.id)
            .where(trial.id == trial_id)
        )
        if row is None:
            raise NotFound("trial", trial_id)
        if not row.unmanaged:
            return None
        live = await self._row_changes.run(lambda: self._recalled(row.id))
        _require_part(trial_id, live)
        return live

    async def _require(self, trial_id: int) -> LiveExperiment:
        live = await self.of_trial(trial_id)
        if live is None or not live.state.unmanaged:
            raise InvalidArgument(
                f"trial {trial_id} is managed: the cluster runs it and knows its state"
            )
        return live

    async def _recalled(self, experiment_id: int) -> LiveExperiment:
        """In its turn among changes of rows. Raises NotFound, InvalidArgument for a managed one, InvalidState."""
        live = self._roots.get(experiment_id)
        if live is None:
            found = await stored(self._store, experiment_id)
            row, phase = found.experiment, Phase(found.experiment.state)
            if row.unmanaged and phase in (Phase.DELETING, Phase.DELETE_FAILED):
                raise InvalidState(already_ended(experiment_id, phase))
            if row.unmanaged:
                live = LiveExperiment(
                    self._parts,
                    await rebuilt(self._store, row),
                    owner_name=found.owner_name,
                    workspace_id=found.workspace_id,
                )
                self._roots.register(live)
        if live is None or not live.state.unmanaged:
            raise InvalidArgument(
                f"experiment {experiment_id} is managed: its trials are created by its search"
            )
        return self._touched(live)

    def _touched(self, live: LiveExperiment) -> LiveExperiment:
        if live.state.unmanaged and live.is_over:
            live.touched_at = self._parts.clock.now()
        return live
