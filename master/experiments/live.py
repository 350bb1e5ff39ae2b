"""One experiment that is not over: its state in memory, its job, and the owner of its trials' allocations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from agent_bootstrap.container_options import ProxyPort
from agent_bootstrap.protocol import RegistryCredentials
from master.allocations.cluster_tasks import proxied_ports
from master.allocations.identities import TaskOwner
from master.allocations.machine import AllocationState, fell_back
from master.allocations.ports import AllocationStep
from master.allocations.service import AllocationService
from master.allocations.task_messages import TaskLogWriter
from master.allocations.unique_ports import TRIAL_PORTS
from master.core.actor import Actor
from master.core.expconf import ExperimentConfig
from master.core.jobs import JobChange, JobType
from master.core.searcher.search import Search
from master.experiments.event_log import TrialErrors, log_committed
from master.experiments.lifecycle import machine, resources, unmanaged
from master.experiments.lifecycle.clock_jumps import clock_jumped
from master.experiments.lifecycle.deadlines import Deadlines
from master.experiments.lifecycle.persistence import changes
from master.experiments.lifecycle.scheduler_hints import SchedulerHints
from master.experiments.lifecycle.state import ExperimentState, TrialState, request_id_of
from master.experiments.lifecycle.step_builder import Env, ExperimentStep
from master.experiments.reports.log_policies import LogPolicySearch
from master.experiments.submission.admission import Admission, search_of
from master.experiments.task_spec import TaskSpecs
from master.experiments.webhooks import webhook_facts, webhook_source
from master.jobs.ports import JobFacts
from master.roots.root import AllocationChange, Root, Transition
from master.roots.task_messages import TaskMessages
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.webhooks.registry import WebhookRegistry
from rm_backends.base import AllocationRequest, JobOrder, LaunchSpec
from windlass.base.clock import Clock


class TrialIndex:
    """Of one experiment."""

    def __init__(self, trials: Iterable[TrialState] = ()) -> None:
        self._request_ids: dict[int, str] = {}
        self._waiting: dict[str, None] = {}
        """Request ids of those without a running allocation, the longest waiting first."""
        for trial in trials:
            self.note(trial)

    def note(self, trial: TrialState) -> None:
        """The trial is new, or has changed."""
        self._request_ids[trial.id] = trial.request_id
        if _waits(trial):
            self._waiting[trial.request_id] = None
        else:
            self._waiting.pop(trial.request_id, None)

    def request_id(self, trial_id: int) -> str:
        """Raises KeyError."""
        return self._request_ids[trial_id]

    def trial_ids(self) -> Iterable[int]:
        return self._request_ids.keys()

    def waiting(self, trials: Mapping[str, TrialState]) -> Iterator[TrialState]:
        """Those whose allocation has not started, or that sit out a pause before the next."""
        return (trials[request_id] for request_id in self._waiting)

    def waiting_allocations(self, trials: Mapping[str, TrialState]) -> list[AllocationState]:
        """Those without slots, oldest first."""
        allocations = (trial.open_allocation for trial in self.waiting(trials))
        found = [a for a in allocations if a is not None and not a.has_slots]
        return sorted(found, key=lambda allocation: (allocation.requested_at, allocation.id))


def _waits(trial: TrialState) -> bool:
    allocation = trial.open_allocation
    if allocation is not None:
        return allocation.started_at is None
    return trial.not_before is not None or (
        (trial.awaits_point or trial.awaits_turn) and not trial.phase.is_terminal
    )


MANY_TRIALS = 200
"""With more that have not ended, a step over all of them may take longer than the event loop can spare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveParts:
    """What every live experiment shares."""

    store: Store
    clock: Clock
    allocations: AllocationService
    admission: Admission
    specs: TaskSpecs
    task_log: TaskLogWriter
    max_lost_runs: int
    ended: Callable[[], None] = lambda: None
    """Called after the end of each is committed."""
    awaits_points: Callable[[], None] = lambda: None
    """Called when trials wait for a sampler."""
    webhooks: WebhookRegistry | None = None
    """Those that are called when an experiment changes."""


