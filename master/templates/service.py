"""What users do with templates: create, change, rename, remove. What has been launched with one stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import structlog
from sqlalchemy import func, select

from master.core.actor import Actor
from master.core.expconf.templates import check_template, new_name
from master.core.names import plain_name
from master.core.visibility import EVERYTHING
from master.parsing import in_parsing_thread
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.templates.queries import TemplateQueries
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.formats.json_types import JsonMapping

log = structlog.get_logger(__name__)

MAX_TEMPLATES = 10_000
"""A program that makes one for each of its runs is told so, and fills no database."""

May: TypeAlias = Callable[[tables.Template], None]
"""Raises PermissionDenied for a template that the caller may not change: a name may be another's by now."""
Warnings: TypeAlias = tuple[str, ...]
"""Who cannot use what was stored, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTemplate:
    name: str
    config: JsonMapping
    workspace_id: int


class TemplateService:
    """All templates of this master. One change at a time: a name is looked up and taken in one step."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._queries = TemplateQueries(store)
        self._queue = SerialQueue("templates")

    async def create(self, new: NewTemplate, *, by: Actor) -> Warnings:
        """It belongs to `by`. Raises Conflict, InvalidArgument, InvalidConfig."""
        name = new_name(new.name)
        warnings = await in_parsing_thread(check_template, new.config)
        await self._queue.run(lambda: self._create(name, new, by))
        return warnings

    async def put(self, new: NewTemplate, *, by: Actor, may: May) -> Warnings:
        """Create it, or replace the configuration of the one that is there, which stays in its workspace."""
        name = new_name(new.name)
        warnings = await in_parsing_thread(check_template, new.config)

        async def turn() -> None:
            if await self._queries.find(name, EVERYTHING) is None:
                await self._create(name, new, by)
            else:
                await self._set_config(name, new.config, by, may)

        await self._queue.run(turn)
        return warnings

    async def set_config(self, name: str, config: JsonMapping, *, by: Actor, may: May) -> Warnings:
        """Replace it whole. Raises NotFound, PermissionDenied, InvalidConfig."""
        warnings = await in_parsing_thread(check_template, config)
        await self._queue.run(lambda: self._set_config(plain_name(name), config, by, may))
        return warnings

    async def rename(self, old: str, new: str, *, by: Actor, may: May) -> str:
        """Its new name, as it is written. Raises NotFound, PermissionDenied, Conflict, InvalidArgument."""
        name = new_name(new, field="newName")
        await self._queue.run(lambda: self._rename(plain_name(old), name, by, may))
        return name

    async def remove(self, name: str, *, by: Actor, may: May) -> None:
        """Raises NotFound, PermissionDenied."""
        await self._queue.run(lambda: self._remove(plain_name(name), by, may))

    async def _create(self, name: str, new: NewTemplate, by: Actor) -> None:
        await self._require_free(name)
        number = await self._store.read_one(select(func.count()).select_from(tables.Template))
        if (number or 0) >= MAX_TEMPLATES:
            raise InvalidArgument(f"there are {MAX_TEMPLATES} templates already: remove some")
        now = self._clock.now()
        row = {
            "id": self._store.next_id(tables.Template),
            "name": name,
            "workspace_id": new.workspace_id,
            "owner_id": by.user_id,
            "config": dict(new.config),
            "created_at": now,
            "modified_at": now,
        }
        unit = UnitOfWork()
        unit.insert(tables.Template, row)
        await self._store.commit(unit)
        log.info("template created", name=name, by=str(by))

    async def _set_config(self, name: str, config: JsonMapping, by: Actor, may: May) -> None:
        row = await self._mine(name, may)
        await self._update(row, config=dict(config))
        log.info("template changed", name=name, by=str(by))

    async def _rename(self, old: str, new: str, by: Actor, may: May) -> None:
        row = await self._mine(old, may)
        if new != old:
            await self._require_free(new)
            await self._update(row, name=new)
            log.info("template renamed", name=old, new_name=new, by=str(by))

    async def _remove(self, name: str, by: Actor, may: May) -> None:
        row = await self._mine(name, may)
        unit = UnitOfWork()
        unit.delete(tables.Template, {"id": row.id})
        await self._store.commit(unit)
        log.info("template removed", name=name, by=str(by))

    async def _update(self, row: tables.Template, **values: object) -> None:
        unit = UnitOfWork()
        changed = {**values, "modified_at": self._clock.now()}
        unit.update(tables.Template, {"id": row.id}, changed, expect=1)
        await self._store.commit(unit)

    async def _mine(self, name: str, may: May) -> tables.Template:
        row = (await self._queries.template(name, EVERYTHING)).template
        may(row)
        return row

    async def _require_free(self, name: str) -> None:
        if await self._queries.find(name, EVERYTHING) is not None:
            raise Conflict(f"template '{name}' already exists: give another name, or change it")
