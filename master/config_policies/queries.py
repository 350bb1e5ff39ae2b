"""Reads of config policies."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import or_, select

from master.core.expconf.policies import Policies, ScopedPolicy, WorkloadType, policy_of
from master.parsing import in_parsing_thread
from master.store import tables
from master.store.store import Store
from windlass.base.formats.json_types import JsonObject

_C, _W = tables.ConfigPolicy, tables.Workspace
THE_CLUSTER = "the cluster"


class PolicyRow(NamedTuple):
    policy: tables.ConfigPolicy
    workspace: str | None


class ConfigPolicyQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def document(self, workspace_id: int | None, workload: WorkloadType) -> JsonObject:
        """As it was written; `{}` if there is none. `workspace_id` None: the cluster's."""
        found = await self.row(workspace_id, workload)
        return {} if found is None else found.document

    async def row(
        self, workspace_id: int | None, workload: WorkloadType
    ) -> tables.ConfigPolicy | None:
        return await self._store.read_one(
            select(_C).where(
                _C.workload == workload.value, _C.workspace_id.is_not_distinct_from(workspace_id)
            )
        )

    async def effective(self, workspace_id: int, workload: WorkloadType) -> Policies:
        """The workspace's, and the cluster's over it."""
        rows = await self._store.read(
            select(_C, _W.name)
            .outerjoin(_W, _W.id == _C.workspace_id)
            .where(
                _C.workload == workload.value,
                or_(_C.workspace_id.is_(None), _C.workspace_id == workspace_id),
            ),
            PolicyRow,
        )
        rows.sort(key=lambda row: row.policy.workspace_id is None)
        return await in_parsing_thread(_policies, workload, rows) if rows else Policies(workload)


def scope_name(workspace: str | None) -> str:
    """In texts."""
    return THE_CLUSTER if workspace is None else f"workspace {workspace}"


def scoped(row: PolicyRow) -> ScopedPolicy:
    return ScopedPolicy(scope_name(row.workspace), policy_of(row.policy.document))


def _policies(workload: WorkloadType, rows: list[PolicyRow]) -> Policies:
    return Policies(workload, [scoped(row) for row in rows])
