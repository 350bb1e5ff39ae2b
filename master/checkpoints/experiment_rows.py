"""Taking every row of an experiment or a trial out of the store, some at a time: nobody's commit waits for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import ColumnElement, SQLColumnExpression, delete, select

from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import Table, UnitOfWork

ROWS_AT_ONCE = 2_000
TRIALS_AT_ONCE = 100

_T, _K, _A, _X, _M, _C, _N, _S, _F, _W = (
    tables.Trial,
    tables.Task,
    tables.Allocation,
    tables.AllocationAccelerator,
    tables.Metric,
    tables.Checkpoint,
    tables.Command,
    tables.SearcherEvent,
    tables.TrialSource,
    tables.ShownExperiment,
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
        await self._remove_checkpoints(_C.experiment_id == experiment_id)
        await self._remove_search(experiment_id)
        uow = _of_tasks(tasks)
        for table in (tables.SearcherSnapshot, tables.CheckpointGc):
            uow.delete(table, {"experiment_id": experiment_id})
        uow.delete(tables.ShownExperiment, {"experiment_id": experiment_id})
        uow.delete(tables.Experiment, {"id": experiment_id})
        await self._store.commit(uow)

    async def remove_tasks(self, task_ids: Sequence[str]) -> None:
        """Ended tasks with their logs and allocations."""
        await self._logs.delete(task_ids)
        await self._store.commit(_of_tasks(task_ids))

    async def remove_trials(self, trials: Sequence[int]) -> None:
        """With their tasks, logs, metrics and checkpoints. Those that are gone already count as removed."""
        await self._remove_some(_M, _M.id, _M.trial_id.in_(trials))
        await self._remove_sources(_F.trial_id.in_(trials))
        await self._remove_checkpoints(_C.trial_id.in_(trials))
        tasks = await self._store.read(select(_K.id).where(_K.trial_id.in_(trials)))
        await self._logs.delete(tasks)
        uow = _of_tasks(tasks)
        uow.execute(delete(_T).where(_T.id.in_(trials)))
        await self._store.commit(uow)

    async def _remove_checkpoints(self, of: ColumnElement[bool]) -> None:
        await self._remove_sources(_F.checkpoint_uuid.in_(select(_C.uuid).where(of)))
        await self._remove_some(_C, _C.uuid, of)

    async def _remove_sources(self, of: ColumnElement[bool]) -> None:
        """Which trials began from which checkpoints."""
        uow = UnitOfWork()
        uow.execute(delete(_F).where(of))
        await self._store.commit(uow)

    async def _remove_search(self, experiment_id: int) -> None:
        """Its newest events first: what is left of them can be replayed."""
        while found := await self._store.read(
            select(_S.seq)
            .where(_S.experiment_id == experiment_id)
            .order_by(_S.seq.desc())
            .limit(ROWS_AT_ONCE)
        ):
            uow = UnitOfWork()
            uow.execute(delete(_S).where(_S.experiment_id == experiment_id, _S.seq >= found[-1]))
            await self._store.commit(uow)

    async def _remove_some(
        self, table: Table, key: SQLColumnExpression[Any], of: ColumnElement[bool]
    ) -> None:
        """`key`: the table's primary key."""
        while found := await self._store.read(select(key).where(of).limit(ROWS_AT_ONCE)):
            uow = UnitOfWork()
            uow.execute(delete(table).where(key.in_(found)))
            await self._store.commit(uow)


def _of_tasks(tasks: Sequence[str]) -> UnitOfWork:
    """The tasks with their allocations."""
    uow = UnitOfWork()
    allocations = select(_A.id).where(_A.task_id.in_(tasks))
    uow.execute(delete(_X).where(_X.allocation_id.in_(allocations)))
    uow.execute(delete(_A).where(_A.task_id.in_(tasks)))
    uow.execute(delete(_W).where(_W.task_id.in_(tasks)))
    uow.execute(delete(_N).where(_N.id.in_(tasks)))
    uow.execute(delete(_K).where(_K.id.in_(tasks)))
    return uow
