"""What administrators do with bindings. What runs and waits in a pool is not touched by a change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import select

from master.core.actor import Actor
from master.pool_bindings.queries import PoolBindingQueries
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.errors import Conflict, InvalidArgument, NotFound

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspaces:
    """By their ids, their names, or both."""

    ids: Sequence[int] = ()
    names: Sequence[str] = ()


class PoolBindingService:
    """One change at a time."""

    def __init__(
        self, store: Store, queries: PoolBindingQueries, *, defaults: Collection[str | None]
    ) -> None:
        """`defaults`: pools of work that names none, which stay everybody's."""
        self._store = store
        self._queries = queries
        self._defaults = frozenset(defaults)
        self._queue = SerialQueue("pool bindings")

    async def bind(self, pool: str, given: Workspaces, *, by: Actor) -> None:
        """Raises NotFound, InvalidArgument for a default pool, Conflict for a binding that is there."""
        self._require_bindable(pool)

        async def turn() -> None:
            wanted = await self._some_workspaces(given)
            if taken := sorted(set(await self._queries.workspaces(pool)) & set(wanted)):
                raise Conflict(
                    f"resource pool '{pool}' is bound to {_named(wanted[id_] for id_ in taken)} already"
                )
            await self._write(pool, add=wanted, remove=(), by=by)

        await self._queue.run(turn)

    async def unbind(self, pool: str, given: Workspaces, *, by: Actor) -> None:
        """Raises NotFound for unknown workspaces, and for a binding that is not there."""

        async def turn() -> None:
            wanted = await self._some_workspaces(given)
            if strange := sorted(set(wanted) - set(await self._queries.workspaces(pool))):
                names = _named(wanted[id_] for id_ in strange)
                raise NotFound("binding", f"{pool} to {names}")
            await self._write(pool, add=(), remove=wanted, by=by)

        await self._queue.run(turn)

    async def replace(self, pool: str, given: Workspaces, *, by: Actor) -> None:
        """With none it is everybody's again. Raises NotFound, InvalidArgument for a default pool."""
        self._require_bindable(pool)

        async def turn() -> None:
            wanted, bound = (
                set(await self._workspaces(given)),
                set(await self._queries.workspaces(pool)),
            )
            await self._write(pool, add=wanted - bound, remove=bound - wanted, by=by)

        await self._queue.run(turn)

    def _require_bindable(self, pool: str) -> None:
        if pool not in self._queries.pools():
            raise NotFound("resource pool", pool)
        if pool in self._defaults:
            raise InvalidArgument(
                f"resource pool '{pool}' is a default pool, which stays everybody's: "
                "make another one the default in master.yaml first"
            )

    async def _some_workspaces(self, given: Workspaces) -> dict[int, str]:
        """Raises InvalidArgument if none is given, and as the next one does."""
        if not given.ids and not given.names:
            raise InvalidArgument("workspaceIds and workspaceNames: name at least one workspace")
        return await self._workspaces(given)

    async def _workspaces(self, given: Workspaces) -> dict[int, str]:
        """Id -> name, of all. Raises NotFound with those that are not there."""
        workspace = tables.Workspace
        keys = {tables.name_key(name): name for name in given.names}
        rows = await self._store.read(
            select(workspace).where(
                workspace.id.in_(given.ids) | workspace.name_key.in_(list(keys))
            )
        )
        found = {row.id: row.name for row in rows}
        lost = [str(id_) for id_ in given.ids if id_ not in found]
        lost += [name for key, name in keys.items() if key not in {row.name_key for row in rows}]
        if lost:
            raise NotFound("workspace", ", ".join(lost))
        return found

    async def _write(
        self, pool: str, *, add: Iterable[int], remove: Iterable[int], by: Actor
    ) -> None:
        unit = UnitOfWork()
        for workspace_id in add:
            unit.insert(tables.PoolBinding, {"pool": pool, "workspace_id": workspace_id})
        for workspace_id in remove:
            unit.delete(tables.PoolBinding, {"pool": pool, "workspace_id": workspace_id})
        await self._store.commit(unit)
        log.info("pool bindings changed", pool=pool, by=str(by))


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"workspace {name}" for name in names)
