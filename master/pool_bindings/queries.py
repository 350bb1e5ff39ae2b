"""Reads of bindings: a pool without any is everybody's, one with bindings is of those workspaces alone."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import select

from master.core.visibility import Visibility
from master.store import tables
from master.store.store import Store
from windlass.base.errors import InvalidArgument

_B = tables.PoolBinding


class PoolBindingQueries:
    def __init__(self, store: Store, pools: Callable[[], Collection[str]]) -> None:
        """`pools`: those of master.yaml. A binding to another one stays, without effect."""
        self._store = store
        self.pools = pools

    async def workspaces(self, pool: str) -> list[int]:
        """In order of their ids."""
        return await self._store.read(
            select(_B.workspace_id).where(_B.pool == pool).order_by(_B.workspace_id)
        )

    async def usable(self, workspace_id: int) -> list[str]:
        """By name."""
        rows = await self._store.read(select(_B))
        bound = {row.pool for row in rows}
        own = {row.pool for row in rows if row.workspace_id == workspace_id}
        return sorted(pool for pool in self.pools() if pool not in bound or pool in own)

    async def hidden(self, visible: Visibility) -> frozenset[str]:
        """Those that are kept for workspaces of which none is visible."""
        if visible.is_everything:
            return frozenset()
        rows = await self._store.read(select(_B))
        return frozenset(row.pool for row in rows) - {
            row.pool for row in rows if row.workspace_id in visible
        }

    async def bound(self) -> frozenset[str]:
        """Those that are not everybody's."""
        return frozenset(await self._store.read(select(_B.pool).distinct()))

    async def require_usable(self, pool: str, workspace_id: int) -> None:
        """Raises InvalidArgument for a pool that is not there or is kept for other workspaces, in the same words."""
        usable = await self.usable(workspace_id)
        if pool not in usable:
            raise InvalidArgument(
                f"resource pool '{pool}' does not exist or is not available to workspace {workspace_id}: "
                f"use one of {', '.join(usable) or 'none'}, or ask an administrator"
            )
