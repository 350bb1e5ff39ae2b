"""One interactive task that is not over: its state in memory, its job, and the owner of its allocations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from agent_bootstrap.container_options import ProxyPort
from agent_bootstrap.protocol import RegistryCredentials
from master.allocations.batch import batch_options
from master.allocations.clock_jumps import since
from master.allocations.cluster_tasks import proxied_ports
from master.allocations.machine import AllocationState, fell_back, made_preemptible
from master.allocations.ports import AllocationStep
from master.allocations.service import AllocationService
from master.allocations.task_messages import TaskLogWriter
from master.core.actor import Actor
from master.core.jobs import JobChange
from master.jobs.ports import JobFacts
from master.roots.root import AllocationChange, Root, Transition
from master.roots.task_messages import TaskMessages
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.tasks import machine
from master.tasks.launch_specs import LaunchSpecs, own_services
from master.tasks.machine import TaskStep
from master.tasks.persistence import changed_allocation, changes
from master.tasks.state import TaskState
from rm_backends.base import AllocationRequest, JobOrder, LaunchSpec
from windlass.base.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveParts:
    """What every live task shares."""

    store: Store
    clock: Clock
    allocations: AllocationService
    specs: LaunchSpecs
    task_log: TaskLogWriter


class LiveTask(Root[TaskState, datetime, TaskStep]):
    """The root of an interactive task."""

    def __init__(self, parts: LiveParts, state: TaskState, owner_name: str) -> None:
        super().__init__(
            state,
            name=state.name,
            order=job_order(state),
            store=parts.store,
            allocations=parts.allocations,
        )
        self._parts = parts
        self.owner_name = owner_name
        self._active_at: datetime | None = None
        """The last activity that this master saw."""
        self.subscribe(TaskMessages(parts.task_log, self).committed)

    @property
    def id(self) -> str:
        return self.state.id

    @property
    def job_id(self) -> str:
        return self.state.job_id

    @property
    def ended_at(self) -> datetime | None:
        return self.state.ended_at

    @property
    def current(self) -> TaskState:
        """Its state with activity that is not written down yet."""
        return machine.with_activity(self.state, self._active_at)

    def env(self) -> datetime:
        return self._parts.clock.now()

    def rows(self, transitions: Sequence[Transition[TaskState, TaskStep]]) -> UnitOfWork:
        uow = UnitOfWork()
        for transition in transitions:
            uow.extend(changes(transition.before, transition.step.state))
        return uow

    def changed_allocations(
        self, transition: Transition[TaskState, TaskStep]
    ) -> Iterable[AllocationChange]:
        change = changed_allocation(transition.before, transition.step.state)
        return () if change is None else (change,)

    def open_allocations(self) -> Iterable[AllocationState]:
        allocation = self.state.open_allocation
        return () if allocation is None else (allocation,)

    async def settle(self) -> None:
        await self.apply(machine.settle)

    async def clock_jumped(self, by: timedelta) -> None:
        await self.apply(partial(machine.clock_jumped, by=by))
        self._active_at = since(self._active_at, by, self._parts.clock.now())

    async def keep_deadlines(self, now: datetime) -> None:
        due = machine.next_deadline(self.state)
        is_due = due is not None and due <= now
        if is_due or machine.is_activity_due(self.state, self._active_at):
            await self.apply(
                lambda state, now: machine.clock_ticked(state, now, active_at=self._active_at)
            )

    def note_activity(self) -> None:
        """Somebody uses it. Cheap enough for each request: written down now and then, by `keep_deadlines`."""
        self._active_at = self._parts.clock.now()

    def allocation(self, allocation_id: str) -> AllocationState | None:
        allocation = self.state.allocation
        return allocation if allocation is not None and allocation.id == allocation_id else None

    async def step_allocation(
        self, allocation_id: str, step: AllocationStep
    ) -> AllocationState | None:
        await self.apply(partial(machine.allocation_event, allocation_id=allocation_id, step=step))
        return self.allocation(allocation_id)

    def task_name(self, allocation: AllocationState) -> str:
        return self.state.config.description

    def allocation_request(self, state: AllocationState) -> AllocationRequest:
        return AllocationRequest(
            allocation_id=state.id,
            task_id=state.task_id,
            name=self.task_name(state),
            pool=state.current_pool,
            slots=state.slots,
            job=self.job_order(),
            requested=state.requested_at,
            single_agent=self.state.config.resources.is_single_node,
            preemptible=self.state.may_leave,
            preemption_timeout_s=state.preemption_timeout_s,
            requires=self.state.config.resources.requirements(),
            batch=batch_options(self.state.config.slurm, self.state.config.pbs),
            user=self.owner_name,
            os_user=self._parts.specs.cluster.linked_user(self.state.owner),
            launches_machines=self.state.kind.launches_machines,
            fell_back=fell_back(state),
        )

    def launch_spec(self, state: AllocationState, token: str) -> LaunchSpec:
        return self._parts.specs.spec(self.state, self.owner_name, state, token)

    def registry_login(self, state: AllocationState) -> RegistryCredentials | None:
        return self._parts.specs.cluster.registry_login(self.state.config, state.pool)

    def unique_ports(self) -> Mapping[str, int]:
        return self.state.kind.unique_ports()

    def proxied_ports(self, state: AllocationState) -> Mapping[str, ProxyPort]:
        own = own_services(self.state, state)
        return {**proxied_ports(self.state.config), **({"": own[0]} if own else {})}

    async def note_listening(self, allocation_id: str) -> None:
        """From now on what may leave is asked to, where it would have been killed."""
        allocation = self.allocation(allocation_id)
        if self.state.may_leave and allocation is not None and not allocation.preemptible:
            await self.step_allocation(allocation_id, lambda s: (made_preemptible(s), ()))

    def owner_id(self, allocation_id: str) -> int:
        return self.state.owner_id

    @property
    def experiment_id(self) -> int | None:
        return self.state.experiment_id

    def job_order(self) -> JobOrder:
        return job_order(self.state)

    def job_facts(self) -> JobFacts:
        state = self.state
        return JobFacts(
            job_id=state.job_id,
            type=state.type,
            entity_id=state.id,
            name=state.config.description,
            owner_id=state.owner_id,
            owner_name=self.owner_name,
            workspace_id=state.workspace_id,
            pool=state.pool,
            order=self.job_order(),
        )

    def waiting_allocations(self) -> Sequence[str]:
        """Ids of its allocations that have no slots yet."""
        allocation = self.state.open_allocation
        return () if allocation is None or allocation.has_slots else (allocation.id,)

    async def change_job(self, change: JobChange, *, by: Actor) -> None:
        await self.apply(lambda state, now: TaskStep(machine.change_job(state, change)), by=by)


def job_order(state: TaskState) -> JobOrder:
    """Without the configured max_slots: it holds its slots or none."""
    resources = state.config.resources
    return JobOrder(
        job_id=state.job_id,
        submitted=state.created_at,
        weight=resources.weight,
        priority=resources.priority,
        position=state.position,
    )
