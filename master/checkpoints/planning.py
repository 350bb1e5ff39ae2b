"""From what is asked to be deleted to folders and their files, by what the store says now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson
from sqlalchemy import and_, select

from master.core.retention import KeepCounts, StoredCheckpoint, kept
from master.experiments.lifecycle.garbage import EVERYTHING, GcKind
from master.experiments.lifecycle.state import TERMINAL
from master.experiments.queries.metrics import AT_ONCE
from master.experiments.reports.metrics import VALIDATION, number
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from windlass.base.errors import InvalidState, NotFound
from windlass.base.formats.json_types import JsonMapping, JsonObject

_C, _T, _M, _E, _B, _V, _G = (
    tables.Checkpoint,
    tables.Trial,
    tables.Metric,
    tables.Experiment,
    tables.StorageBackend,
    tables.ModelVersion,
    tables.CheckpointGc,
)
STORED = ("COMPLETED", "PARTIALLY_DELETED")
"""States of checkpoints that have files, and are not being written."""
_OVER = sorted(phase.value for phase in TERMINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What goes from one storage."""

    storage: JsonMapping
    """Its secrets are references."""
    checkpoints: tuple[str, ...] = ()
    globs: tuple[str, ...] = EVERYTHING
    tensorboard: tuple[str, ...] = ()
    """Folders."""


class _Row(NamedTuple):
    uuid: str
    trial_id: int | None
    steps: int
    reported: object


class _Validation(NamedTuple):
    uuid: str
    metric_id: int
    metrics: JsonObject


class _Stored(NamedTuple):
    uuid: str
    storage: JsonObject | None


class Registered(NamedTuple):
    """A checkpoint in the model registry."""

    uuid: str
    model: str
    version: int

    def __str__(self) -> str:
        return f"{self.uuid} (version {self.version} of model {self.model!r})"


class _Needed(NamedTuple):
    uuid: str | None
    trial_id: int


def keep_counts(storage: JsonMapping) -> KeepCounts:
    """Of a complete `checkpoint_storage` section."""
    return KeepCounts(
        experiment_best=int(storage.get("save_experiment_best", 0)),
        trial_best=int(storage.get("save_trial_best", 1)),
        trial_latest=int(storage.get("save_trial_latest", 1)),
    )


