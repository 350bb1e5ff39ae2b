"""Reads of templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Select, select

from master.core.expconf.templates import Template
from master.core.names import plain_name
from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Page, Paged, Sorts, read_page
from master.store.store import Store
from master.store.visible import workspace_visible
from windlass.base.errors import NotFound

_T, _U = tables.Template, tables.User
SORTS: Sorts = {"name": _T.name}


class TemplateRow(NamedTuple):
    template: tables.Template
    username: str
    """Of its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFilter:
    """All given conditions must hold."""

    name: str = ""
    """A part of it, in letters of any case."""
    workspace_ids: tuple[int, ...] = ()


class TemplateQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def templates(
        self, where: TemplateFilter, page: Page, visible: Visibility
    ) -> Paged[TemplateRow]:
        statement = _templates(visible)
        if where.name:
            statement = statement.where(_T.name.icontains(plain_name(where.name), autoescape=True))
        if where.workspace_ids:
            statement = statement.where(_T.workspace_id.in_(where.workspace_ids))
        return await read_page(self._store, statement, TemplateRow, SORTS, page, _T.id)

    async def template(self, name: str, visible: Visibility) -> TemplateRow:
        """Raises NotFound, whose words the published client reads."""
        row = await self.find(name, visible)
        if row is None:
            raise NotFound("template", name)
        return row

    async def find(self, name: str, visible: Visibility) -> TemplateRow | None:
        statement = _templates(visible).where(_T.name == plain_name(name))
        return await self._store.read_one(statement, TemplateRow)

    async def applied(self, name: str, visible: Visibility) -> Template | None:
        """The one that a launch names; None if it names none. Raises NotFound."""
        if not name:
            return None
        row = (await self.template(name, visible)).template
        return Template(name=row.name, config=row.config)


def _templates(visible: Visibility) -> Select[tables.Template, str]:
    return (
        select(_T, _U.username)
        .join(_U, _U.id == _T.owner_id)
        .where(*workspace_visible(_T.workspace_id, visible))
    )
