"""Carries out what is written down as to be deleted: a row of `tables.CheckpointGc` at a time, until it is done.

    row committed -> plan (again after a crash) -> files deleted -> checkpoints changed -> row gone

Every step may be repeated. What fails is tried again, later and later; its reason is in the log of its task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from datetime import timedelta
from typing import Any, NamedTuple

import structlog
from sqlalchemy import select

from master.allocations.identities import TaskOwner
from master.allocations.task_messages import TaskLogWriter
from master.checkpoints.experiment_rows import ExperimentRows
from master.checkpoints.on_agents import OnAgents
from master.checkpoints.places import CheckpointPlaces, FolderHere, sees_any
from master.checkpoints.planning import Deletion, Planner
from master.checkpoints.workers import DELETING_AT_ONCE, Deleter
from master.experiments.lifecycle.garbage import EVERYTHING, GcKind, changed_checkpoint, task_row
from master.experiments.lifecycle.state import Phase
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import LeaseLost, NotFound, StoreUnavailable, WindlassError
from windlass.base.loop import Loop
from windlass.storage.worker import FolderResult, Order

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 10.0
FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(minutes=10)
UNDER_WAY = 200
"""Rows at once, without those that wait for an agent: one may never come. Most wait for one of `DELETING_AT_ONCE`."""
ATTEMPTS = 3
"""Then an experiment or a trial is DELETE_FAILED, and its owner decides. Everything else is tried for ever."""


class _Asked(NamedTuple):
    task_id: str
    experiment_id: int


class Incomplete(WindlassError):
    """Some of it is not deleted."""

    code = "storage"


class GarbageCollector:
    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        task_log: TaskLogWriter,
        planner: Planner,
        places: CheckpointPlaces,
        deleter: Deleter,
        agents: OnAgents,
        rows: ExperimentRows,
        cluster_id: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._task_log = task_log
        self._planner = planner
        self._places = places
        self._deleter = deleter
        self._agents = agents
        self._rows = rows
        self._cluster_id = cluster_id
        self._loop = Loop("checkpoint collection", self._begin_due, interval_s=LOOK_EVERY_S)
        self._busy: set[int] = set()
        """Experiments of which something is being deleted: one thing at a time."""
        self._waiting = 0
        """How many of those wait for an agent, or for the task on it."""
        self._not_before: dict[str, float] = {}
        self._workers = asyncio.Semaphore(DELETING_AT_ONCE)
        self._seen: set[str] = set()
        """Task ids whose rows this master has marked as seen."""
        self._start: Callable[[Coroutine[Any, Any, None]], object] | None = None

    def wake(self) -> None:
        """Something new is written down."""
        self._loop.wake()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._start = group.create_task
            await self._loop.run()

    def _has_room(self) -> bool:
        return len(self._busy) - self._waiting < UNDER_WAY

    async def _begin_due(self) -> None:
        if self._start is None or not self._has_room():
            return
        gc = tables.CheckpointGc
        asked = select(gc.task_id, gc.experiment_id).order_by(gc.asked_at, gc.task_id)
        now = self._clock.monotonic()
        for task_id, experiment_id in await self._store.read(asked, _Asked):
            if not self._has_room():
                return
            due = self._not_before.get(task_id, now) <= now
            if due and experiment_id not in self._busy:
                self._busy.add(experiment_id)
                self._start(self._handle(task_id, experiment_id))

    async def _handle(self, task_id: str, experiment_id: int) -> None:
        self._not_before.pop(task_id, None)
        gc = tables.CheckpointGc
        try:
            row = await self._store.read_one(select(gc).where(gc.task_id == task_id))
            if row is not None:
                await self._attempt(row)
        except LeaseLost:
            raise
        except StoreUnavailable:
            self._pause(task_id, FIRST_PAUSE)
        except Exception:
            log.exception("checkpoint collection crashed", task=task_id)
            self._pause(task_id, LONGEST_PAUSE)
        finally:
            self._seen.discard(task_id)
            self._busy.discard(experiment_id)
            self._loop.wake()

    def _pause(self, task_id: str, pause: timedelta) -> None:
        self._not_before[task_id] = self._clock.monotonic() + pause.total_seconds()

    async def _attempt(self, row: tables.CheckpointGc) -> None:
        try:
            await self._carry_out(row)
        except (LeaseLost, StoreUnavailable):
            raise
        except NotFound as gone:
            log.info("nothing left to delete", task=row.task_id, because=gone.message)
            await self._finish(row)
        except WindlassError as error:
            await self._failed(row, error.message)

    async def _carry_out(self, row: tables.CheckpointGc) -> None:
        problems: list[str] = []
        begun = False
        for deletion in await self._planner.queue.run(lambda: self._planner.plan(row)):
            if not begun:
                begun = await self._begin(row)
            problems += await self._delete(row, deletion)
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise Incomplete(problems[0] + more)
        if row.kind == GcKind.EXPERIMENT:
            await self._rows.remove(row.experiment_id)
            log.info("experiment deleted", experiment=row.experiment_id)
        elif row.kind == GcKind.TRIAL and row.trial_id is not None:
            await self._rows.remove_trials([row.trial_id])
            self._say(row, f"Trial {row.trial_id} is deleted")
            await self._finish(row)
            log.info("trial deleted", trial=row.trial_id, experiment=row.experiment_id)
        else:
            if not begun and await self._has_task(row):
                self._say(row, "Nothing to delete")
            await self._finish(row)

    async def _has_task(self, row: tables.CheckpointGc) -> bool:
        """Whether somebody was told of it."""
        task = tables.Task
        asked = select(task.id).where(task.id == row.task_id)
        return await self._store.read_one(asked) is not None

    async def _begin(self, row: tables.CheckpointGc) -> bool:
        """Its task, whose log everybody can read. True."""
        uow = UnitOfWork()
        owner = await self._owner(row.experiment_id)
        uow.upsert(tables.Task, task_row(dict(row), owner.user_id))
        await self._store.commit(uow)
        return True

    async def _is_unmanaged(self, experiment_id: int) -> bool:
        experiment = tables.Experiment
        asked = select(experiment.unmanaged).where(experiment.id == experiment_id)
        return bool(await self._store.read_one(asked))

    async def _owner(self, experiment_id: int) -> TaskOwner:
        experiment, project = tables.Experiment, tables.Project
        owner = await self._store.read_one(
            select(experiment.owner_id, project.workspace_id)
            .join(project, project.id == experiment.project_id)
            .where(experiment.id == experiment_id),
            TaskOwner,
        )
        if owner is None:
            raise NotFound("experiment", experiment_id)
        return owner

    async def _delete(self, row: tables.CheckpointGc, deletion: Deletion) -> list[str]:
        """What could not be deleted, a line each."""
        here = self._places.folder(deletion.storage)
        if here is not None and await self._sees(row, here, deletion):
            return await self._delete_here(row, deletion, here)
        if self._places.bucket(deletion.storage):
            return await self._delete_here(row, deletion, None)
        if await self._is_unmanaged(row.experiment_id):
            # Its storage is that of a machine elsewhere, and nobody checked what a task would mount for it here.
            folders = (*deletion.checkpoints, *deletion.tensorboard)
            self._say(row, f"{len(folders)} folders stay in a storage that the master cannot reach")
            return []
        self._waiting += 1
        self._loop.wake()
        try:
            return await self._agents.delete(
                row.experiment_id, deletion, say=lambda text: self._say(row, text)
            )
        finally:
            self._waiting -= 1

    async def _sees(self, row: tables.CheckpointGc, here: FolderHere, deletion: Deletion) -> bool:
        """Whether the master's own file system has that storage: an empty mount point must not count as deleted."""
        if row.seen or row.task_id in self._seen:
            return True
        names = (*deletion.checkpoints, *deletion.tensorboard, self._cluster_id)
        if not await asyncio.to_thread(sees_any, here, names):
            return False
        uow = UnitOfWork()
        uow.update(tables.CheckpointGc, {"task_id": row.task_id}, {"seen": True})
        await self._store.commit(uow)
        self._seen.add(row.task_id)
        return True

    async def _delete_here(
        self, row: tables.CheckpointGc, deletion: Deletion, here: FolderHere | None
    ) -> list[str]:
        self._say(row, _announcement(row, deletion))
        folders = (*deletion.checkpoints, *deletion.tensorboard)
        files_of = (
            None if here is None else self._places.run_as(await self._owner(row.experiment_id))
        )
        problems: list[str] = []
        for globs, some in (
            (deletion.globs, deletion.checkpoints),
            (EVERYTHING, deletion.tensorboard),
        ):
            if not some:
                continue
            order = Order(
                do="delete",
                storage=self._places.resolved(deletion.storage),
                folders=some,
                globs=globs,
                run_as=files_of,
            )
            async with self._workers, aclosing(self._deleter.delete(order, here)) as results:
                async for result in results:
                    if result.error:
                        problems.append(f"{result.folder}: {result.error}")
                    elif result.folder in deletion.checkpoints:
                        await self._note(row, result)
        if deletion.tensorboard and files_of is not None:
            await self._remove_empty(deletion, here)
        self._say(row, f"Deleted {len(folders) - len(problems)} of {len(folders)}")
        return problems

    async def _remove_empty(self, deletion: Deletion, here: FolderHere | None) -> None:
        """Folders of TensorBoard files, which an agent of root's made for a user who may only empty them."""
        order = Order(
            do="remove_empty",
            storage=self._places.resolved(deletion.storage),
            folders=deletion.tensorboard,
        )
        async with self._workers, aclosing(self._deleter.delete(order, here)) as results:
            async for _ in results:
                pass

    async def _note(self, row: tables.CheckpointGc, result: FolderResult) -> None:
        checkpoint = tables.Checkpoint
        known = await self._store.read_one(
            select(checkpoint).where(checkpoint.uuid == result.folder)
        )
        if known is None:
            return
        values = changed_checkpoint(known.resources, known.state, result.left)
        uow = UnitOfWork()
        uow.update(checkpoint, {"uuid": result.folder}, values)
        await self._store.commit(uow)
        self._say(row, f"Checkpoint {result.folder}: {str(values['state']).lower()}")

    async def _failed(self, row: tables.CheckpointGc, problem: str) -> None:
        attempts = row.attempts + 1
        uow = UnitOfWork()
        if row.kind in (GcKind.EXPERIMENT, GcKind.TRIAL) and attempts >= ATTEMPTS:
            self._say(row, f"Not deleted: {problem}", level="ERROR")
            _note_failure(uow, row, f"not deleted: {problem}")
            uow.delete(tables.CheckpointGc, {"task_id": row.task_id})
            uow.update(tables.Task, {"id": row.task_id}, {"ended_at": self._clock.now()})
            log.warning(
                "not deleted", experiment=row.experiment_id, trial=row.trial_id, error=problem
            )
        else:
            pause = min(FIRST_PAUSE * 3 ** min(row.attempts, 10), LONGEST_PAUSE)
            self._pause(row.task_id, pause)
            again = f"Not all is deleted: {problem}. Tried again in {pause.total_seconds():.0f} s"
            self._say(row, again, level="ERROR")
            uow.update(
                tables.CheckpointGc,
                {"task_id": row.task_id},
                {"attempts": attempts, "error": problem},
            )
            log.warning("checkpoints not deleted", task=row.task_id, error=problem)
        await self._store.commit(uow)

    async def _finish(self, row: tables.CheckpointGc) -> None:
        uow = UnitOfWork()
        uow.delete(tables.CheckpointGc, {"task_id": row.task_id})
        uow.update(tables.Task, {"id": row.task_id}, {"ended_at": self._clock.now()})
        await self._store.commit(uow)

    def _say(self, row: tables.CheckpointGc, text: str, *, level: str = "INFO") -> None:
        self._task_log.say(row.task_id, "", text, level=level)


