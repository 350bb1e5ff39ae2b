"""Reads of tasks, their allocations and what they run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select

from master.core.visibility import Visibility
from master.store import tables
from master.store.store import Store
from master.store.visible import experiment_visible, task_visible
from windlass.base.errors import NotFound

AT_ONCE = 1_000
"""Values in one IN list: databases have a limit."""


class _TaskOfTrial(NamedTuple):
    trial_id: int | None
    task_id: str
    created_at: datetime


class _OwnRetention(NamedTuple):
    task_id: str
    days: int | None


class TaskQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def task(self, task_id: str, visible: Visibility) -> tables.Task:
        task = tables.Task
        row = await self._store.read_one(
            select(task).where(task.id == task_id, *task_visible(task.id, visible))
        )
        if row is None:
            raise NotFound("task", task_id)
        return row

    async def allocations(self, task_id: str) -> Sequence[tables.Allocation]:
        """Allocations of a task, newest first."""
        allocation = tables.Allocation
        return await self._store.read(
            select(allocation)
            .where(allocation.task_id == task_id)
            .order_by(allocation.run_id.desc())
        )

    async def allocation(self, allocation_id: str, visible: Visibility) -> tables.Allocation:
        """Of one that is over, too. Raises NotFound."""
        allocation = tables.Allocation
        here = (allocation.id == allocation_id, *task_visible(allocation.task_id, visible))
        row = await self._store.read_one(select(allocation).where(*here))
        if row is None:
            raise NotFound("allocation", allocation_id)
        return row

    async def accelerators(self, task_id: str) -> Sequence[tables.AllocationAccelerator]:
        """What the containers of its allocations said of themselves."""
        accelerator, allocation = tables.AllocationAccelerator, tables.Allocation
        return await self._store.read(
            select(accelerator)
            .join(allocation, allocation.id == accelerator.allocation_id)
            .where(allocation.task_id == task_id)
            .order_by(allocation.run_id, accelerator.container_id)
        )

    async def batch_jobs(self, task_id: str) -> Sequence[tables.BatchLease]:
        """Jobs at the site for its allocations, in the order in which they were to be submitted."""
        lease, allocation = tables.BatchLease, tables.Allocation
        rows = await self._store.read(
            select(lease)
            .join(allocation, allocation.id == lease.allocation_id)
            .where(allocation.task_id == task_id)
        )
        return sorted(rows, key=lambda row: float(row.document["created_at"]))

    async def task_of_trial(self, trial_id: int, visible: Visibility) -> str:
        """Its current task."""
        trial = tables.Trial
        here = (trial.id == trial_id, *experiment_visible(trial.experiment_id, visible))
        task_id = await self._store.read_one(select(trial.task_id).where(*here))
        if task_id is None:
            raise NotFound("trial", trial_id)
        return task_id

    async def tasks_of_trials(self, trial_ids: Sequence[int]) -> dict[int | None, list[str]]:
        """Trial -> its tasks, oldest first: each time that it is continued it becomes another one."""
        task = tables.Task
        found: dict[int | None, list[str]] = {}
        for start in range(0, len(trial_ids), AT_ONCE):
            rows = await self._store.read(
                select(task.trial_id, task.id, task.created_at)
                .where(task.trial_id.in_(trial_ids[start : start + AT_ONCE]))
                .order_by(task.created_at),
                _TaskOfTrial,
            )
            for row in rows:
                found.setdefault(row.trial_id, []).append(row.task_id)
        return found

    async def log_retention(self, task_ids: Sequence[str]) -> dict[str, int | None]:
        """Task -> its own setting; None: none."""
        task = tables.Task
        found: dict[str, int | None] = {}
        for start in range(0, len(task_ids), AT_ONCE):
            some = task.id.in_(task_ids[start : start + AT_ONCE])
            rows = await self._store.read(
                select(task.id, task.log_retention_days).where(some), _OwnRetention
            )
            found |= {row.task_id: row.days for row in rows}
        return found

    async def context_of_task(self, task_id: str, visible: Visibility) -> str | None:
        """The blob of the files that the task runs; None if it has none."""
        task, experiment, command = tables.Task, tables.Experiment, tables.Command
        found = await self._store.read(
            select(func.coalesce(experiment.model_definition, command.context))
            .select_from(task)
            .outerjoin(experiment, experiment.id == task.experiment_id)
            .outerjoin(command, command.id == task.id)
            .where(task.id == task_id, *task_visible(task.id, visible))
        )
        if not found:
            raise NotFound("task", task_id)
        return found[0]
