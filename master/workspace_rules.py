"""What is fixed for the work of a workspace: config policies, the pools that it may use, and its own defaults."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from sqlalchemy import ColumnElement, select

from master.allocations.policy import WorkspaceDefaults
from master.config_policies.queries import ConfigPolicyQueries
from master.core.expconf.policies import Policies, WorkloadType
from master.core.jobs import JobChange, JobType, SetPool
from master.pool_bindings.queries import PoolBindingQueries
from master.store import tables
from master.store.store import Store
from windlass.base.errors import InvalidState

_ENDED = ("COMPLETED", "CANCELED", "ERROR", "DELETING", "DELETE_FAILED")
NAMED_AT_MOST = 5
"""Experiments in one error."""


class _InPool(NamedTuple):
    id: int
    pool: str


class WorkspaceRules:
    """Read anew for each submission and each change: what an administrator says counts at once."""

    def __init__(self, store: Store, pools: Callable[[], Collection[str]]) -> None:
        """`pools`: those of master.yaml."""
        self._store = store
        self.config_policies = ConfigPolicyQueries(store)
        self.pool_bindings = PoolBindingQueries(store, pools)

    async def policies(self, workspace_id: int, workload: WorkloadType) -> Policies:
        return await self.config_policies.effective(workspace_id, workload)

    async def defaults(self, workspace_id: int) -> WorkspaceDefaults:
        """One that is gone by now says nothing."""
        workspace = tables.Workspace
        row = await self._store.read_one(select(workspace).where(workspace.id == workspace_id))
        usable = frozenset(await self.pool_bindings.usable(workspace_id))
        if row is None:
            return WorkspaceDefaults(workspace_id=workspace_id, usable=usable)
        return WorkspaceDefaults(
            workspace_id=workspace_id,
            usable=usable,
            compute_pool=row.default_compute_pool,
            aux_pool=row.default_aux_pool,
            checkpoint_storage=row.checkpoint_storage or {},
        )

    async def require_pool(self, pool: str, workspace_id: int) -> None:
        """Raises InvalidArgument for a pool that is not there or is kept for other workspaces."""
        await self.pool_bindings.require_usable(pool, workspace_id)

    async def require_takes(self, workspace_id: int, experiments: ColumnElement[bool]) -> None:
        """These may be moved there. Raises InvalidState for those that have not ended in a pool that it may not use."""
        usable = await self.pool_bindings.usable(workspace_id)
        one = tables.Experiment
        rows = await self._store.read(
            select(one.id, one.resource_pool)
            .where(
                experiments,
                one.unmanaged.is_(False),
                one.state.not_in(_ENDED),
                one.resource_pool.not_in(usable),
            )
            .order_by(one.id)
            .limit(NAMED_AT_MOST + 1),
            _InPool,
        )
        if rows:
            named = ", ".join(f"{row.id} ('{row.pool}')" for row in rows[:NAMED_AT_MOST])
            more = " and more" if len(rows) > NAMED_AT_MOST else ""
            raise InvalidState(
                f"workspace {workspace_id} may not use the resource pools of experiments that have not ended: "
                f"{named}{more}: end them, give them one of {', '.join(usable) or 'none'}, or ask an administrator "
                "to bind the pools"
            )

    async def require_experiment(
        self,
        workspace_id: int,
        *,
        slots: int,
        priority: int | None,
        weight: float,
        max_slots: int | None,
    ) -> None:
        """Of one that was submitted before, and is to run now. Raises InvalidArgument."""
        policies = await self.policies(workspace_id, WorkloadType.EXPERIMENT)
        policies.require(slots=slots, max_slots=None, priority=None)
        policies.require_order(priority=priority, weight=weight, max_slots=max_slots)

    async def require_change(self, change: JobChange, workspace_id: int, job: JobType) -> None:
        """Of a job that is in the queue. Raises InvalidArgument."""
        policies = await self.policies(workspace_id, WorkloadType.of(job))
        policies.require_change(change)
        if isinstance(change, SetPool):
            await self.require_pool(change.pool, workspace_id)
