"""What users do with experiments: create, pause, activate, cancel, kill; and restore at start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy import select

from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.identities import TaskOwner
from master.allocations.policy import ClusterPolicy
from master.allocations.service import AllocationService
from master.allocations.task_messages import TaskLogWriter
from master.core.actor import Actor
from master.core.expconf import ExperimentConfig
from master.core.expconf.policies import WorkloadType
from master.core.expconf.templates import Template
from master.core.reasons import Reason
from master.core.searcher.search import Search
from master.core.searcher.types import TrialAdded
from master.core.visibility import Visibility
from master.core.webhooks.types import CustomFacts
from master.experiments import waiting
from master.experiments.continuation import Continuation, Continuations
from master.experiments.lifecycle import external, machine
from master.experiments.lifecycle.state import (
    ExperimentState,
    Phase,
    RunSettings,
    TrialState,
    already_ended,
)
from master.experiments.lifecycle.step_builder import Env, ExperimentStep
from master.experiments.live import LiveExperiment, LiveParts
from master.experiments.restoring import last_checkpoints, rebuild_all
from master.experiments.sampling.chooser import PointChooser
from master.experiments.sampling.process import Sampler
from master.experiments.submission.admission import Admission, CheckedExperiment
from master.experiments.submission.creation import Created, NewExperiment, experiment_row
from master.experiments.submission.placing import Placing
from master.experiments.submission.storage_checks import StorageChecks
from master.experiments.submission.warm_start import WarmStart
from master.experiments.task_spec import TaskSpecs
from master.experiments.unmanaged import UnmanagedExperiments, managed_only
from master.experiments.webhooks import webhook_facts, webhook_source
from master.jobs.ports import Unqueued
from master.parsing import in_parsing_thread
from master.roots.live_roots import LiveRoots
from master.roots.root import Transition
from master.store import tables
from master.store.blobs import BlobStore
from master.store.contexts import Listing, listing, store_context
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.webhooks.registry import WebhookRegistry
from master.workspace_rules import WorkspaceRules
from rm_backends.base import AllocationRequest, RestoreRecord
from windlass.base.clock import Clock
from windlass.base.errors import InvalidState, NotFound
from windlass.base.formats.json_types import JsonMapping, JsonObject
from windlass.base.ids import Ids


class LiveExperiments(LiveRoots[LiveExperiment]):
    def __init__(self, *, allocations: AllocationService, clock: Clock) -> None:
        super().__init__(allocations=allocations, clock=clock)
        self._of_trial: dict[int, LiveExperiment] = {}

    def of_trial(self, trial_id: int) -> LiveExperiment | None:
        """None when its experiment is over, or for a trial that nobody knows."""
        return self._of_trial.get(trial_id)

    def job_roots(self) -> Sequence[LiveExperiment]:
        return [root for root in super().job_roots() if not root.state.unmanaged]

    def job_root(self, job_id: str) -> LiveExperiment | None:
        """None for unmanaged work, too: it queues nowhere."""
        root = super().job_root(job_id)
        return None if root is None or root.state.unmanaged else root

    def unqueued(self, job_id: str) -> Unqueued | None:
        root = super().job_root(job_id)
        if root is None or not root.state.unmanaged:
            return None
        return Unqueued(root.workspace_id, managed_only(root.id, "moved in a queue, or explained"))

    def register(self, root: LiveExperiment) -> None:
        super().register(root)
        for trial_id in root.trials.trial_ids():
            self._of_trial[trial_id] = root

        def note_new_trials(transition: Transition[ExperimentState, ExperimentStep]) -> None:
            for change in transition.step.trials:
                if change.before is None:
                    self._of_trial[change.after.id] = root

        root.subscribe(note_new_trials)

    def forget(self, root: LiveExperiment) -> None:
        super().forget(root)
        for trial_id in root.trials.trial_ids():
            if self._of_trial.get(trial_id) is root:
                del self._of_trial[trial_id]


PureStep: TypeAlias = Callable[[ExperimentState, Env], ExperimentStep]
TrialStep: TypeAlias = Callable[[ExperimentState, Env, str], ExperimentStep]
"""Of the trial with this request id."""


class ExperimentService:
    """All live experiments of this master."""

    def __init__(
        self,
        *,
        store: Store,
        blobs: BlobStore,
        allocations: AllocationService,
        policy: ClusterPolicy,
        task_log: TaskLogWriter,
        specs: TaskSpecs,
        clock: Clock,
        ids: Ids,
        sampler: Sampler,
        rules: WorkspaceRules,
        webhooks: WebhookRegistry,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """`ended` is called when an experiment has ended."""
        self._store = store
        self._blobs = blobs
        self._allocations = allocations
        self._clock = clock
        self._ids = ids
        self._rules = rules
        self._webhooks = webhooks
        self._admission = Admission(
            policy=policy,
            cluster=specs.cluster,
            rm=lambda: allocations.rm,
            clock=clock,
            ids=ids,
        )
        self.storage_checks = StorageChecks(clock, _cluster_storage(policy, specs.cluster))
        self._cluster = specs.cluster
        self._warm_start = WarmStart(store)
        self.placing = Placing(store)
        self._parts = LiveParts(
            store=store,
            clock=clock,
            allocations=allocations,
            admission=self._admission,
            specs=specs,
            task_log=task_log,
            max_lost_runs=policy.max_lost_runs,
            ended=ended,
            awaits_points=lambda: self.points.wake(),
            webhooks=webhooks,
        )
        self.roots = LiveExperiments(allocations=allocations, clock=clock)
        self.points = PointChooser(lambda: self.roots, sampler)
        self.row_changes = SerialQueue("experiment rows")
        """Changes of rows that a live experiment may hold or not: whoever makes one looks in its turn."""
        self._continuations = Continuations(
            self._parts, self.roots, check=self._check_again, require=self._require_again
        )
        self.unmanaged = UnmanagedExperiments(
            self._parts,
            self.roots,
            self.row_changes,
            of_trial=self.roots.of_trial,
            workspace_of=self._workspace_of,
            follow_project=self._follow_project,
            rules=rules,
            ids=ids,
        )

    async def check(
        self, text: str, *, by: Actor, project_id: int = 1, template: Template | None = None
    ) -> CheckedExperiment:
        """Parse, complete and test an experiment config against this cluster. Creates nothing."""
        owner = TaskOwner(by.user_id, await self._workspace_of(project_id))
        return await self._check(text, owner, template)

    async def place(
        self, text: str, *, project_id: int, template: Template | None, visible: Visibility
    ) -> int:
        """The project of such an experiment: see `Placing`."""
        return await self.placing.find(text, project_id, template, visible)

    async def preview_search(self, document: JsonMapping) -> tuple[ExperimentConfig, Search]:
        """The search of such an experiment. Raises InvalidConfig; creates nothing."""
        return await in_parsing_thread(self._admission.preview, document)

    def first_requests(
        self, checked: CheckedExperiment, *, user: str, trials: int | None = None
    ) -> list[AllocationRequest]:
        """See `Admission`."""
        return self._admission.first_requests(checked, user=user, trials=trials)

    async def _check(
        self, text: str, owner: TaskOwner, template: Template | None
    ) -> CheckedExperiment:
        checked = await in_parsing_thread(
            self._admission.check,
            text,
            owner=owner,
            policies=await self._rules.policies(owner.workspace_id, WorkloadType.EXPERIMENT),
            workspace=await self._rules.defaults(owner.workspace_id),
            template=template,
        )
        self._webhooks.require(webhook_source(checked.config, owner.workspace_id))
        await self._require_usable(checked, owner)
        return replace(checked, config=await self._warm_start.resolve(checked.config))

    async def _check_again(
        self, document: JsonObject, changes: JsonMapping, owner: TaskOwner
    ) -> CheckedExperiment:
        checked = await in_parsing_thread(
            self._admission.check_again,
            document,
            owner=owner,
            policies=await self._rules.policies(owner.workspace_id, WorkloadType.EXPERIMENT),
            workspace=await self._rules.defaults(owner.workspace_id),
            changes=changes,
        )
        await self._require_usable(checked, owner)
        return checked

    async def _require_again(self, workspace_id: int, settings: RunSettings) -> None:
        """Of one that goes on as it was."""
        await self._require_rules(workspace_id, settings)
        await self._rules.require_pool(settings.pool, workspace_id)

    async def _require_usable(self, checked: CheckedExperiment, owner: TaskOwner) -> None:
        await self._cluster.require_linked(checked.settings.pool, owner, checked.settings.batch)
        section = checked.config.checkpoint_storage.model_dump(mode="json", exclude_none=True)
        await self.storage_checks.require(self._cluster.storage_secrets.resolved(section))

    async def create(self, new: NewExperiment, *, by: Actor) -> Created:
        """Check, store the context, then write experiment, first trials and their requests in one commit.

        It belongs to `by`. Raises InvalidState for the fork of one whose project is archived.
        """
        if new.parent_id is not None:
            await self.placing.open((await self._experiment(new.parent_id)).project_id)
        workspace_id = await self._workspace_of(new.project_id)
        owner = TaskOwner(by.user_id, workspace_id)
        checked = await self._check(new.config, owner, new.template)
        blob, listing = await self._context(new)
        state = ExperimentState(
            id=self._store.next_id(tables.Experiment),
            job_id=self._ids.uuid(),
            owner_id=by.user_id,
            name=checked.config.name,
            config=checked.config,
            settings=checked.settings,
            searcher=checked.search.start(),
            created_at=self._clock.now(),
            phase=Phase.ACTIVE if new.activate else Phase.PAUSED,
        )

        def begin(state: ExperimentState, env: Env) -> ExperimentStep:
            first = machine.begin(state, env)
            row = UnitOfWork()
            row.insert(
                tables.Experiment, experiment_row(first.state, new, blob, listing, checked.origins)
            )
            return replace(first, rows=tuple(row.operations))

        live = LiveExperiment(
            self._parts, state, owner_name=by.name, workspace_id=workspace_id, search=checked.search
        )
        await live.create(begin, lambda: self.roots.register(live), by=by)
        await self._follow_project(live)
        return Created(
            experiment_id=state.id,
            config=checked.config,
            warnings=checked.warnings,
            config_warnings=checked.config_warnings,
        )

    async def _follow_project(self, live: LiveExperiment) -> None:
        """Its project may have moved while it was submitted: then nobody told it."""
        experiment, project = tables.Experiment, tables.Project
        before = live.workspace_id
        now = await self._store.read_one(
            select(project.workspace_id)
            .join(experiment, experiment.project_id == project.id)
            .where(experiment.id == live.id)
        )
        if now is not None and live.workspace_id == before:
            live.workspace_id = now

    async def _workspace_of(self, project_id: int) -> int:
        return (await self.placing.open(project_id)).workspace.id

    async def _context(self, new: NewExperiment) -> tuple[str | None, Listing]:
        """The blob of the model definition and what is in it. Raises NotFound for an unknown `blob_of`."""
        if new.files or new.blob_of is None:
            blob = await store_context(self._blobs, new.files, what="model definition")
            return blob, listing(new.files)
        row = await self._experiment(new.blob_of)
        if row.model_definition is not None:
            self._blobs.keep(row.model_definition)
        return row.model_definition, row.model_files

    async def continue_(
        self, experiment_id: int, override: str = "", *, by: Actor
    ) -> tuple[str, ...]:
        """See `Continuations`."""
        return await self.row_changes.run(
            lambda: self._continuations.continue_(experiment_id, override, by=by)
        )

    async def check_continuation(self, experiment_id: int, override: str = "") -> Continuation:
        """See `Continuations`."""
        return await self._continuations.check(experiment_id, override)

    async def activate(self, experiment_id: int, *, by: Actor) -> None:
        """Raises InvalidArgument for one that a config policy has come to forbid since it was paused."""
        live = self.roots.get(experiment_id)
        if live is not None and live.state.phase is Phase.PAUSED:
            await self._require_rules(live.workspace_id, live.state.settings)
        await self._apply(experiment_id, machine.activate, by, "activated")

    async def _require_rules(self, workspace_id: int, settings: RunSettings) -> None:
        await self._rules.require_experiment(
            workspace_id,
            slots=settings.slots_per_trial,
            priority=settings.priority,
            weight=settings.weight,
            max_slots=settings.max_slots,
        )

    async def pause(self, experiment_id: int, *, by: Actor) -> None:
        await self._apply(experiment_id, machine.pause, by, "paused")

    async def cancel(self, experiment_id: int, *, by: Actor) -> None:
        await self._apply(experiment_id, machine.cancel, by, "canceled", over_is_fine=True)

    async def kill(self, experiment_id: int, *, by: Actor) -> None:
        await self._apply(experiment_id, machine.kill, by, "killed", over_is_fine=True)

    async def kill_trial(self, trial_id: int, *, by: Actor) -> None:
        await self._apply_to_trial(trial_id, machine.kill_trial, by)

    async def stop_trial(self, trial_id: int, *, by: Actor) -> None:
        """End it gracefully, as one that its search has stopped. One that has ended stays as it is."""
        await self._apply_to_trial(trial_id, external.stop_trial, by)

    async def add_trial(self, experiment_id: int, added: TrialAdded, *, by: Actor) -> int:
        """Its id. See `external.add_trial`; raises InvalidArgument for a checkpoint that cannot be restored."""
        if added.checkpoint is not None:
            await self._warm_start.require(added.checkpoint, "parentCheckpoint")
        live = await self._live(experiment_id)
        state = await live.apply(partial(external.add_trial, added=added), by=by)
        return external.added_trial(state, added.key).id

    async def close_search(self, experiment_id: int, *, by: Actor) -> None:
        """See `external.close_search`."""
        live = await self._live(experiment_id)
        await live.apply_to_all(external.close_search, by=by)

    async def alert(self, experiment_id: int, trial_id: int | None, said: CustomFacts) -> None:
        """Call the webhooks that it names. Nobody listens to one that is over."""
        live = self.roots.get(experiment_id)
        if live is None:
            return
        source = webhook_source(live.config, live.workspace_id)
        calls = self._webhooks.alert(source, webhook_facts(live.state, trial_id), said)
        if calls.operations:
            await self._store.commit(calls)
            self._webhooks.wake()

    async def _apply_to_trial(self, trial_id: int, step: TrialStep, by: Actor) -> None:
        live = self.roots.of_trial(trial_id)
        if live is None:
            trial = tables.Trial
            if await self._store.read_one(select(trial.id).where(trial.id == trial_id)) is None:
                raise NotFound("trial", trial_id)
            return
        if live.state.unmanaged:
            raise managed_only(live.id, "killed")
        request_id = live.trials.request_id(trial_id)
        await live.apply(lambda state, env: step(state, env, request_id), by=by)

    async def _live(self, experiment_id: int) -> LiveExperiment:
        live = self.roots.get(experiment_id)
        if live is None:
            row = await self._experiment(experiment_id)
            raise InvalidState(already_ended(experiment_id, Phase(row.state)))
        return live

    async def _apply(
        self,
        experiment_id: int,
        step: PureStep,
        by: Actor,
        done: str,
        *,
        over_is_fine: bool = False,
    ) -> None:
        """`done`: what somebody wants it to be."""
        live = self.roots.get(experiment_id)
        if live is not None:
            if live.state.unmanaged:
                raise managed_only(experiment_id, done)
            await live.apply_to_all(step, by=by)
            return
        row = await self._experiment(experiment_id)
        if row.unmanaged:
            raise managed_only(experiment_id, done)
        if not over_is_fine:
            raise InvalidState(already_ended(experiment_id, Phase(row.state)))

    async def _experiment(self, experiment_id: int) -> tables.Experiment:
        found = await self._store.read_one(
            select(tables.Experiment).where(tables.Experiment.id == experiment_id)
        )
        if found is None:
            raise NotFound("experiment", experiment_id)
        return found

    def live(self, experiment_id: int) -> LiveExperiment | None:
        """The live root, None when the experiment is over or unknown."""
        return self.roots.get(experiment_id)

    def forget(self, experiment_id: int) -> None:
        """Of one that is over: from now on only its rows tell of it."""
        live = self.roots.get(experiment_id)
        if live is not None and (live.is_over or live.state.unmanaged):
            self.roots.forget(live)

    async def leave_memory(self, experiment_id: int) -> None:
        """As `forget`, and all that was said of it is written."""
        live = self.roots.get(experiment_id)
        self.forget(experiment_id)
        if live is not None:
            await live.apply(lambda state, env: ExperimentStep(state))

    def relocated(self, experiment_ids: Iterable[int], workspace_id: int) -> None:
        """That is committed."""
        for experiment_id in experiment_ids:
            if (live := self.roots.get(experiment_id)) is not None:
                live.workspace_id = workspace_id

    def live_of_trial(self, trial_id: int) -> LiveExperiment | None:
        return self.roots.of_trial(trial_id)

    def all_live(self) -> Sequence[LiveExperiment]:
        return tuple(self.roots)

    def waiting_reasons(self, trials: Iterable[TrialState]) -> dict[int, Reason]:
        """trial id -> why its allocation waits, for every trial that waits."""
        return waiting.waiting_reasons(trials, self._allocations.rm.explain)

    def first_waiting_reason(self, trials: Iterable[TrialState]) -> Reason | None:
        """Why the first trial that waits does."""
        return waiting.first_waiting_reason(trials, self._allocations.rm.explain)

    def waiting_reason(self, trial: TrialState) -> Reason | None:
        """None if it does not wait."""
        return waiting.waiting_reason(trial, self._allocations.rm.explain)

    async def restore(self) -> list[RestoreRecord]:
        """Rebuild everything that was not over; what the resource managers must know of it."""
        return self.roots.restore(await rebuild_all(self._parts))

    async def resume(self) -> None:
        """After the resource managers were given the records."""
        await self.roots.resume()
        for hint in await last_checkpoints(self._store):
            self._allocations.rm.hint(hint)


def _cluster_storage(policy: ClusterPolicy, cluster: ClusterTasks) -> dict[str, Any]:
    """The section of master.yaml, which is the same for all pools, with its secrets."""
    section = next((defaults.checkpoint_storage for defaults in policy.defaults.values()), {})
    return cluster.storage_secrets.resolved(section)
