"""What users do with models: create, edit, archive, move, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import func, select

from master.core.actor import Actor
from master.models.names import new_name
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.workspaces.projects import require_open
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidArgument, InvalidState, NotFound
from windlass.base.formats.json_types import JsonMapping

log = structlog.get_logger(__name__)

MAX_MODELS = 100_000
"""A program that makes one for each of its runs is told so, and fills no database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModel:
    name: str
    workspace_id: int
    description: str = ""
    notes: str = ""
    labels: Sequence[str] = ()
    metadata: JsonMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPatch:
    """None leaves a field as it is. Labels and metadata are replaced as a whole."""

    name: str | None = None
    description: str | None = None
    notes: str | None = None
    labels: Sequence[str] | None = None
    metadata: JsonMapping | None = None
    workspace_id: int | None = None
    """Moves it there."""


class ModelService:
    """All models of this master. Changes take their turns with those of workspaces: what a workspace has in it is
    looked up and changed in one step.
    """

    def __init__(self, store: Store, clock: Clock, *, queue: SerialQueue) -> None:
        self._store = store
        self._clock = clock
        self._queue = queue

    async def create(self, new: NewModel, *, by: Actor) -> int:
        """Its id. It belongs to `by`. Raises NotFound, Conflict, InvalidArgument, InvalidState."""
        name = new_name(new.name)

        async def turn() -> int:
            await _require_open(self._store, new.workspace_id)
            await self._require_free(name)
            number = await self._store.read_one(select(func.count()).select_from(tables.Model))
            if (number or 0) >= MAX_MODELS:
                raise InvalidArgument(f"there are {MAX_MODELS} models already: delete some")
            id_, now = self._store.next_id(tables.Model), self._clock.now()
            row = {
                "id": id_,
                "name": name,
                "workspace_id": new.workspace_id,
                "owner_id": by.user_id,
                "description": new.description,
                "notes": new.notes,
                "labels": once(new.labels),
                "meta": dict(new.metadata),
                "created_at": now,
                "modified_at": now,
            }
            unit = UnitOfWork()
            unit.insert(tables.Model, row)
            await self._store.commit(unit)
            log.info("model created", model=id_, name=name, by=str(by))
            return id_

        return await self._queue.run(turn)

    async def patch(self, model_id: int, patch: ModelPatch, *, by: Actor) -> None:
        """Raises NotFound, Conflict, InvalidArgument, and InvalidState for one that is archived."""
        name = new_name(patch.name) if patch.name is not None else None

        async def turn() -> None:
            row = await changeable(self._store, model_id)
            values: dict[str, object] = {
                "description": patch.description,
                "notes": patch.notes,
                "labels": None if patch.labels is None else once(patch.labels),
                "meta": None if patch.metadata is None else dict(patch.metadata),
            }
            if name is not None and name != row.name:
                await self._require_free(name)
                values["name"] = name
            if patch.workspace_id not in (None, row.workspace_id):
                await _require_open(self._store, patch.workspace_id)
                values["workspace_id"] = patch.workspace_id
            await self._update(row, {k: v for k, v in values.items() if v is not None}, by)

        await self._queue.run(turn)

    async def set_archived(self, model_id: int, archived: bool, *, by: Actor) -> None:
        """Raises NotFound, and InvalidState while its workspace is archived."""

        async def turn() -> None:
            row = await model_row(self._store, model_id)
            await _require_open(self._store, row.workspace_id)
            if row.archived != archived:
                await self._update(row, {"archived": archived}, by)

        await self._queue.run(turn)

    async def delete(self, model_id: int, *, by: Actor) -> None:
        """With all its versions; their checkpoints stay. Raises NotFound."""

        async def turn() -> None:
            row = await model_row(self._store, model_id)
            unit = UnitOfWork()
            unit.delete(tables.ModelVersion, {"model_id": model_id})
            unit.extend(forget_users({"model_id": model_id}))
            unit.delete(tables.Model, {"id": model_id})
            await self._store.commit(unit)
            log.info("model deleted", model=model_id, name=row.name, by=str(by))

        await self._queue.run(turn)

    async def _update(self, row: tables.Model, values: Mapping[str, object], by: Actor) -> None:
        if values:
            unit = UnitOfWork()
            changed = {**values, "modified_at": self._clock.now()}
            unit.update(tables.Model, {"id": row.id}, changed, expect=1)
            await self._store.commit(unit)
            log.info("model changed", model=row.id, changed=sorted(values), by=str(by))

    async def _require_free(self, name: str) -> None:
        model = tables.Model
        if await self._store.read_one(select(model.id).where(model.name == name)) is not None:
            raise Conflict(
                f"name: {name!r} is taken: avoid names equal to other models (case-sensitive)"
            )


async def model_row(store: Store, model_id: int) -> tables.Model:
    model = tables.Model
    row = await store.read_one(select(model).where(model.id == model_id))
    if row is None:
        raise NotFound("model", model_id)
    return row


async def changeable(store: Store, model_id: int) -> tables.Model:
    """Raises NotFound, and InvalidState for one that is archived, or is in an archived workspace."""
    row = await model_row(store, model_id)
    if row.archived:
        raise InvalidState(f"model {row.name!r} is archived: unarchive it first")
    await _require_open(store, row.workspace_id)
    return row


async def _require_open(store: Store, workspace_id: int | None) -> None:
    workspace = tables.Workspace
    row = await store.read_one(select(workspace).where(workspace.id == workspace_id))
    if row is None:
        raise NotFound("workspace", workspace_id)
    require_open(row)


def forget_users(where: Mapping[str, object]) -> UnitOfWork:
    """Trials that said which version they use say from now on only which checkpoint: another model may get the id."""
    unit = UnitOfWork()
    unit.update(tables.TrialSource, where, {"model_id": None, "model_version": None})
    return unit


def once(labels: Sequence[str]) -> list[str]:
    """Each of them, in order."""
    return list(dict.fromkeys(labels))
