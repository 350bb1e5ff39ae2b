"""Views of lists that users keep, for themselves or for all who see a project or a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog
from sqlalchemy import and_, func, or_, select

from master.core.actor import Actor
from master.core.visibility import Visibility
from master.experiments.finding.columns import Table
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.store.visible import project_visible, workspace_visible
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument, NotFound

log = structlog.get_logger(__name__)

MAX_VIEWS = 500
"""Of one user."""
MAX_SHOWN = 1_000
"""One's own are always among them."""
MAX_NAME_CHARS = 200
MAX_CHARS = 10_000
"""Of filter, order and columns together: the views of a list are read at once."""

_V, _U = tables.SavedView, tables.User


@dataclass(frozen=True, slots=True, kw_only=True)
class NewView:
    """A filter, an order and columns, as people write them."""

    table: Table
    name: str
    filter: str
    sort: str
    columns: Sequence[str] | None
    """None: the usual ones."""
    archived: bool
    project_id: int | None = None
    workspace_id: int | None = None


class ViewRow(NamedTuple):
    view: tables.SavedView
    username: str
    """Of its owner."""


class SavedViews:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._queue = SerialQueue("saved views")

    async def views(self, table: Table, reader: int, visible: Visibility) -> list[ViewRow]:
        """The reader's own, and then those that are shared where the reader sees; each by name."""
        shared = [
            and_(_V.project_id.is_not(None), *project_visible(_V.project_id, visible)),
            and_(_V.workspace_id.is_not(None), *workspace_visible(_V.workspace_id, visible)),
        ]
        return await self._store.read(
            select(_V, _U.username)
            .join(_U, _U.id == _V.owner_id)
            .where(_V.list == table, or_(_V.owner_id == reader, *shared))
            .order_by(_V.owner_id != reader, _V.name, _V.owner_id)
            .limit(MAX_SHOWN),
            ViewRow,
        )

    async def put(self, new: NewView, *, by: Actor) -> None:
        """Keep it, in the place of the user's own one of that name. Raises InvalidArgument."""
        if not new.name.strip() or len(new.name) > MAX_NAME_CHARS:
            raise InvalidArgument(f"name: must have 1 to {MAX_NAME_CHARS} characters")
        if new.project_id is not None and new.workspace_id is not None:
            raise InvalidArgument("projectId: a view is shared with a project or with a workspace")
        columns = None if new.columns is None else "\n".join(new.columns)
        if (size := len(new.filter) + len(new.sort) + len(columns or "")) > MAX_CHARS:
            raise InvalidArgument(
                f"filter, sort, columns: have {size} characters together, more than {MAX_CHARS}"
            )

        async def turn() -> None:
            mine = select(func.count()).where(_V.owner_id == by.user_id)
            others = mine.where(or_(_V.list != new.table, _V.name != new.name))
            if (await self._store.read_one(others) or 0) >= MAX_VIEWS:
                raise InvalidArgument(f"name: a user has at most {MAX_VIEWS} views: remove some")
            unit = UnitOfWork()
            unit.upsert(
                _V,
                {
                    "owner_id": by.user_id,
                    "list": str(new.table),
                    "name": new.name,
                    "filter": new.filter,
                    "sort": new.sort,
                    "columns": columns,
                    "archived": new.archived,
                    "project_id": new.project_id,
                    "workspace_id": new.workspace_id,
                    "modified_at": self._clock.now(),
                },
            )
            await self._store.commit(unit)
            log.info("view saved", list=str(new.table), name=new.name, by=str(by))

        await self._queue.run(turn)

    async def remove(self, table: Table, name: str, *, by: Actor) -> None:
        """One's own. Raises NotFound."""

        async def turn() -> None:
            here = (_V.owner_id == by.user_id, _V.list == table, _V.name == name)
            if await self._store.read_one(select(_V.name).where(*here)) is None:
                raise NotFound("view", name)
            unit = UnitOfWork()
            unit.delete(_V, {"owner_id": by.user_id, "list": str(table), "name": name})
            await self._store.commit(unit)
            log.info("view removed", list=str(table), name=name, by=str(by))

        await self._queue.run(turn)
