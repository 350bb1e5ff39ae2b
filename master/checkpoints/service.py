"""What users ask of checkpoints: delete them or files of them, other keep counts, other metadata; and of experiments,
to delete them. Written down here; `Collector` carries it out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog
from sqlalchemy import select

from master.checkpoints.planning import Planner, keep_counts
from master.core.actor import Actor
from master.experiments.lifecycle.garbage import EVERYTHING, GcKind, gc_row, task_row
from master.experiments.lifecycle.state import Phase, not_ended
from master.experiments.metadata import ExperimentMetadata
from master.experiments.queries.metrics import AT_ONCE
from master.experiments.service import ExperimentService
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidState, NotFound
from windlass.base.ids import Ids
from windlass.storage.globs import matching

log = structlog.get_logger(__name__)

NAMED_AT_MOST = 5
"""Checkpoints in one error."""


class CheckpointService:
    """What deletes files answers with the ids of the tasks whose logs say what becomes of it."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        experiments: ExperimentService,
        metadata: ExperimentMetadata,
        planner: Planner,
        collects: Callable[[str | None, Collection[str]], bool],
        wake: Callable[[], None],
    ) -> None:
        """`wake`: something is to be deleted."""
        self.collects = collects
        """Whether a task is there to delete files of these checkpoints: it may say what is left of them."""
        self._store = store
        self._clock = clock
        self._ids = ids
        self._experiments = experiments
        self._metadata = metadata
        self._planner = planner
        self._wake = wake

    async def delete(self, uuids: Sequence[str], *, by: Actor) -> list[str]:
        """All files of these, soon. Raises NotFound, and InvalidState for one that is written or needed: then none."""
        return await self._planner.queue.run(lambda: self._delete_files(uuids, EVERYTHING, by))

    async def remove_files(
        self, uuids: Sequence[str], globs: Sequence[str], *, by: Actor
    ) -> list[str]:
        """What the globs name, soon. Without globs only the lists of files are read again. Raises InvalidArgument."""
        matching((), globs)
        return await self._planner.queue.run(lambda: self._delete_files(uuids, tuple(globs), by))

    async def _delete_files(
        self, uuids: Sequence[str], globs: tuple[str, ...], by: Actor
    ) -> list[str]:
        rows = await self._rows(list(dict.fromkeys(uuids)))
        writing = [row.uuid for row in rows if row.state == "ACTIVE"]
        if writing:
            raise InvalidState(f"checkpoints are still being written: {_named(writing)}")
        stored = [row for row in rows if row.state != "DELETED"]
        await self._require_unregistered([row.uuid for row in stored])
        if globs:
            await self._require_unneeded([row.uuid for row in stored])
        of_experiment: dict[int, list[str]] = {}
        for row in stored:
            if row.experiment_id is not None:
                of_experiment.setdefault(row.experiment_id, []).append(row.uuid)
        uow = UnitOfWork()
        tasks = [
            self._write_down(
                uow,
                GcKind.FILES,
                await self._experiment(experiment_id),
                by,
                checkpoints=some,
                globs=globs,
            )
            for experiment_id, some in of_experiment.items()
        ]
        await self._store.commit(uow)
        self._wake()
        for row in stored:
            log.info("checkpoint to be deleted", checkpoint=row.uuid, globs=globs, by=str(by))
        return tasks

    async def _require_unregistered(self, uuids: Sequence[str]) -> None:
        registered = await self._planner.registered(uuids)
        if registered:
            raise InvalidState(
                f"checkpoints are in the model registry: {_named([*map(str, registered)])}: "
                "delete these versions first"
            )

    async def _require_unneeded(self, uuids: Sequence[str]) -> None:
        needed = await self._planner.needed(uuids)
        for uuid_, trial in needed.items():
            raise InvalidState(
                f"checkpoint {uuid_} is what trial {trial}, which has not ended, goes on from: "
                "delete it when that trial has ended"
            )

    async def _rows(self, uuids: Sequence[str]) -> list[tables.Checkpoint]:
        """Raises NotFound for the first that is missing."""
        checkpoint = tables.Checkpoint
        found: dict[str, tables.Checkpoint] = {}
        for start in range(0, len(uuids), AT_ONCE):
            some = uuids[start : start + AT_ONCE]
            rows = await self._store.read(select(checkpoint).where(checkpoint.uuid.in_(some)))
            found.update((row.uuid, row) for row in rows)
        for uuid_ in uuids:
            if uuid_ not in found:
                raise NotFound("checkpoint", uuid_)
        return [found[uuid_] for uuid_ in uuids]

    async def set_metadata(self, uuid_: str, metadata: Mapping[str, object], *, by: Actor) -> None:
        """Replaces it; `metadata.json` in the storage stays as it is. Raises NotFound."""
        await self._rows([uuid_])
        uow = UnitOfWork()
        uow.update(tables.Checkpoint, {"uuid": uuid_}, {"meta": dict(metadata)}, expect=1)
        await self._store.commit(uow)
        log.info("checkpoint metadata set", checkpoint=uuid_, by=str(by))

    async def preview(
        self, experiment_id: int, changes: Mapping[str, int]
    ) -> tuple[str, list[tables.Checkpoint]]:
        """The searcher's metric, and what would be deleted with these `save_*` keys changed."""
        config = (await self._experiment(experiment_id)).config
        counts = keep_counts({**config["checkpoint_storage"], **changes})
        uuids = await self._planner.garbage(experiment_id, config, counts)
        return str(config["searcher"].get("metric", "")), await self._rows(uuids)

    async def set_keep_counts(
        self, experiment_id: int, changes: Mapping[str, int], *, by: Actor
    ) -> list[str]:
        """`save_*` keys of its configuration; what they do not keep is deleted soon."""
        row = await self._experiment(experiment_id)
        _require_no_deletion(experiment_id, Phase(row.state))
        storage = {**row.config["checkpoint_storage"], **changes}
        keep_counts(storage)
        uow = UnitOfWork()
        task = self._write_down(uow, GcKind.POLICY, row, by)
        await self._metadata.set_keep_counts(
            experiment_id, changes, also=tuple(uow.operations), by=by
        )
        self._wake()
        return [task]

    async def delete_tensorboard(self, experiment_id: int, *, by: Actor) -> list[str]:
        """Soon. Raises InvalidState for an experiment that has not ended."""
        row = await self._require_ended(experiment_id)
        uow = UnitOfWork()
        task = self._write_down(uow, GcKind.TENSORBOARD, row, by)
        await self._store.commit(uow)
        self._wake()
        log.info("tensorboard files to be deleted", experiment=experiment_id, by=str(by))
        return [task]

    async def delete_experiment(self, experiment_id: int, *, by: Actor) -> None:
        """It is DELETING from now on; then its files go, then its rows.

        Raises InvalidState for one that has not ended, and while another one's trial goes on from its checkpoints or
        the model registry has one of them.
        """
        await self._planner.queue.run(lambda: self._delete_experiment(experiment_id, by))

    async def _delete_experiment(self, experiment_id: int, by: Actor) -> None:
        row = await self._require_ended(experiment_id)
        checkpoint = tables.Checkpoint
        uuids = await self._store.read(
            select(checkpoint.uuid).where(checkpoint.experiment_id == experiment_id)
        )
        await self._require_unregistered(uuids)
        await self._require_unneeded(uuids)
        uow = UnitOfWork()
        where = {"id": experiment_id, "state": row.state}
        deleting = {"state": Phase.DELETING.value, "error": ""}
        uow.update(tables.Experiment, where, deleting, expect=1)
        self._write_down(uow, GcKind.EXPERIMENT, row, by)
        try:
            await self._store.commit(uow)
        except Conflict:
            # Somebody was faster, with this or something else.
            await self._require_ended(experiment_id)
            raise
        self._experiments.forget(experiment_id)
        self._wake()
        log.info("experiment to be deleted", experiment=experiment_id, by=str(by))

    async def _require_ended(self, experiment_id: int) -> tables.Experiment:
        row = await self._experiment(experiment_id)
        live = self._experiments.live(experiment_id)
        phase = Phase(row.state) if live is None else live.state.phase
        never_started = row.unmanaged and phase is Phase.PAUSED
        if not phase.is_terminal and not never_started:
            raise InvalidState(not_ended(experiment_id, phase))
        _require_no_deletion(experiment_id, Phase(row.state))
        return row

    async def _experiment(self, experiment_id: int) -> tables.Experiment:
        experiment = tables.Experiment
        row = await self._store.read_one(select(experiment).where(experiment.id == experiment_id))
        if row is None:
            raise NotFound("experiment", experiment_id)
        return row

    def _write_down(
        self,
        uow: UnitOfWork,
        kind: GcKind,
        of: tables.Experiment,
        by: Actor,
        *,
        checkpoints: Sequence[str] = (),
        globs: Sequence[str] = EVERYTHING,
    ) -> str:
        """Together with its task, whose id is returned: whoever asked may look at its log at once."""
        garbage = gc_row(
            kind,
            of.id,
            task=uuid.UUID(self._ids.uuid()),
            by=by.user_id,
            now=self._clock.now(),
            checkpoints=checkpoints,
            globs=globs,
        )
        uow.insert(tables.CheckpointGc, garbage)
        uow.insert(tables.Task, task_row(garbage, of.owner_id))
        return str(garbage["task_id"])


def _require_no_deletion(experiment_id: int, phase: Phase) -> None:
    if phase is Phase.DELETING:
        raise InvalidState(f"Experiment {experiment_id} is already being deleted")


def _named(them: Sequence[str]) -> str:
    more = len(them) - NAMED_AT_MOST
    return ", ".join(them[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
