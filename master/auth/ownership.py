"""Whose a stored thing is, for the rules. What lives is asked of its root instead, without a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from sqlalchemy import Select, SQLColumnExpression, func, select

from master.auth.actions import Target
from master.core.jobs import JobType
from master.store import tables
from master.store.store import Store
from windlass.base.errors import NotFound

AT_ONCE = 500
"""Values in one IN list: databases have a limit."""
K = TypeVar("K", int, str)
V = TypeVar("V")
_E, _T, _K, _C, _P, _N, _A = (
    tables.Experiment,
    tables.Trial,
    tables.Task,
    tables.Checkpoint,
    tables.Project,
    tables.Command,
    tables.Allocation,
)
_task_workspace: SQLColumnExpression[int | None] = func.coalesce(_P.workspace_id, _N.workspace_id)


class _OfExperiment(NamedTuple):
    id: int
    owner_id: int
    workspace_id: int


class _OfTrial(NamedTuple):
    id: int
    task_id: str
    experiment_id: int
    owner_id: int
    workspace_id: int


class _OfTask(NamedTuple):
    id: str
    """Of the task, or of what belongs to it."""
    task_id: str
    owner_id: int
    experiment_id: int | None
    workspace_id: int | None
    kind: str
    trial_id: int | None

    def target(self, kind: str) -> Target:
        return Target(
            kind=kind,
            id=self.id,
            owner_id=self.owner_id,
            workspace_id=self.workspace_id,
            experiment_id=self.experiment_id,
            task_id=self.task_id,
        )


class TaskPlace(NamedTuple):
    target: Target
    trial_id: int | None


class OwnershipQueries:
    """Each returns the target of an action, or raises NotFound."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def experiment(self, experiment_id: int) -> Target:
        return (await self.experiments([experiment_id]))[0]

    async def experiments(self, experiment_ids: Sequence[int]) -> list[Target]:
        """In this order. Raises NotFound for the first that is missing."""
        found = await self.known_experiments(experiment_ids)
        return [_known(found, id_, "experiment") for id_ in experiment_ids]

    async def known_experiments(self, experiment_ids: Sequence[int]) -> dict[int, Target]:
        """Those of them that are there, as the next two."""
        found: dict[int, Target] = {}
        for start in range(0, len(experiment_ids), AT_ONCE):
            rows = await self._store.read(
                select(_E.id, _E.owner_id, _P.workspace_id)
                .join(_P, _P.id == _E.project_id)
                .where(_E.id.in_(experiment_ids[start : start + AT_ONCE])),
                _OfExperiment,
            )
            for row in rows:
                found[row.id] = Target(
                    kind="experiment",
                    id=row.id,
                    owner_id=row.owner_id,
                    workspace_id=row.workspace_id,
                    experiment_id=row.id,
                )
        return found

    async def known_trials(self, trial_ids: Sequence[int]) -> dict[int, Target]:
        found: dict[int, Target] = {}
        for start in range(0, len(trial_ids), AT_ONCE):
            rows = await self._store.read(
                select(_T.id, _T.task_id, _E.id, _E.owner_id, _P.workspace_id)
                .join(_E, _E.id == _T.experiment_id)
                .join(_P, _P.id == _E.project_id)
                .where(_T.id.in_(trial_ids[start : start + AT_ONCE])),
                _OfTrial,
            )
            for row in rows:
                found[row.id] = Target(
                    kind="trial",
                    id=row.id,
                    owner_id=row.owner_id,
                    workspace_id=row.workspace_id,
                    experiment_id=row.experiment_id,
                    task_id=row.task_id,
                )
        return found

    async def known_tasks(self, task_ids: Sequence[str]) -> dict[str, TaskPlace]:
        found: dict[str, TaskPlace] = {}
        for start in range(0, len(task_ids), AT_ONCE):
            some = _K.id.in_(task_ids[start : start + AT_ONCE])
            for row in await self._store.read(_tasks(_K.id).where(some), _OfTask):
                target = await self._with_shown(row, "task")
                found[row.id] = TaskPlace(target, row.trial_id)
        return found

    async def trial(self, trial_id: int) -> Target:
        return _known(await self.known_trials([trial_id]), trial_id, "trial")

    async def workspaces_shown(self, task_id: str) -> frozenset[int]:
        """By a TensorBoard: where its experiments are."""
        shown = tables.ShownExperiment
        rows = await self._store.read(
            select(_P.workspace_id)
            .join(_E, _E.project_id == _P.id)
            .join(shown, shown.experiment_id == _E.id)
            .where(shown.task_id == task_id)
            .distinct()
        )
        return frozenset(rows)

    async def task(self, task_id: str) -> Target:
        return _known(await self.known_tasks([task_id]), task_id, "task").target

    async def allocation(self, allocation_id: str) -> Target:
        """Of one that is over, too."""
        row = await self._store.read_one(
            _tasks(_A.id).join(_A, _A.task_id == _K.id).where(_A.id == allocation_id), _OfTask
        )
        if row is None:
            raise NotFound("allocation", allocation_id)
        return replace(await self._with_shown(row, "allocation"), allocation_id=allocation_id)

    async def interactive_task(self, task_id: str, type_: JobType) -> Target:
        here = (_N.id == task_id, _N.type == type_.value)
        row = await self._store.read_one(_tasks(_N.id).where(*here), _OfTask)
        noun = type_.value.lower()
        if row is None:
            raise NotFound(noun, task_id)
        return await self._with_shown(row, noun)

    async def _with_shown(self, row: _OfTask, kind: str) -> Target:
        target = row.target(kind)
        if row.kind != JobType.TENSORBOARD:
            return target
        return replace(target, shows=await self.workspaces_shown(row.task_id))

    async def checkpoints(self, uuids: Sequence[str]) -> list[Target]:
        """In this order. Raises NotFound for the first that is missing."""
        found: dict[str, Target] = {}
        for start in range(0, len(uuids), AT_ONCE):
            rows = await self._store.read(
                _tasks(_C.uuid)
                .join(_C, _C.task_id == _K.id)
                .where(_C.uuid.in_(uuids[start : start + AT_ONCE])),
                _OfTask,
            )
            found.update((row.id, row.target("checkpoint")) for row in rows)
        return [_known(found, uuid, "checkpoint") for uuid in uuids]


def _tasks(
    id_: SQLColumnExpression[str],
) -> Select[str, str, int, int | None, int | None, str, int | None]:
    """Tasks with where they belong to: the project of an experiment, or the command itself."""
    return (
        select(id_, _K.id, _K.owner_id, _K.experiment_id, _task_workspace, _K.type, _K.trial_id)
        .select_from(_K)
        .outerjoin(_E, _E.id == _K.experiment_id)
        .outerjoin(_P, _P.id == _E.project_id)
        .outerjoin(_N, _N.id == _K.id)
    )


def _known(found: Mapping[K, V], id_: K, kind: str) -> V:
    if id_ not in found:
        raise NotFound(kind, id_)
    return found[id_]
