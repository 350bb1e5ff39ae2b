"""Where the things are that a commit concerns: what rules ask of them, by few queries for many."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from sqlalchemy import func, select

from master.auth.actions import Target
from master.auth.ownership import OwnershipQueries
from master.core.jobs import JobType
from master.live.topics import Topic
from master.store import tables
from master.store.store import Store

AT_ONCE = 500
"""Ids in one query."""
K = TypeVar("K", int, str)
_E, _T, _K, _P, _N = (
    tables.Experiment,
    tables.Trial,
    tables.Task,
    tables.Project,
    tables.Command,
)


class _Experiment(NamedTuple):
    id: int
    owner_id: int
    workspace_id: int


class _Trial(NamedTuple):
    id: int
    task_id: str
    experiment_id: int
    owner_id: int
    workspace_id: int


class _Task(NamedTuple):
    id: str
    type: str
    trial_id: int | None
    experiment_id: int | None
    owner_id: int
    workspace_id: int | None


class TaskPlace(NamedTuple):
    target: Target
    trial_id: int | None


class Places:
    """What is not there is left out."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owners = OwnershipQueries(store)

    async def experiments(self, ids: Collection[int]) -> Mapping[int, Target]:
        found: dict[int, Target] = {}
        for some in _parts(ids):
            statement = (
                select(_E.id, _E.owner_id, _P.workspace_id)
                .join(_P, _P.id == _E.project_id)
                .where(_E.id.in_(some))
            )
            for row in await self._store.read(statement, _Experiment):
                found[row.id] = Target(
                    kind="experiment",
                    id=row.id,
                    owner_id=row.owner_id,
                    workspace_id=row.workspace_id,
                    experiment_id=row.id,
                )
        return found

    async def trials(self, ids: Collection[int]) -> Mapping[int, Target]:
        found: dict[int, Target] = {}
        for some in _parts(ids):
            statement = (
                select(_T.id, _T.task_id, _E.id, _E.owner_id, _P.workspace_id)
                .join(_E, _E.id == _T.experiment_id)
                .join(_P, _P.id == _E.project_id)
                .where(_T.id.in_(some))
            )
            for row in await self._store.read(statement, _Trial):
                found[row.id] = Target(
                    kind="trial",
                    id=row.id,
                    owner_id=row.owner_id,
                    workspace_id=row.workspace_id,
                    experiment_id=row.experiment_id,
                    task_id=row.task_id,
                )
        return found

    async def tasks(self, ids: Collection[str]) -> Mapping[str, TaskPlace]:
        found: dict[str, TaskPlace] = {}
        for some in _parts(ids):
            workspace = func.coalesce(_P.workspace_id, _N.workspace_id)
            statement = (
                select(_K.id, _K.type, _K.trial_id, _K.experiment_id, _K.owner_id, workspace)
                .outerjoin(_E, _E.id == _K.experiment_id)
                .outerjoin(_P, _P.id == _E.project_id)
                .outerjoin(_N, _N.id == _K.id)
                .where(_K.id.in_(some))
            )
            for row in await self._store.read(statement, _Task):
                found[row.id] = TaskPlace(await self._target(row), row.trial_id)
        return found

    async def find(self, topics: Collection[Topic]) -> Mapping[Topic, Target]:
        """Of topics that are about one experiment, trial or task."""
        experiments = await self.experiments(_numbers(topics, "experiment", "trials"))
        trials = await self.trials(_numbers(topics, "trial"))
        tasks = await self.tasks({str(topic.id) for topic in topics if topic.name == "task"})
        found: dict[Topic, Target | None] = {}
        for topic in topics:
            match topic.name:
                case "experiment" | "trials":
                    found[topic] = experiments.get(int(topic.id or 0))
                case "trial":
                    found[topic] = trials.get(int(topic.id or 0))
                case "task" if (place := tasks.get(str(topic.id))) is not None:
                    found[topic] = place.target
        return {topic: target for topic, target in found.items() if target is not None}

    async def _target(self, row: _Task) -> Target:
        target = Target(
            kind="task",
            id=row.id,
            owner_id=row.owner_id,
            workspace_id=row.workspace_id,
            experiment_id=row.experiment_id,
            task_id=row.id,
        )
        if row.type != JobType.TENSORBOARD:
            return target
        return replace(target, shows=await self._owners.workspaces_shown(row.id))


def _numbers(topics: Collection[Topic], *names: str) -> set[int]:
    return {int(topic.id or 0) for topic in topics if topic.name in names}


def _parts(ids: Collection[K]) -> Iterator[Sequence[K]]:
    ordered = sorted(ids)
    for start in range(0, len(ordered), AT_ONCE):
        yield ordered[start : start + AT_ONCE]
