"""One experiment that is not over: its state in memory, its mailbox, and the one way to change it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from master.allocations.machine import AllocationState
from master.allocations.ports import AllocationStep
from master.allocations.service import AllocationService
from master.core.expconf import ExperimentConfig
from master.core.jobs import JobChange, JobType
from master.core.searcher.search import Search
from master.experiments import machine, resources
from master.experiments.admission import Admission
from master.experiments.persistence import changes
from master.experiments.scheduler_hints import SchedulerHints
from master.experiments.state import ExperimentState, TrialState, request_id_of
from master.experiments.step_builder import Env, Step
from master.experiments.task_messages import TaskMessages
from master.experiments.task_spec import TaskSpecs
from master.jobs.ports import JobFacts
from master.store import tables
from master.store.mailbox import Mailbox
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from rm_backends.base import AllocationRequest, JobOrder, LaunchSpec
from windlass.base.clock import Clock


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """A step, the config that is the experiment's with it, and rows for the same commit."""

    step: Step
    config: ExperimentConfig
    rows: UnitOfWork = field(default_factory=UnitOfWork)


PureStep: TypeAlias = Callable[[ExperimentState, Env], Step]
Prepared: TypeAlias = Callable[[ExperimentState, Env], Awaitable[tuple[Step, UnitOfWork]]]
Reconfiguration: TypeAlias = Callable[[ExperimentState, Env], Awaitable[Reconfigured]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveParts:
    """What every live experiment shares."""

    store: Store
    clock: Clock
    allocations: AllocationService
    admission: Admission
    specs: TaskSpecs
    task_messages: TaskMessages


class LiveExperiment:
    """The root of an experiment: one message at a time, pure step, one commit, swap, effects.

    Implements `master.allocations.ports.AllocationOwner` for its trials, and `master.jobs.ports.JobRoot`.
    """

    def __init__(
        self,
        parts: LiveParts,
        state: ExperimentState,
        config: ExperimentConfig,
        *,
        owner_name: str,
        workspace_id: int,
    ) -> None:
        self._parts = parts
        self.state = state
        self.config = config
        self.owner_name = owner_name
        self.workspace_id = workspace_id
        self.search = search_of(config)
        self.hints = SchedulerHints(lambda: parts.allocations.rm, state)
        self._mailbox = Mailbox()
        self._changed = asyncio.Condition()

    def env(self) -> Env:
        store = self._parts.store
        return Env(
            now=self._parts.clock.now(),
            search=self.search,
            next_trial_id=lambda: store.next_id(tables.Trial),
        )

    async def create(self, step: Step, rows: UnitOfWork, known: Callable[[], None]) -> None:
        """Write down a new experiment as its first step leaves it; `known` is called once that is committed.

        In the mailbox, like all that follows: a caller that goes away leaves either nothing or a living experiment.
        """

        async def handle() -> None:
            rows.extend(changes(None, step, self._parts.clock.now()))
            await self._parts.store.commit(rows)
            self.state = step.state
            known()
            await self._after_commit(None, step)

        await self._mailbox.run(handle)

    async def apply(self, step: PureStep) -> ExperimentState:
        """Run a pure step in the mailbox, commit it, make it the state, run its effects."""

        async def prepared(state: ExperimentState, env: Env) -> tuple[Step, UnitOfWork]:
            return step(state, env), UnitOfWork()

        return await self.transact(prepared)

    async def transact(self, prepare: Prepared) -> ExperimentState:
        """Like `apply`, for steps that read the store first or write rows of their own in the same commit."""
        return await self._mailbox.run(lambda: self._handle(prepare))

    async def _handle(self, prepare: Prepared) -> ExperimentState:
        env = self.env()
        step, uow = await prepare(self.state, env)
        await self._commit(env, step, uow)
        return self.state

    async def reconfigure(self, prepare: Reconfiguration) -> None:
        """Like `transact`, for steps that change the config too. `prepare` sees the one that counts."""

        async def handle() -> None:
            env = self.env()
            new = await prepare(self.state, env)
            await self._commit(env, new.step, new.rows, new.config)

        await self._mailbox.run(handle)

    async def _commit(
        self, env: Env, step: Step, uow: UnitOfWork, config: ExperimentConfig | None = None
    ) -> None:
        old = self.state
        uow.extend(changes(old, step, env.now))
        if config is not None and config != self.config:
            uow.update(tables.Experiment, {"id": old.id}, {"config": config.to_json()}, expect=1)
        if uow:
            await self._parts.store.commit(uow)
        self.state = step.state
        self.config = config or self.config
        await self._after_commit(old, step)

    async def _after_commit(self, old: ExperimentState | None, step: Step) -> None:
        """New allocations are known to the allocation service before anything is asked for them."""
        for request_id, trial in step.state.trials.items():
            allocation = trial.open_allocation
            before = old.trials.get(request_id) if old is not None else None
            if allocation is not None and (before is None or before.allocation is not allocation):
                self._parts.allocations.adopt(allocation, self)
            if allocation is None and before is not None and before.open_allocation is not None:
                self.hints.allocation_ended(trial)
        self._parts.task_messages.tell(old, step)
        await self._parts.allocations.run_effects(step.effects)
        await self.hints.sync_order(step.state)
        async with self._changed:
            self._changed.notify_all()

    async def wait_until(self, reached: Callable[[ExperimentState], bool]) -> ExperimentState:
        """Block until the state satisfies `reached`."""
        async with self._changed:
            await self._changed.wait_for(lambda: reached(self.state))
        return self.state

    # --- AllocationOwner ------------------------------------------------------------------------------------------

    def allocation(self, allocation_id: str) -> AllocationState | None:
        trial = self.state.trials.get(request_id_of(allocation_id))
        allocation = trial.allocation if trial is not None else None
        return allocation if allocation is not None and allocation.id == allocation_id else None

    async def step_allocation(
        self, allocation_id: str, step: AllocationStep
    ) -> AllocationState | None:
        def pure(state: ExperimentState, env: Env) -> Step:
            try:
                return machine.allocation_event(state, env, allocation_id, step)
            except KeyError:  # that allocation is history: a later one took its place
                return Step(state)

        await self.apply(pure)
        return self.allocation(allocation_id)

    def allocation_request(self, state: AllocationState) -> AllocationRequest:
        settings = self.state.settings
        trial = self.trial_of(state)
        return AllocationRequest(
            allocation_id=state.id,
            task_id=state.task_id,
            name=f"Trial {trial.id} (Experiment {self.state.id})",
            pool=state.pool,
            slots=state.slots,
            job=self.job_order(),
            requested=state.requested_at,
            single_agent=settings.single_node,
            preemptible=state.preemptible,
        )

    def launch_spec(self, state: AllocationState, token: str) -> LaunchSpec:
        return self._parts.specs.trial(self, self.trial_of(state), state, token)

    def owner_id(self, allocation_id: str) -> int:
        return self.state.owner_id

    def trial_of(self, state: AllocationState) -> TrialState:
        return self.state.trials[request_id_of(state.id)]

    # --- JobRoot --------------------------------------------------------------------------------------------------

    def job_facts(self) -> JobFacts:
        state = self.state
        return JobFacts(
            job_id=state.job_id,
            type=JobType.EXPERIMENT,
            entity_id=str(state.id),
            name=state.name,
            owner_id=state.owner_id,
            owner_name=self.owner_name,
            workspace_id=self.workspace_id,
            pool=state.settings.pool,
            order=self.job_order(),
            progress=state.progress,
            last_release=state.last_release,
        )

    def job_order(self) -> JobOrder:
        return self.hints.order_of(self.state)

    def waiting_allocations(self) -> Sequence[str]:
        allocations = (trial.open_allocation for trial in self.state.trials.values())
        waiting = [
            allocation
            for allocation in allocations
            if allocation is not None and not allocation.has_slots
        ]
        return [
            allocation.id
            for allocation in sorted(
                waiting, key=lambda allocation: (allocation.requested_at, allocation.id)
            )
        ]

    async def change_job(self, change: JobChange) -> None:
        async def prepare(state: ExperimentState, env: Env) -> Reconfigured:
            step = resources.change(state, env, change)
            settings = step.state.settings
            if settings is state.settings:
                return Reconfigured(step, self.config)
            if settings.pool != state.settings.pool:
                self._parts.admission.check_pool(settings)
            return Reconfigured(step, resources.with_settings(self.config, settings))

        await self.reconfigure(prepare)

    @property
    def has_unsynced_order(self) -> bool:
        """Its place in the queue has changed, and resource managers could not be told."""
        return self.hints.has_order(self.state)

    async def sync_order(self) -> None:
        """Try again to tell."""
        await self._mailbox.run(lambda: self.hints.sync_order(self.state))


def search_of(config: ExperimentConfig) -> Search:
    document = config.to_json()
    return Search.from_config(
        document["searcher"],
        document["hyperparameters"],
        document["reproducibility"]["experiment_seed"],
    )
