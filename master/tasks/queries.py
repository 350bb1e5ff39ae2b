"""Reads of commands, those that are over included, for the API: one or two queries each."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import or_, select
from sqlmodel import col

from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Page, Paged, Row, Sorts, Statement, read_page
from master.store.statements import table_of
from master.store.store import Store
from master.store.visible import workspace_visible
from windlass.base.errors import NotFound

_C, _U = tables.Command, tables.User

SORTS: Sorts = {
    "start_time": col(_C.created_at),
    "id": col(_C.id),
    "description": col(_C.description),
    "workspace_id": col(_C.workspace_id),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFilter:
    """All given conditions must hold; an owner is named by name or by id."""

    users: tuple[str, ...] = ()
    """In lower case."""
    user_ids: tuple[int, ...] = ()
    workspace_id: int = 0
    """0: all."""


class CommandQueries:
    """Rows of `tables.Command` with `username` and `display_name` of the owner."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def command(self, command_id: str, visible: Visibility) -> Row:
        row = await self._store.row(_commands(visible).where(col(_C.id) == command_id))
        if row is None:
            raise NotFound("command", command_id)
        return row

    async def commands(self, where: CommandFilter, page: Page, visible: Visibility) -> Paged[Row]:
        statement = _commands(visible)
        if where.users or where.user_ids:
            statement = statement.where(
                or_(col(_U.username).in_(where.users), col(_C.owner_id).in_(where.user_ids))
            )
        if where.workspace_id:
            statement = statement.where(col(_C.workspace_id) == where.workspace_id)
        return await read_page(self._store, statement, SORTS, page, tie=col(_C.id))


def _commands(visible: Visibility) -> Statement:
    return (
        select(table_of(_C), col(_U.username), col(_U.display_name))
        .join(_U, col(_U.id) == col(_C.owner_id))
        .where(*workspace_visible(col(_C.workspace_id), visible))
    )
