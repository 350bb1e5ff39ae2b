"""One command that is not over: its state in memory, its mailbox, and the one way to change it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeAlias

from master.allocations.machine import AllocationState
from master.allocations.order_sync import OrderSync
from master.allocations.ports import AllocationStep
from master.allocations.service import AllocationService
from master.allocations.task_messages import TaskLog, tell_allocations
from master.core.jobs import JobChange, JobType
from master.jobs.ports import JobFacts
from master.store.mailbox import Mailbox
from master.store.store import Store
from master.tasks import machine
from master.tasks.machine import Step
from master.tasks.persistence import changes
from master.tasks.state import CommandState
from master.tasks.task_spec import CommandSpecs
from rm_backends.base import AllocationRequest, JobOrder, LaunchSpec
from windlass.base.clock import Clock

PureStep: TypeAlias = Callable[[CommandState, datetime], Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveParts:
    """What every live command shares."""

    store: Store
    clock: Clock
    allocations: AllocationService
    specs: CommandSpecs
    task_log: TaskLog


class LiveCommand:
    """The root of a command: one message at a time, pure step, one commit, swap, effects.

    Implements `master.allocations.ports.AllocationOwner` for its allocations, and `master.jobs.ports.JobRoot`.
    """

    def __init__(self, parts: LiveParts, state: CommandState, owner_name: str) -> None:
        self._parts = parts
        self.state = state
        self.owner_name = owner_name
        self._mailbox = Mailbox(f"command {state.id}")
        self._changed = asyncio.Condition()
        self._told = OrderSync(lambda: parts.allocations.rm, self.job_order())

    async def create(self, known: Callable[[], None]) -> None:
        """Write down a new command with its first allocation; `known` is called once that is committed.

        In the mailbox, like all that follows: a caller that goes away leaves either nothing or a living command.
        """

        async def handle() -> None:
            step = machine.launch(self.state, self._parts.clock.now())
            await self._parts.store.commit(changes(None, step.state))
            self.state = step.state
            known()
            await self._after_commit(None, step)

        await self._mailbox.run(handle)

    async def apply(self, step: PureStep) -> CommandState:
        """Run a pure step in the mailbox, commit it, make it the state, run its effects."""
        return await self._mailbox.run(lambda: self._handle(step))

    async def _handle(self, pure: PureStep) -> CommandState:
        old = self.state
        step = pure(old, self._parts.clock.now())
        uow = changes(old, step.state)
        if uow:
            await self._parts.store.commit(uow)
        self.state = step.state
        await self._after_commit(old, step)
        return self.state

    async def _after_commit(self, old: CommandState | None, step: Step) -> None:
        """A new allocation is known to the allocation service before anything is asked for it."""
        last = old.allocation if old is not None else None
        allocation = step.state.open_allocation
        if allocation is not None and allocation is not last:
            self._parts.allocations.adopt(allocation, self)
        name = step.state.config.description
        tell_allocations(self._parts.task_log, name, last, step.state.allocation)
        await self._parts.allocations.run_effects(step.effects)
        await self._sync_order()
        async with self._changed:
            self._changed.notify_all()

    async def wait_until(self, reached: Callable[[CommandState], bool]) -> CommandState:
        """Block until the state satisfies `reached`."""
        async with self._changed:
            await self._changed.wait_for(lambda: reached(self.state))
        return self.state

    # --- the job queue --------------------------------------------------------------------------------------------

    def job_order(self) -> JobOrder:
        """Without the configured max_slots: it holds its slots or none."""
        resources = self.state.config.resources
        return JobOrder(
            job_id=self.state.job_id,
            submitted=self.state.created_at,
            weight=resources.weight,
            priority=resources.priority,
            position=self.state.position,
        )

    def job_facts(self) -> JobFacts:
        state = self.state
        return JobFacts(
            job_id=state.job_id,
            type=JobType.COMMAND,
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

    async def change_job(self, change: JobChange) -> None:
        await self.apply(lambda state, now: Step(machine.change_job(state, change)))

    @property
    def has_unsynced_order(self) -> bool:
        """Its place in the queue has changed, and a resource manager could not be told."""
        return not self.state.is_over and self._told.differs(self.job_order())

    async def sync_order(self) -> None:
        """Try again to tell."""
        await self._mailbox.run(self._sync_order)

    async def _sync_order(self) -> None:
        """What fails is tried again by the service's `tick`."""
        if self.has_unsynced_order:
            await self._told.tell(self.job_order())

    # --- AllocationOwner ------------------------------------------------------------------------------------------

    def allocation(self, allocation_id: str) -> AllocationState | None:
        allocation = self.state.allocation
        return allocation if allocation is not None and allocation.id == allocation_id else None

    async def step_allocation(
        self, allocation_id: str, step: AllocationStep
    ) -> AllocationState | None:
        await self.apply(partial(machine.allocation_event, allocation_id=allocation_id, step=step))
        return self.allocation(allocation_id)

    def allocation_request(self, state: AllocationState) -> AllocationRequest:
        return AllocationRequest(
            allocation_id=state.id,
            task_id=state.task_id,
            name=self.state.config.description,
            pool=state.pool,
            slots=state.slots,
            job=self.job_order(),
            requested=state.requested_at,
            single_agent=True,
            preemptible=False,
        )

    def launch_spec(self, state: AllocationState, token: str) -> LaunchSpec:
        return self._parts.specs.command(self.state, self.owner_name, state, token)

    def owner_id(self, allocation_id: str) -> int:
        return self.state.owner_id
