"""Reads of tasks, their allocations and what they run."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlmodel import col

from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Row
from master.store.statements import table_of
from master.store.store import Store
from master.store.visible import experiment_visible, task_visible
from windlass.base.errors import NotFound


class TaskQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def task(self, task_id: str, visible: Visibility) -> Row:
        row = await self._store.row(
            select(table_of(tables.Task)).where(
                col(tables.Task.id) == task_id, *task_visible(col(tables.Task.id), visible)
            )
        )
        if row is None:
            raise NotFound("task", task_id)
        return row

    async def allocations(self, task_id: str) -> Sequence[Row]:
        """Allocations of a task, newest first."""
        allocation = tables.Allocation
        return await self._store.rows(
            select(table_of(allocation))
            .where(col(allocation.task_id) == task_id)
            .order_by(col(allocation.run_id).desc())
        )

    async def task_of_trial(self, trial_id: int, visible: Visibility) -> str:
        """Its current task."""
        row = await self._store.row(
            select(col(tables.Trial.task_id)).where(
                col(tables.Trial.id) == trial_id,
                *experiment_visible(col(tables.Trial.experiment_id), visible),
            )
        )
        if row is None:
            raise NotFound("trial", trial_id)
        return str(row["task_id"])

    async def context_of_task(self, task_id: str, visible: Visibility) -> str | None:
        """The blob of the files that the task runs; None if it has none."""
        task, experiment, command = tables.Task, tables.Experiment, tables.Command
        row = await self._store.row(
            select(
                func.coalesce(col(experiment.model_definition), col(command.context)).label("blob")
            )
            .select_from(table_of(task))
            .outerjoin(experiment, col(experiment.id) == col(task.experiment_id))
            .outerjoin(command, col(command.id) == col(task.id))
            .where(col(task.id) == task_id, *task_visible(col(task.id), visible))
        )
        if row is None:
            raise NotFound("task", task_id)
        return None if row["blob"] is None else str(row["blob"])
