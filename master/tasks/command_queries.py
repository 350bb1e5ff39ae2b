"""Reads of commands, those that are over included, for the API: one or two queries each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Select, or_, select

from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Page, Paged, Sorts, read_page
from master.store.store import Store
from master.store.visible import workspace_visible
from windlass.base.errors import NotFound

_C, _U = tables.Command, tables.User

SORTS: Sorts = {
    "start_time": _C.created_at,
    "id": _C.id,
    "description": _C.description,
    "workspace_id": _C.workspace_id,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFilter:
    """All given conditions must hold; an owner is named by name or by id."""

    users: tuple[str, ...] = ()
    """In lower case."""
    user_ids: tuple[int, ...] = ()
    workspace_id: int = 0
    """0: all."""


class CommandRow(NamedTuple):
    command: tables.Command
    username: str
    display_name: str


class CommandQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def command(self, command_id: str, visible: Visibility) -> CommandRow:
        row = await self._store.read_one(_commands(visible).where(_C.id == command_id), CommandRow)
        if row is None:
            raise NotFound("command", command_id)
        return row

    async def commands(
        self, where: CommandFilter, page: Page, visible: Visibility
    ) -> Paged[CommandRow]:
        statement = _commands(visible)
        if where.users or where.user_ids:
            statement = statement.where(
                or_(_U.username.in_(where.users), _C.owner_id.in_(where.user_ids))
            )
        if where.workspace_id:
            statement = statement.where(_C.workspace_id == where.workspace_id)
        return await read_page(self._store, statement, CommandRow, SORTS, page, _C.id)


def _commands(visible: Visibility) -> Select[tables.Command, str, str]:
    return (
        select(_C, _U.username, _U.display_name)
        .join(_U, _U.id == _C.owner_id)
        .where(*workspace_visible(_C.workspace_id, visible))
    )
