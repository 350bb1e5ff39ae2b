"""What live updates tell of: three kinds of entities, read from the store and written as clients know them.

Clients make an object of each by its keys: there must be no other, and none may be missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Select, SQLColumnExpression, and_, func, or_, select

from master.auth.actions import Action
from master.core.updates.subscription import Features, Filter, Present, ShownRow
from master.core.visibility import Visibility
from master.store import tables
from master.store.sql.changes import MODELS, PROJECTS, VERSIONS
from master.store.store import Store
from master.store.visible import workspace_visible

_P, _M, _V, _C = tables.Project, tables.Model, tables.ModelVersion, tables.Change
_seq = func.coalesce(_C.seq, 0)
AT_ONCE = 500
"""Rows in one query."""


@dataclass(frozen=True, slots=True)
class Entity:
    features: Features
    seq: int
    text: str
    """The message that tells of it."""


class _Present(NamedTuple):
    id: int
    seq: int
    workspace_id: int


class _Read(NamedTuple):
    row: Any
    seq: int
    workspace_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    name: str
    """In subscriptions; `<name>_deleted` tells of deletions."""
    one: str
    """The key of a message that tells of one."""
    action: Action
    """Its visibility is that of these."""
    columns: Mapping[str, SQLColumnExpression[int]]
    """By the features that filters may name."""
    workspace: SQLColumnExpression[int]
    rows: Select[Any, int, int]
    """Of `_Read`."""
    features: Callable[[_Read], Features]
    fields: Callable[[_Read], Mapping[str, object]]

    def present(self, where: Filter, visible: Visibility) -> Select[int, int, int]:
        chosen: dict[str, list[int]] = {}
        for feature, value in where.features:
            chosen.setdefault(feature, []).append(value)
        any_of = [self.columns[feature].in_(sorted(v)) for feature, v in chosen.items()]
        columns = (self.columns["id"], _seq, self.workspace)
        matching = self.rows.with_only_columns(*columns).where(or_(*any_of))
        return matching.where(*workspace_visible(self.workspace, visible))

    def deleted(self, ids: object) -> str:
        """The message that tells that these are gone: a set of ids as text."""
        return _text({f"{self.name}_deleted": str(ids)})


def _text(message: Mapping[str, object]) -> str:
    try:
        return orjson.dumps(message).decode()
    except TypeError:  # half of a surrogate pair in somebody's metadata
        return json.dumps(message)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def _project(read: _Read) -> Mapping[str, object]:
    row = read.row
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "archived": row.archived,
        "created_at": _seconds(row.created_at),
        "notes": row.notes,
        "workspace_id": row.workspace_id,
        "user_id": row.user_id,
        "immutable": row.immutable,
        "state": row.state or "UNSPECIFIED",
        "key": row.key,
        "seq": read.seq,
    }


def _model(read: _Read) -> Mapping[str, object]:
    row = read.row
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "archived": row.archived,
        "creation_time": _seconds(row.created_at),
        "notes": row.notes,
        "workspace_id": row.workspace_id,
        "user_id": row.owner_id,
        "last_updated_time": _seconds(row.modified_at),
        "metadata": row.meta,
        "labels": row.labels,
        "seq": read.seq,
    }


def _version(read: _Read) -> Mapping[str, object]:
    row = read.row
    return {
        "id": row.id,
        "name": row.name,
        "version": row.version,
        "checkpoint_uuid": row.checkpoint_uuid,
        "creation_time": _seconds(row.created_at),
        "last_updated_time": _seconds(row.modified_at),
        "metadata": row.meta,
        "model_id": row.model_id,
        "user_id": row.owner_id,
        "comment": row.comment,
        "labels": row.labels,
        "notes": row.notes,
        "workspace_id": str(read.workspace_id),
        "seq": read.seq,
    }


def _numbered(
    statement: Select[Any, int, int], kind: str, id_: SQLColumnExpression[int]
) -> Select[Any, int, int]:
    return statement.outerjoin(_C, and_(_C.kind == kind, _C.entity_id == id_))


KINDS: Sequence[Kind] = (
    Kind(
        name=PROJECTS,
        one="project",
        action=Action.VIEW_PROJECTS,
        columns={"id": _P.id, "workspace": _P.workspace_id},
        workspace=_P.workspace_id,
        rows=_numbered(select(_P, _seq, _P.workspace_id).select_from(_P), PROJECTS, _P.id),
        features=lambda r: Features(r.row.id, r.workspace_id, r.row.user_id),
        fields=_project,
    ),
    Kind(
        name=MODELS,
        one="model",
        action=Action.VIEW_MODELS,
        columns={"id": _M.id, "workspace": _M.workspace_id, "user": _M.owner_id},
        workspace=_M.workspace_id,
        rows=_numbered(select(_M, _seq, _M.workspace_id).select_from(_M), MODELS, _M.id),
        features=lambda r: Features(r.row.id, r.workspace_id, r.row.owner_id),
        fields=_model,
    ),
    Kind(
        name=VERSIONS,
        one="modelversion",
        action=Action.VIEW_MODELS,
        columns={"id": _V.id, "model": _V.model_id, "user": _V.owner_id},
        workspace=_M.workspace_id,
        rows=_numbered(
            select(_V, _seq, _M.workspace_id).select_from(_V).join(_M, _M.id == _V.model_id),
            *(VERSIONS, _V.id),
        ),
        features=lambda r: Features(r.row.id, r.workspace_id, r.row.owner_id, r.row.model_id),
        fields=_version,
    ),
)
KIND_OF: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}


class Entities:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def present(self, kind: Kind, where: Filter, visible: Visibility) -> Present:
        """All that is there of a filter, for one who sees this."""
        if not where.features:
            return {}
        rows = await self._store.read(kind.present(where, visible), _Present)
        return {row.id: ShownRow(row.seq, row.workspace_id) for row in rows}

    async def last_change(self) -> int:
        """Its number; 0: there was none yet."""
        return await self._store.read_one(select(func.coalesce(func.max(_C.seq), 0))) or 0

    async def read(self, kind: Kind, ids: Collection[int], upto: int) -> Mapping[int, Entity]:
        """Those that are there. A higher number than `upto` is told as that."""
        found: dict[int, Entity] = {}
        asked = sorted(ids)
        for start in range(0, len(asked), AT_ONCE):
            here = kind.columns["id"].in_(asked[start : start + AT_ONCE])
            for newest in await self._store.read(kind.rows.where(here), _Read):
                read = newest._replace(seq=min(newest.seq, upto))
                text = _text({kind.one: kind.fields(read)})
                features = kind.features(read)
                found[features.id] = Entity(features, read.seq, text)
        return found
