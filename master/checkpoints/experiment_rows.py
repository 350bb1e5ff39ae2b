"""Taking every row of an experiment or a trial out of the store, some at a time: nobody's commit waits for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import delete, select

from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork

METRICS_AT_ONCE = 2_000
TRIALS_AT_ONCE = 100

_T, _K, _A, _X, _M, _C, _N = (
    tables.Trial,
    tables.Task,
    tables.Allocation,
    tables.AllocationAccelerator,
    tables.Metric,
    tables.Checkpoint,
    tables.Command,
)


class TaskLogs(Protocol):
    async def delete(self, task_ids: Sequence[str], /) -> int:
        """Delete all lines of ended tasks; how many there were."""
        ...


class ExperimentRows:
    """May be called again after a crash at any line: what is gone is gone, the experiment's own row goes last."""

    def __init__(self, store: Store, logs: TaskLogs) -> None:
        self._store = store
        self._logs = logs

    async def remove(self, experiment_id: int) -> None:
        """Logs, metrics, checkpoints, trials, the search, and the experiment with all that was to be deleted of it."""
        while trials := await self._store.read(
            select(_T.id).where(_T.experiment_id == experiment_id).limit(TRIALS_AT_ONCE)
        ):
            await self.remove_trials(trials)
        tasks = await self._store.read(select(_K.id).where(_K.experiment_id == experiment_id))
        await self._logs.delete(tasks)
        uow = _of_tasks(tasks)
        for table in (
            tables.Checkpoint,
            tables.SearcherEvent,
            tables.SearcherSnapshot,
            tables.CheckpointGc,
        ):
            uow.delete(table, {"experiment_id": experiment_id})
        uow.delete(tables.Experiment, {"id": experiment_id})
        await self._store.commit(uow)

    async def remove_tasks(self, task_ids: Sequence[str]) -> None:
        """Ended tasks with their logs and allocations."""
        await self._logs.delete(task_ids)
        await self._store.commit(_of_tasks(task_ids))

    async def remove_trials(self, trials: Sequence[int]) -> None:
        """With their tasks, logs, metrics and checkpoints. Those that are gone already count as removed."""
        while metrics := await self._store.read(
            select(_M.id).where(_M.trial_id.in_(trials)).limit(METRICS_AT_ONCE)
        ):
            uow = UnitOfWork()
            uow.execute(delete(_M).where(_M.id.in_(metrics)))
            await self._store.commit(uow)
        tasks = await self._store.read(select(_K.id).where(_K.trial_id.in_(trials)))
        await self._logs.delete(tasks)
        uow = _of_tasks(tasks)
        uow.execute(delete(_C).where(_C.trial_id.in_(trials)))
        uow.execute(delete(_T).where(_T.id.in_(trials)))
        await self._store.commit(uow)


def _of_tasks(tasks: Sequence[str]) -> UnitOfWork:
    """The tasks with their allocations."""
    uow = UnitOfWork()
    allocations = select(_A.id).where(_A.task_id.in_(tasks))
    uow.execute(delete(_X).where(_X.allocation_id.in_(allocations)))
    uow.execute(delete(_A).where(_A.task_id.in_(tasks)))
    uow.execute(delete(_N).where(_N.id.in_(tasks)))
    uow.execute(delete(_K).where(_K.id.in_(tasks)))
    return uow