def _note_failure(uow: UnitOfWork, row: tables.CheckpointGc, error: str) -> None:
    """Of the deletion of an experiment or a trial, which its owner may ask for again."""
    failed = Phase.DELETE_FAILED.value
    if row.kind == GcKind.TRIAL:
        values = {"deletion": failed, "deletion_error": error}
        uow.update(tables.Trial, {"id": row.trial_id}, values)
    else:
        uow.update(tables.Experiment, {"id": row.experiment_id}, {"state": failed, "error": error})


_WHY = {
    GcKind.POLICY: "not kept by save_experiment_best, save_trial_best and save_trial_latest",
    GcKind.FILES: "as asked",
    GcKind.TENSORBOARD: "as asked",
    GcKind.TRIAL: "the trial is deleted",
    GcKind.EXPERIMENT: "the experiment is deleted",
}


def _announcement(row: tables.CheckpointGc, deletion: Deletion) -> str:
    what = []
    if deletion.checkpoints:
        files = "" if deletion.globs == EVERYTHING else f"{', '.join(deletion.globs)} of "
        what.append(f"{files}{len(deletion.checkpoints)} checkpoints")
    if deletion.tensorboard:
        what.append("TensorBoard files")
    of = f"experiment {row.experiment_id}" if row.trial_id is None else f"trial {row.trial_id}"
    return f"Deleting {' and '.join(what)} of {of}: {_WHY[GcKind(row.kind)]}"
