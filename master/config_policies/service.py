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
        for layers in await self._beside(workspace_id, workload, new):
            if problems := list(Policies(workload, layers).problems()):
                raise InvalidConfig(problems, what=WHAT)

    async def _beside(
        self, workspace_id: int | None, workload: WorkloadType, new: PolicyText
    ) -> list[Sequence[ScopedPolicy]]:
        """What would hold: in its workspace, or in each that has a policy of its own."""
        if workspace_id is not None:
            name = await self._workspace(workspace_id)
            cluster = await self._queries.row(None, workload)
            over = [] if cluster is None else [scoped(PolicyRow(cluster, None))]
            return [[ScopedPolicy(scope_name(name), new.policy), *over]]
        mine = ScopedPolicy(THE_CLUSTER, new.policy)
        policy, workspace = tables.ConfigPolicy, tables.Workspace
        rows = await self._store.read(
            select(policy, workspace.name)
            .join(workspace, workspace.id == policy.workspace_id)
            .where(policy.workload == workload.value)
            .order_by(workspace.id),
            PolicyRow,
        )
        under = [scoped(row) for row in rows]
        return [[mine], *([one, mine] for one in under)]

    async def _workspace(self, workspace_id: int) -> str:
        name = await self._store.read_one(
            select(tables.Workspace.name).where(tables.Workspace.id == workspace_id)
        )
        if name is None:
            raise NotFound("workspace", workspace_id)
        return name