class Planner:
    def __init__(self, store: Store, cluster_id: str) -> None:
        self.queue = SerialQueue("checkpoints")
        """What is to be deleted and what is to be kept is said, and planned, one after the other."""
        self._store = store
        self._cluster_id = cluster_id

    async def keep(
        self, experiment_id: int | None, uuid: str, commit: Callable[[], Awaitable[None]]
    ) -> None:
        """Commit what needs this checkpoint. Raises InvalidState for one that is about to be deleted."""

        async def turn() -> None:
            if experiment_id is not None and await self._is_to_go(experiment_id, uuid):
                raise InvalidState(f"checkpoint {uuid} is being deleted")
            await commit()

        await self.queue.run(turn)

    async def _is_to_go(self, experiment_id: int, uuid: str) -> bool:
        asked = await self._store.read(select(_G).where(_G.experiment_id == experiment_id))
        deletions = [deletion for row in asked for deletion in await self.plan(row)]
        return any(uuid in deletion.checkpoints for deletion in deletions)

    async def plan(self, asked: tables.CheckpointGc) -> list[Deletion]:
        """Nothing, if all is done already. Raises NotFound for an experiment that is gone."""
        config = await self._config(asked.experiment_id)
        storage = config["checkpoint_storage"]
        folder = f"{self._cluster_id}/tensorboard/experiment/{asked.experiment_id}"
        match GcKind(asked.kind):
            case GcKind.POLICY:
                uuids = await self.garbage(asked.experiment_id, config, keep_counts(storage))
                return await self._by_storage(uuids, storage, EVERYTHING)
            case GcKind.FILES:
                return await self._by_storage(asked.checkpoints, storage, tuple(asked.globs))
            case GcKind.TENSORBOARD:
                return [Deletion(storage=storage, tensorboard=(folder,))]
            case GcKind.EXPERIMENT:
                uuids = await self._store.read(
                    select(_C.uuid).where(
                        _C.experiment_id == asked.experiment_id, _C.state != "DELETED"
                    )
                )
                deletions = await self._by_storage(uuids, storage, EVERYTHING)
                if await self._has_run(asked.experiment_id):
                    deletions.append(Deletion(storage=storage, tensorboard=(folder,)))
                return deletions

    async def garbage(
        self, experiment_id: int, config: JsonMapping, counts: KeepCounts
    ) -> list[str]:
        """The checkpoints that these keep counts do not keep, oldest first."""
        searcher = config.get("searcher") or {}
        candidates = await self._candidates(experiment_id, str(searcher.get("metric", "")))
        keep = kept(
            candidates,
            counts,
            smaller_is_better=bool(searcher.get("smaller_is_better", True)),
            pinned=await self._pinned(experiment_id, [c.uuid for c in candidates]),
        )
        return [c.uuid for c in candidates if c.uuid not in keep]

    async def needed(self, uuids: Sequence[str]) -> dict[str, int]:
        """Of these the ones that a trial which has not ended goes on from -> that trial."""
        found: dict[str, int] = {}
        for column in (_T.latest_checkpoint, _T.warm_start_checkpoint):
            for start in range(0, len(uuids), AT_ONCE):
                rows = await self._store.read(
                    select(column, _T.id).where(
                        column.in_(uuids[start : start + AT_ONCE]), _T.state.not_in(_OVER)
                    ),
                    _Needed,
                )
                found.update((row.uuid, row.trial_id) for row in rows if row.uuid is not None)
        return found

    async def registered(self, uuids: Sequence[str]) -> list[Registered]:
        """Of these the ones in the model registry."""
        model = tables.Model
        found: list[Registered] = []
        for start in range(0, len(uuids), AT_ONCE):
            found += await self._store.read(
                select(_V.checkpoint_uuid, model.name, _V.version)
                .join(model, model.id == _V.model_id)
                .where(_V.checkpoint_uuid.in_(uuids[start : start + AT_ONCE]))
                .order_by(_V.id),
                Registered,
            )
        return found

    async def _pinned(self, experiment_id: int, uuids: Sequence[str]) -> Collection[str]:
        """Also those that any trial was once started from, and those in the model registry."""
        pinned = set(await self.needed(uuids))
        pinned.update(version.uuid for version in await self.registered(uuids))
        for start in range(0, len(uuids), AT_ONCE):
            some = uuids[start : start + AT_ONCE]
            started = _T.warm_start_checkpoint
            rows = await self._store.read(select(started).where(started.in_(some)))
            pinned.update(uuid for uuid in rows if uuid is not None)
        return pinned

    async def _candidates(self, experiment_id: int, metric: str) -> list[StoredCheckpoint]:
        here = (_C.experiment_id == experiment_id, _C.state.in_(STORED))
        rows = await self._store.read(
            select(_C.uuid, _C.trial_id, _C.steps, _C.reported_at)
            .where(*here)
            .order_by(_C.reported_at, _C.uuid),
            _Row,
        )
        validations: dict[str, tuple[int, float | None]] = {}
        at_the_same_step = and_(
            _M.trial_id == _C.trial_id,
            _M.steps == _C.steps,
            _M.group == VALIDATION,
            _M.archived.is_(False),
        )
        for row in await self._store.read(
            select(_C.uuid, _M.id, _M.metrics).join(_M, at_the_same_step).where(*here), _Validation
        ):
            value = number((row.metrics.get("avg_metrics") or {}).get(metric))
            first = validations.get(row.uuid)
            if value is not None and (first is None or row.metric_id < first[0]):
                validations[row.uuid] = (row.metric_id, value)
        return [
            StoredCheckpoint(
                uuid=row.uuid,
                trial_id=row.trial_id or 0,
                steps=row.steps,
                metric=validations.get(row.uuid, (0, None))[1],
                validation_id=validations.get(row.uuid, (0, None))[0],
                reported=number_,
            )
            for number_, row in enumerate(rows)
        ]

    async def _by_storage(
        self, uuids: Sequence[str], own: JsonMapping, globs: tuple[str, ...]
    ) -> list[Deletion]:
        """One deletion for each storage. `own`: the experiment's, for checkpoints that name none."""
        storages: dict[bytes, JsonMapping] = {}
        found: dict[bytes, list[str]] = {}
        for start in range(0, len(uuids), AT_ONCE):
            rows = await self._store.read(
                select(_C.uuid, _B.config)
                .outerjoin(_B, _B.id == _C.storage_id)
                .where(_C.uuid.in_(uuids[start : start + AT_ONCE]), _C.state != "DELETED")
                .order_by(_C.reported_at, _C.uuid),
                _Stored,
            )
            for row in rows:
                storage = row.storage or own
                key = orjson.dumps(storage, option=orjson.OPT_SORT_KEYS)
                storages[key] = storage
                found.setdefault(key, []).append(row.uuid)
        return [
            Deletion(storage=storages[key], checkpoints=tuple(some), globs=globs)
            for key, some in found.items()
        ]

    async def _has_run(self, experiment_id: int) -> bool:
        here = (_T.experiment_id == experiment_id, _T.run_id > 0)
        return bool(await self._store.read(select(_T.id).where(*here).limit(1)))

    async def _config(self, experiment_id: int) -> JsonMapping:
        config = await self._store.read_one(select(_E.config).where(_E.id == experiment_id))
        if config is None:
            raise NotFound("experiment", experiment_id)
        return config