class LiveExperiment(Root[ExperimentState, Env, ExperimentStep]):
    """The root of an experiment."""

    def __init__(
        self,
        parts: LiveParts,
        state: ExperimentState,
        *,
        owner_name: str,
        workspace_id: int,
        search: Search | None = None,
    ) -> None:
        """`search`: that of the state's configuration, if it is at hand."""
        self._parts = parts
        self._hints = SchedulerHints(lambda: parts.allocations.rm, parts.clock, state)
        super().__init__(
            state,
            name=f"experiment {state.id}",
            order=self._hints.order_of(state),
            store=parts.store,
            allocations=parts.allocations,
        )
        self.owner_name = owner_name
        self.workspace_id = workspace_id
        self.search = search or search_of(state.config)
        self.touched_at: datetime | None = None
        """When somebody last asked for it, if it is unmanaged and had ended."""
        self.log_policies = LogPolicySearch(state.config.log_policies)
        self.trials = TrialIndex(state.trials.values())
        self._deadlines = Deadlines(state.trials.values())
        self.subscribe(self._note_trials)
        self.subscribe(self._wake_webhooks)
        self.subscribe(TaskMessages(parts.task_log, self).committed)
        self.subscribe(TrialErrors(parts.task_log).committed)
        self.subscribe(self._hints.committed)
        self.subscribe(log_committed)

    @property
    def id(self) -> int:
        return self.state.id

    @property
    def job_id(self) -> str:
        return self.state.job_id

    @property
    def owner(self) -> TaskOwner:
        return TaskOwner(self.state.owner_id, self.workspace_id)

    @property
    def ended_at(self) -> datetime | None:
        return self.state.ended_at

    @property
    def quiet_since(self) -> datetime | None:
        if self.ended_at is None or self.touched_at is None:
            return self.ended_at
        return max(self.ended_at, self.touched_at)

    @property
    def config(self) -> ExperimentConfig:
        return self.state.config

    def env(self) -> Env:
        store = self._parts.store
        return Env(
            now=self._parts.clock.now(),
            search=self.search,
            next_trial_id=lambda: store.next_id(tables.Trial),
            next_metric_id=lambda: store.next_id(tables.Metric),
            max_lost_runs=self._parts.max_lost_runs,
        )

    def rows(
        self, transitions: Sequence[Transition[ExperimentState, ExperimentStep]]
    ) -> UnitOfWork:
        uow = changes(transitions)
        if (webhooks := self._parts.webhooks) is not None:
            for transition in transitions:
                old, new = transition.before, transition.step.state
                if old is not None and old.phase is not new.phase:
                    source = webhook_source(new.config, self.workspace_id)
                    uow.extend(webhooks.state_changed(source, webhook_facts(new)))
        return uow

    def changed_allocations(
        self, transition: Transition[ExperimentState, ExperimentStep]
    ) -> Iterator[AllocationChange]:
        for change in transition.step.trials:
            yield from change.allocations()

    def open_allocations(self) -> Iterable[AllocationState]:
        found = (trial.open_allocation for trial in self.state.trials.values())
        return [allocation for allocation in found if allocation is not None]

    async def apply_to_all(
        self, step: Callable[[ExperimentState, Env], ExperimentStep], *, by: Actor | None = None
    ) -> None:
        """Apply a step that looks at every trial."""
        await self.apply(step, by=by, large=self.state.open_trials > MANY_TRIALS)

    async def settle(self) -> None:
        await self.apply_to_all(machine.settle)

    def resumed(self) -> None:
        self._hints.restarted(self.state)

    async def clock_jumped(self, by: timedelta) -> None:
        if self.state.open_trials:
            await self.apply_to_all(partial(clock_jumped, by=by))

    async def keep_deadlines(self, now: datetime) -> None:
        if due := self._deadlines.due(now):
            ticked = unmanaged.fell_silent if self.state.unmanaged else machine.clock_ticked
            await self.apply(partial(ticked, due=due))
            self._deadlines.done(due)

    def _wake_webhooks(self, transition: Transition[ExperimentState, ExperimentStep]) -> None:
        old, webhooks = transition.before, self._parts.webhooks
        if (
            webhooks is not None
            and old is not None
            and old.phase is not transition.step.state.phase
        ):
            webhooks.wake()

    def _note_trials(self, transition: Transition[ExperimentState, ExperimentStep]) -> None:
        for change in transition.step.trials:
            self.trials.note(change.after)
            self._deadlines.note(change.after)
        if any(change.after.awaits_point for change in transition.step.trials):
            self._parts.awaits_points()
        if transition.step.state.ended_at is not None:
            self._parts.ended()

    def trial(self, trial_id: int) -> TrialState:
        """Raises KeyError."""
        return self.state.trials[self.trials.request_id(trial_id)]

    def trial_of(self, state: AllocationState) -> TrialState:
        return self.state.trials[request_id_of(state.id)]

    def waiting_trials(self) -> Iterator[TrialState]:
        """Those whose allocation has not started, or that sit out a pause before the next."""
        return self.trials.waiting(self.state.trials)

    def allocation(self, allocation_id: str) -> AllocationState | None:
        trial = self.state.trials.get(request_id_of(allocation_id))
        allocation = trial.allocation if trial is not None else None
        return allocation if allocation is not None and allocation.id == allocation_id else None

    async def step_allocation(
        self, allocation_id: str, step: AllocationStep
    ) -> AllocationState | None:
        def pure(state: ExperimentState, env: Env) -> ExperimentStep:
            try:
                return machine.allocation_event(state, env, allocation_id, step)
            except KeyError:  # that allocation is history: a later one took its place
                return ExperimentStep(state)

        await self.apply(pure)
        return self.allocation(allocation_id)

    def task_name(self, allocation: AllocationState) -> str:
        return f"Trial {self.trial_of(allocation).id} (Experiment {self.state.id})"

    def allocation_request(self, state: AllocationState) -> AllocationRequest:
        return AllocationRequest(
            allocation_id=state.id,
            task_id=state.task_id,
            name=self.task_name(state),
            pool=state.current_pool,
            slots=state.slots,
            job=self.job_order(),
            requested=state.requested_at,
            single_agent=self.state.settings.single_node,
            blocked_agents=frozenset(self.trial_of(state).avoids),
            requires=self.state.settings.requires,
            batch=self.state.settings.batch,
            user=self.owner_name,
            os_user=self._parts.specs.cluster.linked_user(self.owner),
            preemptible=state.preemptible,
            preemption_timeout_s=state.preemption_timeout_s,
            leave_took_s=state.leave_took_s,
            fell_back=fell_back(state),
        )

    def launch_spec(self, state: AllocationState, token: str) -> LaunchSpec:
        return self._parts.specs.trial(
            self.state,
            self.trial_of(state),
            state,
            owner=self.owner,
            owner_name=self.owner_name,
            token=token,
        )

    def registry_login(self, state: AllocationState) -> RegistryCredentials | None:
        return self._parts.specs.cluster.registry_login(self.config, state.pool)

    def unique_ports(self) -> Mapping[str, int]:
        return TRIAL_PORTS

    def proxied_ports(self, state: AllocationState) -> Mapping[str, ProxyPort]:
        return proxied_ports(self.config)

    async def note_listening(self, allocation_id: str) -> None:
        """Trials may always be asked to leave, from when they have met."""

    def note_activity(self) -> None:
        """Trials do not end for want of it."""

    def owner_id(self, allocation_id: str) -> int:
        return self.state.owner_id

    @property
    def experiment_id(self) -> int | None:
        return self.state.id

    def job_order(self) -> JobOrder:
        return self._hints.order_of(self.state)

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

    def waiting_allocations(self) -> Sequence[str]:
        return [a.id for a in self.trials.waiting_allocations(self.state.trials)]

    async def change_job(self, change: JobChange, *, by: Actor) -> None:
        def pure(state: ExperimentState, env: Env) -> ExperimentStep:
            step = resources.change(state, env, change)
            if step.state.settings.pool != state.settings.pool:
                self._parts.admission.check_pool(step.state.settings)
            return step

        await self.apply_to_all(pure, by=by)
