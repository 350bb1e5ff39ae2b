"""Reads of interactive tasks, those that are over included, for the API: one or two queries each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Select, func, or_, select

from master.core.jobs import JobType
from master.core.visibility import Visibility
from master.store import tables
from master.store.paging import Page, Paged, Sorts, read_page
from master.store.store import Store
from master.store.visible import interactive_visible
from master.tasks.kinds import KINDS
from master.tasks.state import TaskPhase
from windlass.base.errors import NotFound

_C, _U = tables.Command, tables.User

_ACTIVE = [phase.value for phase in TaskPhase if phase is not TaskPhase.TERMINATED]

SORTS: Sorts = {
    "start_time": _C.created_at,
    "id": _C.id,
    "description": _C.description,
    "workspace_id": _C.workspace_id,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractiveFilter:
    """All given conditions must hold; an owner is named by name or by id."""

    users: tuple[str, ...] = ()
    """In lower case."""
    user_ids: tuple[int, ...] = ()
    workspace_id: int = 0
    """0: all."""
    with_ended: bool = True


class InteractiveRow(NamedTuple):
    task: tables.Command
    username: str
    display_name: str


class _Count(NamedTuple):
    type: str
    number: int


class InteractiveQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def task(
        self, task_id: str, visible: Visibility, *, type_: JobType | None = None
    ) -> InteractiveRow:
        """`type_`: the kind that it must be of. Raises NotFound."""
        statement = _tasks(visible, type_).where(_C.id == task_id)
        row = await self._store.read_one(statement, InteractiveRow)
        if row is None:
            raise NotFound("task" if type_ is None else KINDS[type_].noun, task_id)
        return row

    async def tasks(
        self, type_: JobType, where: InteractiveFilter, page: Page, visible: Visibility
    ) -> Paged[InteractiveRow]:
        """Those of one kind."""
        statement = _tasks(visible, type_)
        if where.users or where.user_ids:
            statement = statement.where(
                or_(_U.username.in_(where.users), _C.owner_id.in_(where.user_ids))
            )
        if where.workspace_id:
            statement = statement.where(_C.workspace_id == where.workspace_id)
        if not where.with_ended:
            statement = statement.where(_C.ended_at.is_(None))
        return await read_page(self._store, statement, InteractiveRow, SORTS, page, _C.id)

    async def active_counts(self, visible: Visibility) -> Mapping[str, int]:
        """How many have not ended, by type; those of which there is none are left out."""
        rows = await self._store.read(
            select(_C.type, func.count())
            .where(_C.state.in_(_ACTIVE), *interactive_visible(visible))
            .group_by(_C.type),
            _Count,
        )
        return {row.type: row.number for row in rows}


def _tasks(visible: Visibility, type_: JobType | None) -> Select[tables.Command, str, str]:
    return (
        select(_C, _U.username, _U.display_name)
        .join(_U, _U.id == _C.owner_id)
        .where(*interactive_visible(visible))
        .where(*(() if type_ is None else (_C.type == type_.value,)))
    )
