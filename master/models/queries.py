"""Reads of models and their versions, and of the trials that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, SQLColumnExpression, exists, func, select

from master.core.names import plain_name
from master.core.visibility import Visibility
from master.models.names import id_in
from master.store import tables
from master.store.paging import Page, Paged, read_page
from master.store.sql.portable import Portable, fold, portable
from master.store.store import Store
from master.store.visible import Conditions, experiment_visible, workspace_visible
from windlass.base.errors import NotFound

_M, _V, _U, _W, _S, _T = (
    tables.Model,
    tables.ModelVersion,
    tables.User,
    tables.Workspace,
    tables.TrialSource,
    tables.Trial,
)
_versions = select(func.count()).where(_V.model_id == _M.id).correlate(_M).scalar_subquery()
_VERSION_SORTS: Mapping[str, SQLColumnExpression[Any]] = {
    "version": _V.version,
    "creation_time": _V.created_at,
}


class ModelRow(NamedTuple):
    model: tables.Model
    username: str
    """Of its owner."""
    num_versions: int


class VersionRow(NamedTuple):
    version: tables.ModelVersion
    username: str
    """Of who registered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFilter:
    """All given conditions must hold."""

    id: int = 0
    name: str = ""
    """A part of it, in letters of any case, as the description."""
    description: str = ""
    labels: tuple[str, ...] = ()
    """One of them is enough."""
    archived: bool | None = None
    users: tuple[str, ...] = ()
    user_ids: tuple[int, ...] = ()
    workspace_names: tuple[str, ...] = ()
    workspace_ids: tuple[int, ...] = ()


class ModelQueries:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._db = portable(store.dialect)
        text = self._db.by_code_points
        self._sorts: Mapping[str, SQLColumnExpression[Any]] = {
            "id": _M.id,
            "name": text(self._db.folded(_M.name)),
            "description": text(self._db.folded(_M.description)),
            "creation_time": _M.created_at,
            "last_updated_time": _M.modified_at,
            "num_versions": _versions,
            "workspace": text(_W.name_key),
        }

    async def models(self, where: ModelFilter, page: Page, visible: Visibility) -> Paged[ModelRow]:
        statement = _models(visible).where(*_conditions(self._db, where))
        return await read_page(self._store, statement, ModelRow, self._sorts, page, _M.id)

    async def model(self, identifier: str, visible: Visibility) -> ModelRow:
        """By its id if that has only digits, else by its name. Raises NotFound."""
        id_ = id_in(identifier)
        here = _M.name == plain_name(identifier) if id_ is None else _M.id == id_
        row = await self._store.read_one(_models(visible).where(here), ModelRow)
        if row is None:
            raise NotFound("model", identifier)
        return row

    async def labels(self, visible: Visibility, *, workspace_id: int = 0) -> list[str]:
        """The most frequent first. Of one workspace, or of all for 0."""
        items = self._db.items(_M.labels, ())
        text = items.leaf.text
        here = [*workspace_visible(_M.workspace_id, visible)]
        if workspace_id:
            here.append(_M.workspace_id == workspace_id)
        statement = (
            select(text)
            .select_from(_M, *items.tables)
            .where(*items.where, text.is_not(None), *here)
            .group_by(text)
            .order_by(func.count().desc(), self._db.by_code_points(text))
        )
        return await self._store.read(statement)

    async def versions(self, model_id: int, page: Page) -> Paged[VersionRow]:
        """Of a model that its reader may see."""
        statement = _rows_of(model_id)
        return await read_page(self._store, statement, VersionRow, _VERSION_SORTS, page, _V.id)

    async def version(self, model: tables.Model, number: int) -> VersionRow:
        """Of a model that its reader may see. Raises NotFound."""
        statement = _rows_of(model.id).where(_V.version == number)
        row = await self._store.read_one(statement, VersionRow)
        if row is None:
            raise NotFound(f"version of model {model.name!r}", number)
        return row

    async def users_of_version(
        self, model_id: int, number: int, kind: str, visible: Visibility
    ) -> list[int]:
        """Trials that said that they use it: as `kind`, or at all if that is empty."""
        return await self._trials(
            (_S.model_id == model_id, _S.model_version == number), kind, visible
        )

    async def users_of_checkpoint(self, uuid: str, kind: str, visible: Visibility) -> list[int]:
        """The same of a checkpoint, which may have been a version of any model."""
        return await self._trials((_S.checkpoint_uuid == uuid,), kind, visible)

    async def _trials(self, here: Any, kind: str, visible: Visibility) -> list[int]:
        statement = (
            select(_S.trial_id)
            .join(_T, _T.id == _S.trial_id)
            .where(*here, *experiment_visible(_T.experiment_id, visible))
            .order_by(_S.trial_id)
            .distinct()
        )
        return await self._store.read(statement.where(_S.kind == kind) if kind else statement)


def _conditions(db: Portable, where: ModelFilter) -> Conditions:
    """A text compares without case in ASCII letters alone, which all databases can."""
    conditions: Conditions = []
    for column, part in ((_M.name, plain_name(where.name)), (_M.description, where.description)):
        if part:
            conditions.append(db.contains(db.folded(column), fold(part)))
    if where.labels:
        items = db.items(_M.labels, ())
        one = items.leaf.text.in_(where.labels)
        conditions.append(exists().select_from(*items.tables).where(*items.where, one))
    if where.archived is not None:
        conditions.append(_M.archived.is_(where.archived))
    among: Sequence[tuple[SQLColumnExpression[Any], Sequence[object]]] = (
        (_M.id, (where.id,) if where.id else ()),
        (_U.username, where.users),
        (_M.owner_id, where.user_ids),
        (_W.name, where.workspace_names),
        (_M.workspace_id, where.workspace_ids),
    )
    conditions += [column.in_(values) for column, values in among if values]
    return conditions


def _models(visible: Visibility) -> Select[tables.Model, str, int]:
    return (
        select(_M, _U.username, _versions)
        .join(_U, _U.id == _M.owner_id)
        .join(_W, _W.id == _M.workspace_id)
        .where(*workspace_visible(_M.workspace_id, visible))
    )


def _rows_of(model_id: int) -> Select[tables.ModelVersion, str]:
    return select(_V, _U.username).join(_U, _U.id == _V.owner_id).where(_V.model_id == model_id)
