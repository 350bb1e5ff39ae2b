"""What is fixed for the work of a workspace: config policies, the pools that it may use, and its own defaults."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import select

from master.allocations.policy import WorkspaceDefaults
from master.config_policies.queries import ConfigPolicyQueries
from master.core.expconf.policies import Policies, WorkloadType
from master.core.jobs import JobChange, JobType, SetPool
from master.pool_bindings.queries import PoolBindingQueries
from master.store import tables
from master.store.store import Store


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
