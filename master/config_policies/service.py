"""What administrators do with config policies: set and delete. What runs already stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from sqlalchemy import select

from master.config_policies.queries import (
    THE_CLUSTER,
    ConfigPolicyQueries,
    PolicyRow,
    scope_name,
    scoped,
)
from master.core.actor import Actor
from master.core.expconf.policies import (
    WHAT,
    Policies,
    PolicyText,
    ScopedPolicy,
    WorkloadType,
    read_policy,
)
from master.parsing import in_parsing_thread
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import Clock
from windlass.base.errors import InvalidConfig, NotFound
from windlass.base.formats.json_types import JsonObject

log = structlog.get_logger(__name__)


class ConfigPolicyService:
    """All policies of this master. One change at a time: each is checked against the others."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._queries = ConfigPolicyQueries(store)
        self._queue = SerialQueue("config policies")

    async def put(
        self, workspace_id: int | None, workload: WorkloadType, text: str, *, by: Actor
    ) -> JsonObject:
        """Replace it; the document as it was read. Raises InvalidArgument, InvalidConfig, NotFound."""
        new = await in_parsing_thread(read_policy, text, workload)

        async def turn() -> None:
            await self._require_consistent(workspace_id, workload, new)
            old = await self._queries.row(workspace_id, workload)
            values = {
                "document": new.document,
                "changed_by": by.user_id,
                "changed_at": self._clock.now(),
            }
            unit = UnitOfWork()
            if old is None:
                row = {
                    "id": self._store.next_id(tables.ConfigPolicy),
                    "workspace_id": workspace_id,
                    "workload": workload.value,
                }
                unit.insert(tables.ConfigPolicy, {**row, **values})
            else:
                unit.update(tables.ConfigPolicy, {"id": old.id}, values, expect=1)
            await self._store.commit(unit)
            log.info(
                "config policy set", workspace=workspace_id, workload=workload.value, by=str(by)
            )

        await self._queue.run(turn)
        return new.document

    async def delete(self, workspace_id: int | None, workload: WorkloadType, *, by: Actor) -> None:
        """One that is not there is no error."""

        async def turn() -> None:
            row = await self._queries.row(workspace_id, workload)
            if row is None:
                return
            unit = UnitOfWork()
            unit.delete(tables.ConfigPolicy, {"id": row.id})
            await self._store.commit(unit)
            log.info(
                "config policy deleted", workspace=workspace_id, workload=workload.value, by=str(by)
            )

        await self._queue.run(turn)

    async def _require_consistent(
        self, workspace_id: int | None, workload: WorkloadType, new: PolicyText
    ) -> None:
        """Raises InvalidConfig for an invariant that breaks a constraint, of its own scope or of the other."""
        others = await self._others(workspace_id, workload)
        scope = THE_CLUSTER
        if workspace_id is not None:
            scope = scope_name(await self._workspace(workspace_id))
        mine = ScopedPolicy(scope, new.policy)
        if problems := await in_parsing_thread(_problems, workload, mine, others):
            raise InvalidConfig(problems, what=WHAT)

    async def _others(self, workspace_id: int | None, workload: WorkloadType) -> list[PolicyRow]:
        """What holds beside it: the cluster's, or those of all workspaces."""
        if workspace_id is not None:
            cluster = await self._queries.row(None, workload)
            return [] if cluster is None else [PolicyRow(cluster, None)]
        policy, workspace = tables.ConfigPolicy, tables.Workspace
        return await self._store.read(
            select(policy, workspace.name)
            .join(workspace, workspace.id == policy.workspace_id)
            .where(policy.workload == workload.value)
            .order_by(workspace.id),
            PolicyRow,
        )

    async def _workspace(self, workspace_id: int) -> str:
        name = await self._store.read_one(
            select(tables.Workspace.name).where(tables.Workspace.id == workspace_id)
        )
        if name is None:
            raise NotFound("workspace", workspace_id)
        return name


def _problems(workload: WorkloadType, mine: ScopedPolicy, others: Sequence[PolicyRow]) -> list[str]:
    """Of the first combination that nobody could keep. Off the event loop: there may be thousands of workspaces."""
    layers: list[list[ScopedPolicy]] = [[mine]]
    for row in others:
        pair = [scoped(row), mine] if row.workspace is not None else [mine, scoped(row)]
        layers.append(pair)
    found = (list(Policies(workload, one).problems()) for one in layers)
    return next((problems for problems in found if problems), [])
