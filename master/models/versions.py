"""What users do with versions of models: register, edit, delete; and what trials say of those they use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import structlog
from sqlalchemy import select

from master.core.actor import Actor
from master.models.service import changeable, forget_users, model_row, once
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument, InvalidState, NotFound
from windlass.base.formats.json_types import JsonMapping

log = structlog.get_logger(__name__)

MAX_VERSIONS = 100_000
"""Of a model."""


class Keeping(Protocol):
    """Keeps checkpoints from being deleted."""

    async def keep(
        self, experiment_id: int | None, uuid: str, commit: Callable[[], Awaitable[None]]
    ) -> None:
        """Commit what needs this checkpoint. Raises InvalidState for one that is about to be deleted."""
        ...


class _Stored(NamedTuple):
    state: str
    experiment_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    checkpoint: str
    name: str = ""
    comment: str = ""
    notes: str = ""
    labels: Sequence[str] = ()
    metadata: JsonMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionPatch:
    """None leaves a field as it is. Labels and metadata are replaced as a whole."""

    name: str | None = None
    comment: str | None = None
    notes: str | None = None
    labels: Sequence[str] | None = None
    metadata: JsonMapping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialUse:
    """A trial uses a checkpoint, perhaps as this version of that model."""

    trial_id: int
    checkpoint: str
    kind: str
    """INFERENCE or FINE_TUNING."""
    model_id: int | None = None
    version: int | None = None


class VersionService:
    def __init__(
        self, store: Store, clock: Clock, *, queue: SerialQueue, checkpoints: Keeping
    ) -> None:
        """`queue`: that of models."""
        self._store = store
        self._clock = clock
        self._queue = queue
        self._checkpoints = checkpoints

    async def register(self, model_id: int, new: NewVersion, *, by: Actor) -> int:
        """Its number, which no other version of the model has or had.

        Raises NotFound, and InvalidState for an archived model and a checkpoint that is not complete.
        """

        async def turn() -> int:
            model = await changeable(self._store, model_id)
            if model.last_version >= MAX_VERSIONS:
                raise InvalidArgument(
                    f"model {model.name!r} has had {MAX_VERSIONS} versions: register more in another"
                )
            checkpoint = await self._complete(new.checkpoint)
            number = model.last_version + 1
            unit = self._touch(model_id, last_version=number)
            # It fails if the checkpoint is another by now.
            same = {"uuid": new.checkpoint, "state": checkpoint.state}
            unit.update(tables.Checkpoint, same, {"state": checkpoint.state}, expect=1)
            unit.insert(tables.ModelVersion, self._row(model_id, number, new, by))
            await self._checkpoints.keep(
                checkpoint.experiment_id, new.checkpoint, lambda: self._store.commit(unit)
            )
            log.info(
                "model version registered",
                model=model.name,
                version=number,
                checkpoint=new.checkpoint,
                by=str(by),
            )
            return number

        return await self._queue.run(turn)

    async def patch(self, model_id: int, number: int, patch: VersionPatch, *, by: Actor) -> None:
        """Raises NotFound, and InvalidState for an archived model."""

        async def turn() -> None:
            await changeable(self._store, model_id)
            row = await self._version(model_id, number)
            given = {
                "name": patch.name,
                "comment": patch.comment,
                "notes": patch.notes,
                "labels": None if patch.labels is None else once(patch.labels),
                "meta": None if patch.metadata is None else dict(patch.metadata),
            }
            values = {key: value for key, value in given.items() if value is not None}
            if values:
                unit = self._touch(model_id)
                changed = {**values, "modified_at": self._clock.now()}
                unit.update(tables.ModelVersion, {"id": row.id}, changed, expect=1)
                await self._store.commit(unit)
                log.info("model version changed", model=model_id, version=number, by=str(by))

        await self._queue.run(turn)

    async def delete(self, model_id: int, number: int, *, by: Actor) -> None:
        """Its checkpoint stays; its number is not given again. Raises NotFound."""

        async def turn() -> None:
            await model_row(self._store, model_id)
            row = await self._version(model_id, number)
            unit = self._touch(model_id)
            unit.extend(forget_users({"model_id": model_id, "model_version": number}))
            unit.delete(tables.ModelVersion, {"id": row.id})
            await self._store.commit(unit)
            log.info("model version deleted", model=model_id, version=number, by=str(by))

        await self._queue.run(turn)

    async def report_use(self, use: TrialUse) -> None:
        """Replaces what the trial said of this checkpoint before. Raises NotFound, InvalidArgument."""

        async def turn() -> None:
            if (use.model_id is None) != (use.version is None):
                raise InvalidArgument("modelId and modelVersion: both must be given, or none")
            if use.model_id is not None and use.version is not None:
                await model_row(self._store, use.model_id)
                version = await self._version(use.model_id, use.version)
                if version.checkpoint_uuid != use.checkpoint:
                    raise InvalidArgument(
                        f"checkpointUuid: version {use.version} of model {use.model_id} is "
                        f"checkpoint {version.checkpoint_uuid}, not {use.checkpoint[:80]!r}"
                    )
            row = {
                "trial_id": use.trial_id,
                "checkpoint_uuid": use.checkpoint,
                "kind": use.kind,
                "model_id": use.model_id,
                "model_version": use.version,
            }
            unit = UnitOfWork()
            unit.upsert(tables.TrialSource, row)
            await self._store.commit(unit)

        await self._queue.run(turn)

    def _touch(self, model_id: int, **values: object) -> UnitOfWork:
        unit = UnitOfWork()
        changed = {**values, "modified_at": self._clock.now()}
        unit.update(tables.Model, {"id": model_id}, changed, expect=1)
        return unit

    def _row(self, model_id: int, number: int, new: NewVersion, by: Actor) -> Mapping[str, object]:
        now = self._clock.now()
        return {
            "id": self._store.next_id(tables.ModelVersion),
            "model_id": model_id,
            "version": number,
            "checkpoint_uuid": new.checkpoint,
            "owner_id": by.user_id,
            "name": new.name,
            "comment": new.comment,
            "notes": new.notes,
            "labels": once(new.labels),
            "meta": dict(new.metadata),
            "created_at": now,
            "modified_at": now,
        }

    async def _complete(self, uuid: str) -> _Stored:
        checkpoint = tables.Checkpoint
        stored = await self._store.read_one(
            select(checkpoint.state, checkpoint.experiment_id).where(checkpoint.uuid == uuid),
            _Stored,
        )
        if stored is None:
            raise NotFound("checkpoint", uuid)
        if stored.state != "COMPLETED":
            raise InvalidState(
                f"checkpoint {uuid} is {stored.state}: only one that is COMPLETED can be registered"
            )
        return stored

    async def _version(self, model_id: int, number: int) -> tables.ModelVersion:
        version = tables.ModelVersion
        row = await self._store.read_one(
            select(version).where(version.model_id == model_id, version.version == number)
        )
        if row is None:
            raise NotFound(f"version of model {model_id}", number)
        return row
